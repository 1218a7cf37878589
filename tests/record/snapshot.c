/*
 * A server that snapshots itself: it fills memory in huge pages' alignment, a child
 * reads it all and is waited for, and the server writes a byte of every page.
 *
 * Usage: snapshot MEGABYTES
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUGE ((size_t)2 << 20)
#define PAGE ((size_t)4096)

int main(int argc, char **argv)
{
	const size_t bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 8) << 20;
	char *memory = mmap(0, bytes + HUGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile char *p;
	pid_t child;
	size_t i;

	if (memory == MAP_FAILED)
		return 1;
	p = (char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
	for (i = 0; i < bytes; i += PAGE)
		p[i] = 1;
	child = fork();
	if (child < 0)
		return 1;
	if (!child) {
		size_t sum = 0;

		for (i = 0; i < bytes; i += PAGE)
			sum += p[i];
		_exit(sum != bytes / PAGE);
	}
	if (waitpid(child, 0, 0) != child)
		return 1;
	for (i = 0; i < bytes; i += PAGE)
		p[i] = 2;
	return 0;
}
