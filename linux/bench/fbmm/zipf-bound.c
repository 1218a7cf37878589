// SPDX-License-Identifier: GPL-2.0
/*
 * What part of memcached's reads must be of remote pages in the FBMM paper's Figure
 * 3, by what its authors' scripts ask for: 40 GB with 10 GB local, (40 - 1) GB /
 * 1350 bytes = 31 million records, 10 million reads (multifacet/fbmm-artifact,
 * README.md; multifacet/fbmm-workspace, runner/src/fbmm_exp.rs).
 *
 * YCSB draws ranks from ten billion, whose zeta it has as a constant, and hashes
 * them to items (ScrambledZipfianGenerator.java). memcached puts items in slabs of 1
 * MB in the order they come, 708 of its 1480-byte class in each. "Known" places the
 * pages that get most of the reads. "First" is reads that are the first of their
 * page, if nothing is known of it: then it is local as often as any.
 *
 * Runs on the host, in a second: cc -O2 zipf-bound.c -lm
 */
#include <stdio.h>
#include <stdlib.h>

#include "zipf.h"

#define RANKS		1e10
#define ZETA		26.46902820178302
#define ITEMS		((39ull << 30) / 1350)
#define READS		10000000
#define LOCAL_PAGES	((10ull << 30) / 4096)
#define CHUNK		1480
#define IN_SLAB		((1 << 20) / CHUNK)
#define SLAB_PAGES	((1 << 20) / 4096)

static int by_reads(const void *a, const void *b)
{
	const unsigned int x = *(const unsigned int *)a, y = *(const unsigned int *)b;

	return (x < y) - (x > y);
}

int main(void)
{
	const size_t pages = (ITEMS / IN_SLAB + 1) * SLAB_PAGES;
	unsigned int *reads = calloc(pages, sizeof(*reads));
	size_t item, i, used = 0;
	unsigned long local = 0;

	if (!reads) {
		perror("zipf-bound");
		return 1;
	}
	zipf_init(RANKS, ZETA);
	for (i = 0; i < READS; i++) {
		item = next_item(ITEMS);
		reads[item / IN_SLAB * SLAB_PAGES + item % IN_SLAB * CHUNK / 4096]++;
	}
	for (i = 0; i < pages; i++)
		if (reads[i])
			reads[used++] = reads[i];
	qsort(reads, used, sizeof(*reads), by_reads);
	for (i = 0; i < LOCAL_PAGES && i < used; i++)
		local += reads[i];
	printf("%llu records, %zu pages, %zu of them read\n", ITEMS, pages, used);
	printf("remote at least, known: %.1f %%\n", 100 - 100.0 * local / READS);
	printf("remote at least, first: %.1f %%\n",
	       100.0 * used / READS * (1 - (double)LOCAL_PAGES / pages));
	free(reads);
	return 0;
}
