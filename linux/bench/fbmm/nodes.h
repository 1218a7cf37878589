/* SPDX-License-Identifier: GPL-2.0 */
/* What benchmarks on two NUMA nodes have in common. */
#ifndef _NODES_H
#define _NODES_H

#include "../../tests/foliomap/lab.h"

#include <sys/syscall.h>

#define MPOL_BIND	2

/* Where node 1's memory starts, in pages. */
static inline uint64_t second_node(void)
{
	FILE *file = fopen("/proc/zoneinfo", "r");
	uint64_t first = UINT64_MAX;
	unsigned long start;
	char line[256];
	int node = -1;

	if (!file)
		fail("/proc/zoneinfo");
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "Node %d,", &node);
		if (sscanf(line, " start_pfn: %lu", &start) == 1 && node == 1 && start &&
		    start < first)
			first = start;
	}
	fclose(file);
	return first;
}

/* How many of these pages are on node 0; quickly, as nothing else runs meanwhile. */
static inline size_t count_local(const void *memory, size_t size)
{
	const uint64_t second = second_node();
	const uint64_t frame = (1ull << 55) - 1;
	const size_t pages = size / page_size;
	uint64_t *entries = malloc(pages * sizeof(*entries));
	const ssize_t bytes = pages * sizeof(*entries);
	size_t i, local = 0;

	if (!entries || pread(pagemap_fd, entries, bytes,
			      (uintptr_t)memory / page_size * sizeof(*entries)) != bytes)
		fail("pagemap");
	for (i = 0; i < pages; i++)
		local += entries[i] >> 63 && (entries[i] & frame) < second;
	free(entries);
	return local;
}

/* Free memory of node 0 that anyone may have: what is above the low watermarks. */
static inline long node_free_mb(void)
{
	char line[128];
	long value, pages = 0;
	int node = -1;
	FILE *file = fopen("/proc/zoneinfo", "r");

	if (!file)
		fail("/proc/zoneinfo");
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "Node %d,", &node);
		if (node != 0)
			continue;
		if (sscanf(line, " pages free %ld", &value) == 1)
			pages += value;
		else if (sscanf(line, " low %ld", &value) == 1)
			pages -= value;
	}
	fclose(file);
	return pages * (long)page_size >> 20;
}

/*
 * Take memory of node 0 until so much is left there to be had. Caches go first, or
 * the kernel would find more there than looked free.
 */
static inline void take_local(long leave_mb)
{
	unsigned long node = 1;
	char *memory;

	sync();
	if (!write_file("/proc/sys/vm/drop_caches", "3"))
		fail("/proc/sys/vm/drop_caches");
	while (node_free_mb() > leave_mb) {
		memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED ||
		    syscall(SYS_mbind, memory, 1 << 20, MPOL_BIND, &node, 8, 0) ||
		    mlock(memory, 1 << 20))
			fail("taking memory of node 0");
	}
}

#endif /* _NODES_H */
