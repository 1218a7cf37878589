// SPDX-License-Identifier: GPL-2.0
/*
 * What it costs to place page tables: Figures 19 to 21 of the DPT paper, with
 * the first touches of its programs at a guest's size.
 *
 * A part of memory is in use first (linux/tests/dpt/held.h).
 *
 * Usage: placement WHAT MB ROUNDS STEPS UTILISATION...
 *
 * with memory of the programs, how often each runs, steps of a stride and memory
 * in use in percent, and of
 *	search	instructions; linux/guest/count.c counts between the marks
 *	moves	pages that were moved out of the way of tables
 *	blocks	free blocks of 2 MB while a program has its memory
 *	cuckoo	instructions while lines of a cuckoo hash table are moved: instead of
 *		memory in use, how many for 1000 pages, of each program in turn
 */
#include "../../tests/dpt/held.h"

#define PARAMETERS	"/sys/module/dpt/parameters/"
#define STEPS		PARAMETERS "max_soa_step"
#define FAR_STEPS	PARAMETERS "far_soa_step"
#define PARTS		6
#define WINDOW		((char *)(1ul << 44))
#define WINDOW_GB	64ul

struct part {
	char *start;
	size_t size;
};

static struct part parts[PARTS];
static unsigned int part_count;
static size_t pages_touched, regions_touched;

/* Free blocks of 2 MB, of which one of 4 MB is two */
static unsigned long free_blocks(void)
{
	unsigned long found = 0, number;
	char line[512];
	FILE *file = fopen("/proc/buddyinfo", "r");

	if (!file)
		fail("/proc/buddyinfo");
	while (fgets(line, sizeof(line), file)) {
		char *at = strstr(line, "zone");
		int order, used;

		if (!at || sscanf(at, "zone %*s%n", &used) < 0)
			fail(line);
		for (order = 0, at += used; sscanf(at, "%lu%n", &number, &used) == 1;
		     order++, at += used)
			if (order >= 9)
				found += number << (order - 9);
	}
	fclose(file);
	return found;
}

/* A page in each GB keeps the tables of upper levels, as in a heap that is larger. */
static void make_window(void)
{
	size_t i;

	for (i = 0; i < WINDOW_GB; i++) {
		char *anchor = mmap(WINDOW + (i << 30), page_size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (anchor == MAP_FAILED)
			fail("mmap");
		*anchor = 1;
	}
}

/* Anywhere in the window, so that each round's tables have other places */
static char *map_anywhere(size_t size)
{
	char *memory;

	do {
		char *hint = WINDOW + random_below((WINDOW_GB << 30) / REGION) * REGION;

		memory = mmap(hint, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
			      MAP_FIXED_NOREPLACE, -1, 0);
	} while (memory == MAP_FAILED && errno == EEXIST);
	if (memory == MAP_FAILED || part_count == PARTS)
		fail("mmap");
	madvise(memory, size, MADV_NOHUGEPAGE);
	parts[part_count++] = (struct part){ memory, size };
	regions_touched += size / REGION;
	return memory;
}

static void unmap_first(void)
{
	munmap(parts[0].start, parts[0].size);
	memmove(parts, parts + 1, --part_count * sizeof(*parts));
}

static void touch(char *memory, size_t page)
{
	memory[page * page_size] = 1;
	pages_touched++;
}

/* Objects of a graph: a heap that grows a little at a time, as a thread's of glibc */
static void graph(size_t size)
{
	const size_t grow = 32;
	char *heap = map_anywhere(size);
	size_t page;

	if (mprotect(heap, size, PROT_NONE))
		fail("mprotect");
	for (page = 0; page < size / page_size; page++) {
		if (page % grow == 0 && mprotect(heap + page * page_size, grow * page_size,
						 PROT_READ | PROT_WRITE))
			fail("mprotect");
		touch(heap, page);
	}
}

/* Counts of k-mers: a hash table that doubles, filled at random from the old one */
static void genes(size_t size)
{
	size_t now, page;

	for (now = size / 8; now <= size; now *= 2) {
		char *table = map_anywhere(now);
		const size_t pages = now / page_size;

		/* An odd factor visits each page once. */
		for (page = 0; page < pages; page++)
			touch(table, page * 40503 % pages);
		if (part_count > 1)
			unmap_first();
	}
}

/* A table for random updates, initialised in order */
static void updates(size_t size)
{
	char *table = map_anywhere(size);
	size_t page;

	for (page = 0; page < size / page_size; page++)
		touch(table, page);
}

/* Grids of energies and cross sections, made side by side */
static void grids(size_t size)
{
	const size_t each = size / 4;
	char *grid[4];
	size_t page, i;

	for (i = 0; i < 4; i++)
		grid[i] = map_anywhere(each);
	for (page = 0; page < each / page_size; page++)
		for (i = 0; i < 4; i++)
			touch(grid[i], page);
}

static const struct {
	const char *name;
	void (*run)(size_t size);
} programs[] = {
	{ "GRAPH", graph }, { "GEN", genes }, { "RND", updates }, { "XS", grids },
};

#define PROGRAMS (sizeof(programs) / sizeof(*programs))

/* Tables that found no place by the hash, and lie anywhere */
static unsigned long anywhere(void)
{
	return access(STATS, R_OK) ? 0 : counter("placed_anywhere");
}

static void clear(void)
{
	while (part_count)
		unmap_first();
}

static void search(size_t size, unsigned int rounds, unsigned int percent)
{
	const int held = hold(percent);
	unsigned int round, i;

	for (i = 0; i < PROGRAMS; i++) {
		for (round = 0; round < rounds; round++) {
			const unsigned long before = anywhere();

			regions_touched = 0;
			mark_begin();
			programs[i].run(size);
			mark_end();
			/* The first one has the program's own faults, too. */
			printf("{\"bench\": \"%s\", \"program\": \"%s\", \"utilisation\": %u, \"tables\": %zu}\n",
			       anywhere() > before ? "no place" : round ? "search" : "warm",
			       programs[i].name, percent, regions_touched);
			clear();
		}
	}
	let_go(held);
}

static void moves(size_t size, unsigned int rounds, unsigned int percent)
{
	const int held = hold(percent);
	const unsigned long moved = counter("cpd_moves"), made = counter("tables");
	unsigned long failed = 0;
	unsigned int round, i;

	pages_touched = 0;
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < PROGRAMS; i++) {
			const unsigned long before = anywhere();

			programs[i].run(size);
			failed += anywhere() > before;
			clear();
		}
	}
	printf("{\"bench\": \"moves\", \"utilisation\": %u, \"pages\": %zu, \"moves\": %lu, \"tables\": %lu, \"broken_off\": %lu}\n",
	       percent, pages_touched, counter("cpd_moves") - moved,
	       counter("tables") - made, failed);
	let_go(held);
}

static void blocks(size_t size, unsigned int rounds, unsigned int percent)
{
	unsigned int round, i;

	for (i = 0; i < PROGRAMS; i++) {
		for (round = 0; round < rounds; round++) {
			const int held = hold(percent);
			const unsigned long before = free_blocks();

			programs[i].run(size);
			printf("{\"bench\": \"blocks\", \"program\": \"%s\", \"before\": %lu, \"blocks\": %lu}\n",
			       programs[i].name, before, free_blocks());
			clear();
			let_go(held);
		}
	}
}

/* All of memory is free: what is measured is what mapping a page takes. */
static void cuckoo(size_t size, unsigned int rounds, unsigned int rate)
{
	static unsigned int program;
	unsigned long moved;
	unsigned int round;
	char text[16];

	snprintf(text, sizeof(text), "%u", rate);
	if (program == PROGRAMS || !write_file(PARAMETERS "cuckoo_rate", text))
		fail(PARAMETERS "cuckoo_rate");
	for (round = 0; round < rounds; round++) {
		const unsigned long before = anywhere();

		pages_touched = 0;
		moved = read_number(PARAMETERS "cuckoo_moved");
		mark_begin();
		programs[program].run(size);
		mark_end();
		printf("{\"bench\": \"%s\", \"program\": \"%s\", \"pages\": %zu, \"moved\": %lu}\n",
		       round && anywhere() == before ? "cuckoo" : "warm", programs[program].name,
		       pages_touched, read_number(PARAMETERS "cuckoo_moved") - moved);
		clear();
	}
	if (!write_file(PARAMETERS "cuckoo_rate", "0"))
		fail(PARAMETERS "cuckoo_rate");
	program++;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*measure)(size_t size, unsigned int rounds, unsigned int percent);
	} kinds[] = { { "search", search }, { "moves", moves }, { "blocks", blocks },
		      { "cuckoo", cuckoo } };
	static char printed[1 << 16];
	unsigned int kind, i;

	if (argc < 6) {
		fprintf(stderr, "placement: WHAT MB ROUNDS STEPS UTILISATION...\n");
		return 2;
	}
	lab_init();
	setvbuf(stdout, printed, _IOFBF, sizeof(printed));
	make_window();
	/* Not for the whole boot: no system runs for long without a search. */
	if (!access(STEPS, W_OK) &&
	    (!write_file(STEPS, argv[4]) || !write_file(FAR_STEPS, argv[4])))
		fail(STEPS);
	for (kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++)
		for (i = 5; !strcmp(kinds[kind].name, argv[1]) && i < (unsigned int)argc; i++)
			kinds[kind].measure(strtoul(argv[2], NULL, 0) << 20,
					    strtoul(argv[3], NULL, 0),
					    strtoul(argv[i], NULL, 0));
	if (!access(STEPS, W_OK) && (!write_file(STEPS, "4") || !write_file(FAR_STEPS, "15")))
		fail(STEPS);
	return 0;
}
