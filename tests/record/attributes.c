/*
 * Asks for attributes of a file. Whatever the file system says of them, it is an answer: an
 * emulator that knows no such calls says ENOSYS, and programs do something else than natively.
 */
#include <errno.h>
#include <sys/xattr.h>

int main(void)
{
	char buffer[65536];

	if (listxattr("/", buffer, sizeof(buffer)) < 0 && errno == ENOSYS)
		return 1;
	if (getxattr("/", "user.pagelab", buffer, sizeof(buffer)) < 0 &&
	    errno == ENOSYS)
		return 2;
	return 0;
}
