// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses are chosen so that page tables have places (CVA): with nearly all
 * memory in use, tables of memory that may lie anywhere move hardly any data.
 * Memory that was asked for at an address lies there.
 */
#include "held.h"

#define PARAMETERS "/sys/module/dpt/parameters/"
#define LOG "/sys/kernel/debug/dpt/log"
#define AREAS 120
#define SIZE (2 * REGION)

static void set(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	if (!write_file(path, value))
		fail(path);
}

/* Searches for a place that moved data, of this program's tables; how many in all. */
struct log {
	unsigned long records;
	unsigned int moved;
};

struct area {
	uint64_t tag;
	bool chosen;
};

/*
 * Moves for the tables of areas that were chosen, or that were not, in what was added to
 * the log. The counters do not say for whom: other processes have tables, too, the more
 * the slower the machine is.
 */
static struct log moved_for(const struct area *areas, bool chosen, unsigned long from)
{
	struct log log = {};
	uint64_t tag;
	char line[1024];
	FILE *file = fopen(LOG, "r");
	int i;

	if (!file)
		fail(LOG);
	while (fgets(line, sizeof(line), file)) {
		if (log.records++ < from || !strchr(line, '+') || !strstr(line, " d") ||
		    sscanf(line, "%lx ", &tag) != 1)
			continue;
		for (i = 0; areas && i < AREAS; i++)
			log.moved += areas[i].chosen == chosen &&
				tag - areas[i].tag < SIZE / REGION;
	}
	fclose(file);
	return log;
}

/*
 * Use so many areas one after the other, and note which of them were chosen: as those
 * whose tables had places. What they hold is compared.
 */
static void use(struct area *areas, bool *same)
{
	unsigned long searches, successes;
	char *area[AREAS];
	int i;

	for (i = 0; i < AREAS; i++) {
		searches = counter("cva_searches");
		successes = counter("cva_successes");
		area[i] = map_private(SIZE, MAP_NORESERVE);
		areas[i].tag = (uintptr_t)area[i] / REGION;
		areas[i].chosen = counter("cva_searches") - searches ==
				  counter("cva_successes") - successes;
		madvise(area[i], SIZE, MADV_NOHUGEPAGE);
		fill(area[i], page_size, i);
		fill(area[i] + SIZE - page_size, page_size, i + 1000);
	}
	for (i = 0; i < AREAS; i++) {
		*same = *same && filled(area[i], page_size, i) &&
			filled(area[i] + SIZE - page_size, page_size, i + 1000);
		munmap(area[i], SIZE);
	}
}

int main(void)
{
	struct log start, without, found, others;
	struct area areas[AREAS];
	bool same = true, where = true;
	unsigned long searches;
	char *room;
	int held, i;

	if (access(STATS, R_OK)) {
		printf("ok 1 # SKIP not with dpt=on\n");
		return KSFT_SKIP;
	}
	lab_init();
	held = hold(90);
	/* Else most areas break up blocks, and do not move data. */
	set("fap", "0");
	set("max_cva_count", "0");
	searches = counter("cva_searches");
	start = moved_for(NULL, false, 0);
	use(areas, &same);
	without = moved_for(areas, true, start.records);
	test_result(counter("cva_searches") == searches, "switched off, nothing is searched");
	set("max_cva_count", "4");
	use(areas, &same);
	found = moved_for(areas, true, without.records);
	others = moved_for(areas, false, without.records);
	test_result(same, "what was written is read");
	test_result(counter("cva_successes") > 0, "other addresses were found: %lu of %lu",
		    counter("cva_successes"), counter("cva_searches") - searches);
	test_result(counter("cva_attempts") <= 4 * (counter("cva_searches") - searches),
		    "no more areas are tried than allowed: %lu", counter("cva_attempts"));
	/*
	 * What this does not depend on is how often another address is found, which is
	 * chance. A place may be gone when the table is made: of 50,000 free pages a few
	 * are taken until then, so in a run of 240 tables one may be.
	 */
	test_result(without.moved > 20 && found.moved <= 2,
		    "tables of areas that were found move nothing: %u times, %u in others, %u without",
		    found.moved, others.moved, without.moved);

	room = map_private(64 * SIZE, MAP_NORESERVE);
	munmap(room, 64 * SIZE);
	set("max_cva_mib", "1");
	searches = counter("cva_searches");
	use(areas, &same);
	test_result(counter("cva_searches") == searches, "larger areas are not searched");
	set("max_cva_mib", "128");
	for (i = 0; i < 64; i++) {
		char *asked = room + i * SIZE;
		char *got = mmap(asked, SIZE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | (i % 2 ? MAP_FIXED : 0), -1, 0);

		where = where && got == asked;
	}
	test_result(where && counter("cva_searches") == searches, "what was asked for is given");
	test_result(!counter("unplaced"), "each table is where its metadata say");
	let_go(held);
	return test_end();
}
