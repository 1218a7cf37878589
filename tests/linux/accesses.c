// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: accesses NODE PASSES: reads each word of 1 MB of memory that is bound to a NUMA
 * node, so many times, and then writes each once, all between marks.
 */
#include "../../linux/bench/fbmm/nodes.h"

#define WORDS	(1 << 17)

int main(int argc, char **argv)
{
	unsigned long mask = 1ul << (argc > 1 ? atoi(argv[1]) : 0);
	int passes = argc > 2 ? atoi(argv[2]) : 1;
	volatile uint64_t *memory;
	uint64_t sum = 0;
	int i, pass;

	memory = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	if (memory == MAP_FAILED ||
	    syscall(SYS_mbind, memory, WORDS * 8, MPOL_BIND, &mask, 8, 0))
		fail("memory of that node");
	for (i = 0; i < WORDS; i++)
		memory[i] = i;
	mark_begin();
	for (pass = 0; pass < passes; pass++)
		for (i = 0; i < WORDS; i++)
			sum += memory[i];
	for (i = 0; i < WORDS; i++)
		memory[i] = sum;
	mark_end();
	printf("%p\n", (void *)memory);
	return 0;
}
