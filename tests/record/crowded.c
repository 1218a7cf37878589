// Has no descriptor left, and stores far more than a ring holds.
#include <fcntl.h>
#include <sys/resource.h>

#define PLACES 4096
#define STORES 3000000
volatile long places[PLACES];

int main(void)
{
    struct rlimit few = {32, 32};
    if (setrlimit(RLIMIT_NOFILE, &few))
        return 1;
    while (open("/dev/null", O_RDONLY) >= 0)
        ;
    unsigned long x = 1;
    for (long i = 0; i < STORES; i++) {
        x = x * 6364136223846793005 + 1442695040888963407;
        places[x >> 52] = i;
    }
    return 6;
}
