// SPDX-License-Identifier: GPL-2.0
/*
 * STREAM's triad over three arrays from mmap(), for the FBMM paper's Figure 4: on
 * which nodes the pages are, and, counted by linux/guest/nodes.c, the loads.
 *
 * Usage: stream ARRAY_MB
 */
#include "nodes.h"

static double *array(size_t size)
{
	double *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

int main(int argc, char **argv)
{
	const size_t size = argc > 1 ? strtoul(argv[1], NULL, 0) << 20 : 0;
	const size_t words = size / sizeof(double);
	double *a, *b, *c;
	size_t i, local;

	if (!size) {
		fprintf(stderr, "usage: stream ARRAY_MB\n");
		return 2;
	}
	lab_init();
	a = array(size);
	b = array(size);
	c = array(size);
	for (i = 0; i < words; i++) {
		a[i] = 1;
		b[i] = 2;
		c[i] = 0;
	}
	mark_begin();
	for (i = 0; i < words; i++)
		a[i] = b[i] + 3 * c[i];
	mark_end();
	local = count_local(a, size) + count_local(b, size) + count_local(c, size);
	printf("{\"bench\": \"stream\", \"pages\": %zu, \"local_pages\": %zu}\n",
	       3 * size / page_size, local);
	return a[words / 2] != 2;
}
