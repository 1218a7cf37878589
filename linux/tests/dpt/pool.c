// SPDX-License-Identifier: GPL-2.0
/*
 * Pooling (PTP): the tables of a program's first memory were placed when it started,
 * and are used instead of a search, again and again; memory beyond is searched for.
 * The searches are those of the log, of this program's addresses.
 */
#include "held.h"

#include <pthread.h>

#define PARAMETERS "/sys/module/dpt/parameters/"
#define LOG "/sys/kernel/debug/dpt/log"
#define REGIONS 8
#define BEYOND 32
#define ROUNDS 40
#define PROGRAMS 20

static void set(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	if (!write_file(path, value))
		fail(path);
}

/* Searches in the log for tables of 4 KB entries in this memory, and the log's length */
struct searches {
	unsigned int found, moved;
	unsigned long records;
};

static struct searches searches(const char *memory, size_t size, unsigned long from)
{
	struct searches result = {};
	uint64_t tag;
	char line[1024];
	FILE *file = fopen(LOG, "r");

	if (!file)
		fail(LOG);
	while (fgets(line, sizeof(line), file)) {
		if (result.records++ < from ||
		    sscanf(line, "%lx ", &tag) != 1 ||
		    tag - (uintptr_t)memory / REGION >= size / REGION)
			continue;
		result.found++;
		result.moved += strchr(line, '+') && strstr(line, " d");
	}
	fclose(file);
	return result;
}

static unsigned long now(void)
{
	return searches(NULL, 0, 0).records;
}

/* Write a page of each region, and read them all. */
static bool use(char *memory, int regions, unsigned int seed)
{
	bool same = true;
	int i;

	madvise(memory, regions * REGION, MADV_NOHUGEPAGE);
	for (i = 0; i < regions; i++)
		same = same && zero(memory + i * REGION, page_size);
	for (i = 0; i < regions; i++)
		fill(memory + i * REGION, page_size, seed + i);
	for (i = 0; i < regions; i++)
		same = same && filled(memory + i * REGION, page_size, seed + i);
	return same;
}

static void test_area(void)
{
	const size_t size = REGIONS * REGION;
	unsigned long served = counter("ptp_served"), from = now();
	char *memory = map_private(size, MAP_NORESERVE), *again;
	bool same = use(memory, REGIONS, 1);

	test_result(counter("ptp_served") >= served + REGIONS &&
		    !searches(memory, size, from).found,
		    "tables of the area are the pool's: %lu",
		    counter("ptp_served") - served);
	test_result(searches(memory, size, 0).found == REGIONS,
		    "they were searched for once, before");
	test_result(same, "what was written is read");
	munmap(memory, size);
	again = map_private(size, MAP_NORESERVE);
	from = now();
	same = use(again, REGIONS, 1000);
	test_result(again == memory && !searches(again, size, from).found,
		    "given up and asked for again, it is served again");
	test_result(same, "and is empty at first");
	munmap(again, size);
}

static void test_beyond(void)
{
	const size_t size = BEYOND * REGION;
	char *memory = map_private(size, MAP_NORESERVE);
	unsigned long from = now();
	struct searches seen;
	bool same = use(memory, BEYOND, 7);

	seen = searches(memory, size, from);
	test_result(seen.found >= BEYOND && seen.moved,
		    "more than the pool has is searched for: %u times, %u moved data",
		    seen.found, seen.moved);
	test_result(same, "what was written is read");
	munmap(memory, size);
}

static void test_heap(void)
{
	char *start = (char *)(((uintptr_t)sbrk(0) + REGION - 1) & -REGION);
	const size_t size = REGIONS * REGION;
	unsigned long from = now();
	bool same;

	if (brk(start + size))
		fail("brk");
	same = use(start, REGIONS, 3);
	test_result(!searches(start, size, from).found,
		    "tables of the heap are the pool's");
	test_result(same, "what was written is read");
	brk(start);
}

static int child(void *memory)
{
	int i;

	for (i = 0; i < REGIONS; i++)
		if (!filled((char *)memory + i * REGION, page_size, 1 + i))
			return 1;
	return 0;
}

static void test_fork(void)
{
	const size_t size = REGIONS * REGION;
	char *memory = map_private(size, MAP_NORESERVE);
	bool same = use(memory, REGIONS, 1);
	unsigned long from = now();
	int status = in_child(child, memory);

	test_result(same && !status && searches(memory, size, from).found >= REGIONS,
		    "a child has the memory, and tables of its own");
	munmap(memory, size);
}

struct work {
	char *memory;
	int seed;
	bool same;
};

/* Which of two finds the table gone for the other to use? */
static void *thread(void *arg)
{
	struct work *work = arg;
	char *mine = work->memory + work->seed * page_size;
	int i;

	for (i = 0; i < REGIONS; i++)
		fill(mine + i * REGION, page_size, work->seed);
	work->same = true;
	for (i = 0; i < REGIONS; i++)
		work->same = work->same && filled(mine + i * REGION, page_size, work->seed);
	return NULL;
}

static void test_threads(void)
{
	bool same = true;
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		char *memory = map_private(REGIONS * REGION, MAP_NORESERVE);
		struct work work[2];
		pthread_t threads[2];

		madvise(memory, REGIONS * REGION, MADV_NOHUGEPAGE);
		for (i = 0; i < 2; i++) {
			work[i] = (struct work){ memory, i, false };
			if (pthread_create(&threads[i], NULL, thread, &work[i]))
				fail("pthread_create");
		}
		for (i = 0; i < 2; i++) {
			pthread_join(threads[i], NULL);
			same = same && work[i].same;
		}
		munmap(memory, REGIONS * REGION);
	}
	test_result(same, "threads");
}

static int nothing(void *unused)
{
	(void)unused;
	execl("/bin/true", "true", (char *)NULL);
	return 1;
}

/* Other programs have pools, too, and may start meanwhile: but not each time. */
static void test_end_of_programs(void)
{
	unsigned long before, left, pooled;
	int i, status = 0, attempts = 5;
	bool all;

	do {
		before = tables();
		pooled = counter("ptp_tables");
		for (i = 0; i < PROGRAMS; i++)
			status |= in_child(nothing, NULL);
		left = tables();
		all = counter("ptp_tables") >= pooled + PROGRAMS * 2 * REGIONS;
	} while (!status && all && left >= before + 4 * REGIONS && --attempts);
	test_result(!status && all && left < before + 4 * REGIONS,
		    "programs' pools end with them: %lu tables before, %lu after", before,
		    left);
}

int main(void)
{
	int held;

	if (access(STATS, R_OK) || !read_number(PARAMETERS "ptp_mib")) {
		printf("ok 1 # SKIP not with dpt=on dpt.ptp_mib=...\n");
		return KSFT_SKIP;
	}
	lab_init();
	test_end_of_programs();
	/* The pool was made before. */
	held = hold(90);
	set("fap", "0");
	set("max_cva_count", "0");
	test_area();
	test_beyond();
	test_heap();
	test_fork();
	test_threads();
	test_result(!counter("unplaced"), "each table is where its metadata say");
	let_go(held);
	return test_end();
}
