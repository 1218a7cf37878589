// SPDX-License-Identifier: GPL-2.0
/*
 * Stores a word in each of PAGES pages of 4 KB, every STRIDE-th of a region at SMALL, and
 * reads them again; then stores a word in TOUCHES places of a page of 2 MB at LARGE.
 * tests/linux/test_recording.py has the same numbers.
 */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#define SMALL	0x100000000000ul
#define LARGE	0x200000000000ul
#define PAGES	48
#define STRIDE	17
#define TOUCHES	5
#define MIB	(1ul << 20)

static volatile uint64_t *map(uintptr_t at, size_t size, int advice)
{
	void *memory = mmap((void *)at, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, size, advice)) {
		perror("memory");
		return NULL;
	}
	return memory;
}

int main(void)
{
	volatile uint64_t *small = map(SMALL, 4 * MIB, MADV_NOHUGEPAGE);
	volatile uint64_t *large = map(LARGE, 2 * MIB, MADV_HUGEPAGE);
	uint64_t sum = 0;
	size_t i;

	if (!small || !large)
		return 1;
	for (i = 0; i < PAGES; i++)
		small[i * STRIDE * 512 + i] = i;
	for (i = 0; i < PAGES; i++)
		sum += small[i * STRIDE * 512 + i];
	for (i = 0; i < TOUCHES; i++)
		large[i * 512 * 3] = i;
	return sum != PAGES * (PAGES - 1) / 2;
}
