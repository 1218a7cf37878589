// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses are chosen where hardly any are left: the search for an area whose tables have
 * places comes to the lowest address, and begins anew. Memory is mapped as long as there are
 * addresses.
 */
#include "lab.h"

#define SOA "/sys/module/dpt/parameters/max_soa_step"
/* Ends in a page of 2 MB, so that an area may begin within the lowest one */
#define ROOM ((64ul << 20) + (128ul << 10))
#define TOP 0x7ffffffff000ul
#define TRIES 3000
#define MAPPINGS 256

/* Take all addresses above, but for what the stack may need. */
static void fill_above(void)
{
	static unsigned long start[MAPPINGS], end[MAPPINGS];
	unsigned long from = ROOM, to;
	int count = 0, i;
	char line[512];
	FILE *file = fopen("/proc/self/maps", "r");

	if (!file)
		fail("/proc/self/maps");
	while (count < MAPPINGS - 1 && fgets(line, sizeof(line), file))
		if (sscanf(line, "%lx-%lx ", &start[count], &end[count]) == 2 &&
		    start[count] < TOP) {
			if (strstr(line, "[stack]"))
				start[count] -= 2 * REGION;
			count++;
		}
	fclose(file);
	start[count] = end[count] = TOP;
	for (i = 0; i <= count; i++) {
		to = start[i];
		if (from < to &&
		    mmap((void *)from, to - from, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
			 0) != (void *)from)
			fail("mmap above");
		if (end[i] > from)
			from = end[i];
	}
}

int main(void)
{
	unsigned int failed = 0, above = 0, i;
	unsigned long searched;
	size_t part, at;
	char *held;

	if (access(STATS, R_OK)) {
		printf("ok 1 # SKIP not with dpt=on\n");
		return KSFT_SKIP;
	}
	lab_init();
	/* With half of memory in use hardly an area has a place for each table by hash alone. */
	part = proc_kb("/proc/meminfo", NULL, "MemTotal") * 512ul & -page_size;
	held = map_private(part, MAP_NORESERVE);
	madvise(held, part, MADV_NOHUGEPAGE);
	for (at = 0; at < part; at += page_size)
		held[at] = 1;
	fill_above();
	if (!write_file(SOA, "0"))
		fail(SOA);
	searched = counter("cva_attempts");
	for (i = 0; i < TRIES; i++) {
		/* Any, and those that huge pages fill */
		size_t size = REGION + (i % 2 ? rand() % 4096 * page_size :
						rand() % 4 * REGION);
		char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (memory == MAP_FAILED) {
			failed++;
			continue;
		}
		above += memory > (char *)ROOM;
		munmap(memory, size);
	}
	write_file(SOA, "4");
	test_result(!failed, "memory is mapped as long as there are addresses: %u of %u failed",
		    failed, TRIES);
	test_result(!above, "where there are any");
	test_result(counter("cva_attempts") - searched > TRIES, "areas were looked at: %lu",
		    counter("cva_attempts") - searched);
	return test_end();
}
