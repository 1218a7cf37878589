// SPDX-License-Identifier: GPL-2.0
/*
 * dpt.cuckoo_rate: for each page that is mapped so many lines are moved, and none
 * when it is 0, as at first.
 */
#include "../fbmm/lab.h"

#define RATE "/sys/module/dpt/parameters/cuckoo_rate"
#define MOVED "/sys/module/dpt/parameters/cuckoo_moved"
#define PAGES 4000

/* Lines that were moved while so many pages were touched */
static unsigned long moved(void)
{
	unsigned long before = read_number(MOVED);
	char *memory = map_private(PAGES * page_size, MAP_NORESERVE);
	int i;

	madvise(memory, PAGES * page_size, MADV_NOHUGEPAGE);
	for (i = 0; i < PAGES; i++)
		memory[i * page_size] = 1;
	munmap(memory, PAGES * page_size);
	return read_number(MOVED) - before;
}

int main(void)
{
	unsigned long found;

	lab_init();
	found = moved();
	test_result(!found, "at first none: %lu", found);
	test_result(write_file(RATE, "2500"), "2.5 lines a page");
	/* Other processes have pages, too. */
	found = moved();
	test_result(found >= PAGES * 5 / 2 && found < PAGES * 3, "%lu for %d pages", found,
		    PAGES);
	test_result(!write_file(RATE, "1000000"), "too many are refused");
	test_result(write_file(RATE, "0"), "off again");
	found = moved();
	test_result(!found, "then none: %lu", found);
	return test_end();
}
