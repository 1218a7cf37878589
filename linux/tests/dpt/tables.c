// SPDX-License-Identifier: GPL-2.0
/*
 * What is done to page tables, done to placed ones: many of them, fork(), moves,
 * huge pages that are made, split and collapsed, threads, and their end. What
 * memory holds is compared; a processor that finds tables by their place would
 * read something else, and the kernel warns of a table that is not at its place.
 */
#include "lab.h"

#include <pthread.h>

#define MANY 192
#define THREADS 4

static char *at(char *memory, int region)
{
	/* Another entry of each table */
	return memory + region * REGION + (region * 5 % 512) * page_size;
}

/* Other programs have tables, too, and may start or end meanwhile: but not each time. */
static void test_many(void)
{
	unsigned long before, there, left;
	int i, attempts = 5;
	bool same = true;

	do {
		before = tables();
		char *memory = map_private(MANY * REGION, MAP_NORESERVE);

		madvise(memory, MANY * REGION, MADV_NOHUGEPAGE);
		for (i = 0; i < MANY; i++)
			fill(at(memory, i), page_size, i);
		there = tables();
		for (i = 0; i < MANY; i++)
			same = same && filled(at(memory, i), page_size, i);
		munmap(memory, MANY * REGION);
		left = tables();
	} while ((there < before + MANY || left > before + 2) && --attempts);
	test_result(there >= before + MANY, "a table for each region: %lu more",
		    there - before);
	test_result(same, "what was written is read");
	test_result(left <= before + 2, "they are gone: %lu before, %lu after", before, left);
}

static int child_reads(void *memory)
{
	int i;

	for (i = 0; i < MANY / 2; i++) {
		if (!filled(at(memory, i), page_size, i))
			return 1;
		fill(at(memory, i), page_size, i + 1000);
	}
	for (i = 0; i < MANY / 2; i++)
		if (!filled(at(memory, i), page_size, i + 1000))
			return 2;
	return 0;
}

static void test_fork(void)
{
	char *memory = map_private(MANY / 2 * REGION, MAP_NORESERVE);
	bool same = true;
	int i, round, status = 0;

	madvise(memory, MANY / 2 * REGION, MADV_NOHUGEPAGE);
	for (i = 0; i < MANY / 2; i++)
		fill(at(memory, i), page_size, i);
	for (round = 0; round < 4 && !status; round++)
		status = in_child(child_reads, memory);
	test_result(!status, "children read and write their own: %d", status);
	for (i = 0; i < MANY / 2; i++)
		same = same && filled(at(memory, i), page_size, i);
	test_result(same, "the parent's is as it was");
	munmap(memory, MANY / 2 * REGION);
}

/* Whole tables could be moved; here they may not. */
static void test_move(void)
{
	const size_t size = 16 * REGION;
	char *room = map_private(4 * size, MAP_NORESERVE);
	char *from = (char *)(((uintptr_t)room + REGION - 1) & -REGION);
	char *to = from + 2 * size;
	bool same = true;
	int round, i;

	madvise(room, 4 * size, MADV_NOHUGEPAGE);
	for (i = 0; i < 16; i++)
		fill(at(from, i), page_size, i);
	for (round = 0; round < 4; round++) {
		char *moved = mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
		char *old = from;

		if (moved == MAP_FAILED)
			fail("mremap");
		for (i = 0; i < 16; i++)
			same = same && filled(at(moved, i), page_size, i);
		from = moved;
		to = old;
	}
	test_result(same, "moved by mremap()");
}

static unsigned long huge_kb(void *memory)
{
	return proc_kb("/proc/self/smaps", memory, "AnonHugePages");
}

static int child_huge(void *memory)
{
	int i;

	for (i = 0; i < 8; i++)
		if (!filled((char *)memory + i * REGION, REGION, i))
			return 1;
	fill(memory, REGION, 77);
	return filled(memory, REGION, 77) ? 0 : 2;
}

static void test_huge(void)
{
	const size_t size = 8 * REGION;
	char *room = map_private(4 * size, MAP_NORESERVE);
	char *memory = (char *)(((uintptr_t)room + REGION - 1) & -REGION);
	bool same = true;
	char *moved;
	int i, order[8] = { 5, 2, 7, 0, 3, 6, 1, 4 };

	madvise(memory, size, MADV_HUGEPAGE);
	for (i = 0; i < 8; i++)
		fill(memory + i * REGION, REGION, i);
	if (!huge_kb(memory)) {
		test_skip("no huge pages");
		return;
	}
	test_result(!in_child(child_huge, memory), "a child has huge pages, too");
	/* Split in another order than they were made: which table is whose? */
	for (i = 0; i < 8; i++)
		if (order[i] != 7 &&
		    mprotect(memory + order[i] * REGION + page_size, page_size, PROT_READ))
			fail("mprotect");
	for (i = 0; i < 8; i++)
		same = same && filled(memory + i * REGION, REGION, i);
	test_result(same && huge_kb(memory) < size >> 10, "split");
	mprotect(memory, size, PROT_READ | PROT_WRITE);
	if (madvise(memory, size, MADV_COLLAPSE))
		test_skip("not collapsed: %s", strerror(errno));
	else
		test_result(huge_kb(memory) == size >> 10, "collapsed");
	moved = mremap(memory, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, memory + 2 * size);
	for (i = 0; i < 8; i++)
		same = same && moved != MAP_FAILED &&
		       filled(moved + i * REGION, REGION, i);
	test_result(same, "moved");
	if (madvise(moved, size, MADV_COLLAPSE))
		test_skip("not collapsed: %s", strerror(errno));
	/* Zap parts, then all; deposited tables go with them. */
	madvise(moved + REGION, REGION / 2, MADV_DONTNEED);
	test_result(zero(moved + REGION, REGION / 2) &&
		    filled(moved + 2 * REGION, REGION, 2), "zapped in part");
	munmap(moved, size);
}

struct work {
	char *memory;
	int seed;
	bool same;
};

/* Threads of one address space map and unmap beside each other. */
static void *thread(void *arg)
{
	struct work *work = arg;
	int round, i;

	work->same = true;
	for (round = 0; round < 40; round++) {
		for (i = 0; i < 16; i++) {
			char *mine = work->memory + i * REGION +
				     (work->seed * 8 + round % 8) * page_size;

			fill(mine, page_size, round + work->seed);
			work->same = work->same &&
				     filled(mine, page_size, round + work->seed);
		}
		/* The tables of this part are the thread's own. */
		char *own = map_private(4 * REGION, MAP_NORESERVE);

		for (i = 0; i < 4; i++)
			own[i * REGION] = round;
		munmap(own, 4 * REGION);
	}
	return NULL;
}

static void test_threads(void)
{
	char *memory = map_private(16 * REGION, MAP_NORESERVE);
	struct work work[THREADS];
	pthread_t threads[THREADS];
	bool same = true;
	int i;

	madvise(memory, 16 * REGION, MADV_NOHUGEPAGE);
	for (i = 0; i < THREADS; i++) {
		work[i] = (struct work){ memory, i, false };
		if (pthread_create(&threads[i], NULL, thread, &work[i]))
			fail("pthread_create");
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		same = same && work[i].same;
	}
	test_result(same, "threads");
	munmap(memory, 16 * REGION);
}

/* More groups of 64 regions than the metadata table has lines at first */
static void test_grow(void)
{
	const unsigned long grown = counter("dmt_grown");
	const size_t step = 64 * REGION;
	char *memory = map_private(100 * step, MAP_NORESERVE);
	bool same = true;
	int i;

	madvise(memory, 100 * step, MADV_NOHUGEPAGE);
	for (i = 0; i < 100; i++)
		fill(memory + i * step, page_size, i);
	for (i = 0; i < 100; i++)
		same = same && filled(memory + i * step, page_size, i);
	test_result(same, "memory over 12 GB of addresses");
	test_result(counter("dmt_grown") > grown, "the metadata table has grown");
	munmap(memory, 100 * step);
}

static void test_counters(void)
{
	test_result(!counter("unplaced"), "each table is where its metadata say");
	test_result(counter("placed_1_0") > 0, "some where the hash says");
	test_result(counter("tables") >= counter("tables_freed"), "freed once");
}

int main(void)
{
	if (access(STATS, R_OK)) {
		printf("ok 1 # SKIP not with dpt=on\n");
		return KSFT_SKIP;
	}
	lab_init();
	test_many();
	test_fork();
	test_move();
	test_huge();
	test_threads();
	test_grow();
	test_counters();
	return test_end();
}
