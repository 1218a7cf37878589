// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses are chosen so that page tables have places (CVA): with nearly all
 * memory in use, tables of memory that may lie anywhere move hardly any data.
 * Memory that was asked for at an address lies there.
 */
#include "held.h"

#define PARAMETERS "/sys/module/dpt/parameters/"
#define AREAS 120
#define SIZE (2 * REGION)

static void set(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	if (!write_file(path, value))
		fail(path);
}

/* Pages that were moved for the tables of so many areas; what they hold is compared. */
static unsigned long moved(bool *same)
{
	const unsigned long before = counter("cpd_moves");
	char *area[AREAS];
	int i;

	for (i = 0; i < AREAS; i++) {
		area[i] = map_private(SIZE, MAP_NORESERVE);
		madvise(area[i], SIZE, MADV_NOHUGEPAGE);
		fill(area[i], page_size, i);
		fill(area[i] + SIZE - page_size, page_size, i + 1000);
	}
	for (i = 0; i < AREAS; i++) {
		*same = *same && filled(area[i], page_size, i) &&
			filled(area[i] + SIZE - page_size, page_size, i + 1000);
		munmap(area[i], SIZE);
	}
	return counter("cpd_moves") - before;
}

int main(void)
{
	unsigned long without, with, searches;
	bool same = true, where = true;
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
	without = moved(&same);
	test_result(counter("cva_searches") == searches, "switched off, nothing is searched");
	set("max_cva_count", "4");
	with = moved(&same);
	test_result(same, "what was written is read");
	test_result(counter("cva_successes") > 0, "other addresses were found: %lu of %lu",
		    counter("cva_successes"), counter("cva_searches") - searches);
	test_result(counter("cva_attempts") <= 4 * (counter("cva_searches") - searches),
		    "no more areas are tried than allowed: %lu", counter("cva_attempts"));
	test_result(with * 3 < without, "pages moved: %lu without, %lu with", without, with);

	room = map_private(64 * SIZE, MAP_NORESERVE);
	munmap(room, 64 * SIZE);
	set("max_cva_mib", "1");
	searches = counter("cva_searches");
	moved(&same);
	test_result(counter("cva_searches") == searches, "larger areas are not searched");
	set("max_cva_mib", "128");
	for (i = 0; i < 64; i++) {
		char *asked = room + i * SIZE;
		char *got = mmap(asked, SIZE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | (i % 2 ? MAP_FIXED : 0), -1, 0);

		where = where && got == asked;
	}
	test_result(where && counter("cva_searches") == searches, "what was asked for is given");
	test_result(!counter("unplaced") && !counter("no_place"), "each table has a place");
	let_go(held);
	return test_end();
}
