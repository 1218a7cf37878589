// SPDX-License-Identifier: GPL-2.0
/*
 * Random updates, 90 % of them in a hot part that moves to another place halfway:
 * the FBMM paper's Table 5. Which share of the accesses is remote?
 *
 * linux/guest/nodes.c counts the accesses between the marks, a line for each JSON
 * object printed here. With "hog", the benchmark first takes memory of node 0 until
 * LOCAL megabytes are left there to be had, so that Linux by itself has as much of
 * it as a memory file system's local pool.
 *
 * Usage: gups TOTAL_MB HOT_MB MOVE_MB UPDATES LOCAL_MB [hog]
 */
#include "nodes.h"

#define SLICES		8	/* of the updates before the move, and after it */

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void update(uint64_t *table, size_t words, size_t hot, size_t hot_words,
		   unsigned long updates, uint64_t *state)
{
	unsigned long i;
	size_t at;

	for (i = 0; i < updates; i++) {
		const uint64_t r = next_random(state);

		at = r % 10 ? hot + (r >> 8) % hot_words : (r >> 8) % words;
		((volatile uint64_t *)table)[at] ^= r;
	}
}

int main(int argc, char **argv)
{
	size_t words, hot_words, move, slice;
	uint64_t state = 88172645463325252ull, *table;
	unsigned long updates;

	if (argc < 6) {
		fprintf(stderr, "usage: gups TOTAL_MB HOT_MB MOVE_MB UPDATES LOCAL_MB [hog]\n");
		return 2;
	}
	words = strtoul(argv[1], NULL, 0) << 17;
	hot_words = strtoul(argv[2], NULL, 0) << 17;
	move = strtoul(argv[3], NULL, 0) << 17;
	updates = strtoul(argv[4], NULL, 0);
	if (!hot_words || move + hot_words > words) {
		fprintf(stderr, "gups: the hot part does not fit\n");
		return 2;
	}
	lab_init();
	if (argc > 6)
		take_local(strtol(argv[5], NULL, 0));

	table = mmap(NULL, words * 8, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED)
		fail("mmap");
	for (size_t i = 0; i < words; i += page_size / 8)
		table[i] = i;
	for (slice = 0; slice < 2 * SLICES; slice++) {
		const bool moved = slice >= SLICES;
		const size_t local = count_local(table, words * 8);

		mark_begin();
		update(table, words, moved ? move : 0, hot_words,
		       updates / (2 * SLICES), &state);
		mark_end();
		printf("{\"bench\": \"gups\", \"moved\": %s, \"updates\": %lu, \"local_pages\": %zu}\n",
		       moved ? "true" : "false", updates / (2 * SLICES), local);
		fflush(stdout);
	}
	return 0;
}
