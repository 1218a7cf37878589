// New namespaces of process numbers are refused, others are not: by their flag, or by a descriptor of one.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>

int main(void)
{
    if (unshare(CLONE_NEWPID) != -1 || errno != EINVAL)
        return 1;
    int space = open("/proc/self/ns/pid", O_RDONLY);
    if (space < 0 || setns(space, 0) != -1 || errno != EINVAL)
        return 2;
    if (setns(space, CLONE_NEWPID) != -1 || errno != EINVAL)
        return 3;
    if (unshare(CLONE_FILES) != 0)
        return 4;
    return 5;
}
