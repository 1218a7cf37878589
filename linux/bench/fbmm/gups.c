// SPDX-License-Identifier: GPL-2.0
/*
 * Random updates, 90 % of them in a hot part that moves to another place halfway:
 * the FBMM paper's Table 5. Which share of the accesses is remote?
 *
 * Every 64th update looks up in /proc/self/pagemap on which node its page is. The
 * process runs on node 0. With HOG, it first takes memory of node 0 until only
 * LOCAL megabytes are free there, so that Linux by itself has no more of it than
 * a memory file system's local pool.
 *
 * Prints a JSON object for the first half after each move and one for the second.
 *
 * Usage: gups TOTAL_MB HOT_MB UPDATES LOCAL_MB [hog]
 */
#include "../../tests/foliomap/lab.h"

#include <sched.h>
#include <sys/syscall.h>

#define SAMPLE		64
#define MPOL_BIND	2

static uint64_t first_frame[2];		/* of the nodes */

static void read_nodes(void)
{
	FILE *file = fopen("/proc/zoneinfo", "r");
	unsigned long start;
	char line[256];
	int node = -1;

	first_frame[0] = first_frame[1] = UINT64_MAX;
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "Node %d,", &node);
		if (sscanf(line, " start_pfn: %lu", &start) == 1 && node >= 0 && node < 2 &&
		    start && start < first_frame[node])
			first_frame[node] = start;
	}
	fclose(file);
}

static bool is_remote(const volatile uint64_t *word)
{
	return page_frame((const void *)word) >= first_frame[1];
}

static unsigned long node_free_mb(void)
{
	char line[128];
	unsigned long kb = 0;
	FILE *file = fopen("/sys/devices/system/node/node0/meminfo", "r");

	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Node 0 MemFree: %lu", &kb) == 1)
			break;
	fclose(file);
	return kb >> 10;
}

static void take_local(unsigned long leave_mb)
{
	unsigned long node = 1;
	char *memory;

	while (node_free_mb() > leave_mb) {
		memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED ||
		    syscall(SYS_mbind, memory, 1 << 20, MPOL_BIND, &node, 8, 0) ||
		    mlock(memory, 1 << 20))
			fail("taking memory of node 0");
	}
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void update(uint64_t *table, size_t words, size_t hot, size_t hot_words,
		   unsigned long updates, uint64_t *state, const char *what)
{
	unsigned long i, samples = 0, remote = 0;
	size_t at;

	for (i = 0; i < updates; i++) {
		const uint64_t r = next_random(state);

		at = r % 10 ? hot + (r >> 8) % hot_words : (r >> 8) % words;
		((volatile uint64_t *)table)[at] ^= r;
		if (i % SAMPLE == 0) {
			samples++;
			remote += is_remote(&table[at]);
		}
	}
	printf("{\"bench\": \"gups %s\", \"samples\": %lu, \"remote\": %lu}\n", what,
	       samples, remote);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	cpu_set_t cpu;
	size_t words, hot_words;
	unsigned long updates;
	uint64_t state = 88172645463325252ull, *table;

	if (argc < 5) {
		fprintf(stderr, "usage: gups TOTAL_MB HOT_MB UPDATES LOCAL_MB [hog]\n");
		return 2;
	}
	words = strtoul(argv[1], NULL, 0) << 17;
	hot_words = strtoul(argv[2], NULL, 0) << 17;
	updates = strtoul(argv[3], NULL, 0);
	lab_init();
	read_nodes();
	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	if (argc > 5)
		take_local(strtoul(argv[4], NULL, 0));

	table = mmap(NULL, words * 8, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED)
		fail("mmap");
	for (size_t i = 0; i < words; i += page_size / 8)
		table[i] = i;
	/* First a hot part that was local when it was touched, then one that was not */
	update(table, words, 0, hot_words, updates / 2, &state, "before the move, first half");
	update(table, words, 0, hot_words, updates / 2, &state, "before the move, second half");
	update(table, words, words / 2, hot_words, updates / 2, &state, "after the move, first half");
	update(table, words, words / 2, hot_words, updates / 2, &state, "after the move, second half");
	return 0;
}
