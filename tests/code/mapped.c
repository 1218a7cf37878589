// Reads one address of each page of the file of the first argument, which has 4,096 pages, privately and,
// of the first half, shared.
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>

#define BYTES (4096ul * 4096)

int main(int argc, char **argv)
{
	int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	volatile char *one = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, file, 0);
	volatile char *other = mmap(NULL, BYTES / 2, PROT_READ, MAP_SHARED, file, 0);

	if (one == MAP_FAILED || other == MAP_FAILED)
		return 1;
	for (size_t at = 0; at < BYTES; at += 4096)
		one[at];
	for (size_t at = 0; at < BYTES / 2; at += 4096)
		other[at];
	return 0;
}
