/*
 * Memory of which khugepaged may make huge pages: of 100 regions of 2 MiB some pages are
 * touched, and then huge pages are asked for. It counts for a while, in which khugepaged
 * looks at all of it, or has the kernel collapse it at once.
 *
 * Usage: sparse PAGES [MILLIONS | collapse]
 *
 * PAGES of each region, or with 0 another number of each, from 1 to 512, at random.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define HUGE	((size_t)2 << 20)
#define PAGE	((size_t)4096)
#define REGIONS	100
#define PAGES	(HUGE / PAGE)

static size_t random_pages(void)
{
	static uint64_t state = 88172645463325252;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return 1 + state % PAGES;
}

int main(int argc, char **argv)
{
	const size_t wanted = argc > 1 ? strtoul(argv[1], 0, 10) : 1;
	const char *then = argc > 2 ? argv[2] : "5";
	volatile long left = 1000000 * atol(then);
	char *memory = mmap(0, (REGIONS + 1) * HUGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *first;

	if (memory == MAP_FAILED)
		return 1;
	first = (char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
	for (size_t region = 0; region < REGIONS; region++) {
		const size_t pages = wanted ? wanted : random_pages();

		/* 167 has no factor in common with 512. */
		for (size_t at = 0; at < pages; at++)
			*(volatile char *)(first + region * HUGE + at * 167 % PAGES * PAGE) = 1;
	}
	if (!strcmp(then, "collapse"))
		return madvise(first, REGIONS * HUGE, MADV_COLLAPSE) != 0;
	if (madvise(first, REGIONS * HUGE, MADV_HUGEPAGE))
		return 1;
	while (left > 0)
		left--;
	return 0;
}
