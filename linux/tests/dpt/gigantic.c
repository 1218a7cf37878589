// SPDX-License-Identifier: GPL-2.0
/*
 * A page of 1 GB, whose entry is in a table of the third level: written and read at
 * many places, by a child too, made read-only and given up.
 */
#include "lab.h"

#include <setjmp.h>

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#define GIGA (1ul << 30)
#define PLACES 64

static sigjmp_buf refused;

static char *place(char *memory, int i)
{
	return memory + i * (GIGA / PLACES) + (i * 5 % 512) * page_size;
}

static bool all_filled(void *memory)
{
	bool same = true;
	int i;

	for (i = 0; i < PLACES; i++)
		same = same && filled(place(memory, i), page_size, i);
	return same;
}

static int child(void *memory)
{
	return all_filled(memory) ? 0 : 1;
}

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(refused, 1);
}

int main(void)
{
	const unsigned long before = tables();
	volatile bool stopped = false;
	char *memory;
	int i;

	lab_init();
	memory = mmap(NULL, GIGA, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | 30 << MAP_HUGE_SHIFT, -1, 0);
	if (memory == MAP_FAILED) {
		printf("ok 1 # SKIP no page of 1 GB: %s\n", strerror(errno));
		return KSFT_SKIP;
	}
	for (i = 0; i < PLACES; i++)
		fill(place(memory, i), page_size, i);
	test_result(all_filled(memory), "what was written is read");
	test_result(!in_child(child, memory), "and by a child");
	if (mprotect(memory, GIGA, PROT_READ))
		fail("mprotect");
	signal(SIGSEGV, on_fault);
	if (!sigsetjmp(refused, 1))
		*place(memory, 3) = 1;
	else
		stopped = true;
	test_result(stopped && all_filled(memory), "read-only, it is not written");
	munmap(memory, GIGA);
	signal(SIGSEGV, on_fault);
	stopped = false;
	if (!sigsetjmp(refused, 1))
		stopped = *(volatile char *)place(memory, 5) && false;
	else
		stopped = true;
	test_result(stopped, "given up, it is not read");
	test_result(!counter("unplaced") && tables() <= before + 16,
		    "each table has a place, and none is left: %lu before, %lu after", before,
		    tables());
	return test_end();
}
