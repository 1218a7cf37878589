/* Touches memory first in three ways, with work between: first_touches nodes|doubled|zeros */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096L

/* 300,000 accesses. */
static void work(void)
{
	static volatile long cells[64];

	for (long i = 0; i < 150000; i++)
		cells[i % 64] += i;
}

static char *map(long bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* A heap that grows, page by page. */
static void nodes(void)
{
	for (int step = 0; step < 50; step++, work())
		for (int node = 0; node < 500; node++)
			memset(malloc(200), 1, 200);
}

/* An array that is copied to one of twice the size, and given back. */
static void doubled(void)
{
	long bytes = 16 * PAGE;
	char *old = map(bytes);

	memset(old, 1, bytes);
	for (; bytes < 2048 * PAGE; bytes *= 2) {
		char *twice = map(2 * bytes);

		memcpy(twice, old, bytes);
		munmap(old, bytes);
		for (int i = 0; i < 7; i++)
			work();
		memset(twice + bytes, 1, bytes);
		old = twice;
	}
}

/*
 * Memory of which one part is stored to, and another only loaded from: no huge
 * page has both, since which of two comes first is not known.
 */
static void zeros(void)
{
	volatile char *memory = map(2560 * PAGE);
	long page = 0;

	for (int step = 0; step < 50; step++, work())
		for (int i = 0; i < 20; i++, page++) {
			memory[page * PAGE] = 1;
			(void)memory[(1536 + page) * PAGE];
		}
}

int main(int count, char **words)
{
	switch (count > 1 ? words[1][0] : 0) {
	case 'n':
		nodes();
		return 0;
	case 'd':
		doubled();
		return 0;
	case 'z':
		zeros();
		return 0;
	}
	return 1;
}
