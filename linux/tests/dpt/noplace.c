// SPDX-License-Identifier: GPL-2.0
/*
 * No place for a page table: only the frame that the hash names may be used, and
 * a part of memory is. Tables lie anywhere then, as many as are wanted, and the
 * processor finds them, also where two threads made a table for the same region at
 * once and one of them is given back; nothing may fail, and nothing be left afterwards.
 */
#include "lab.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define PARAMETERS "/sys/module/dpt/parameters/"
#define REGIONS 24
#define MANY 4096
#define TRIES 150
#define THREADS 2

static void set(const char *name, const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		fail(path);
	close(fd);
}

/* A table for each region */
static int touch(void *unused)
{
	char *memory = map_private(REGIONS * REGION, MAP_NORESERVE);
	int i;

	(void)unused;
	madvise(memory, REGIONS * REGION, MADV_NOHUGEPAGE);
	for (i = 0; i < REGIONS; i++)
		memory[i * REGION] = i;
	for (i = 0; i < REGIONS; i++)
		if (memory[i * REGION] != (char)i)
			return 1;
	return 0;
}

/* More than one page of exceptions has */
static int touch_many(void *unused)
{
	char *memory = map_private(MANY * REGION, MAP_NORESERVE);
	int i, round;

	(void)unused;
	madvise(memory, MANY * REGION, MADV_NOHUGEPAGE);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < MANY; i++)
			memory[i * REGION] = i;
		for (i = 0; i < MANY; i++)
			if (memory[i * REGION] != (char)i)
				return 1;
		/* Every second table goes, and comes back. */
		for (i = 0; i < MANY; i += 2)
			if (mmap(memory + i * REGION, REGION, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
				 0) == MAP_FAILED)
				return 2;
	}
	return 0;
}

static char *common;
static atomic_int arrived;

/* Threads come to a region together; each has a page of it. */
static void *touch_with(void *page)
{
	int i;

	for (i = 0; i < MANY; i++) {
		atomic_fetch_add(&arrived, 1);
		while (atomic_load(&arrived) < THREADS * (i + 1))
			sched_yield();
		common[i * REGION + (size_t)page] = i + 1;
	}
	return NULL;
}

static int touch_together(void *unused)
{
	pthread_t threads[THREADS];
	size_t t;
	int i;

	(void)unused;
	common = map_private(MANY * REGION, MAP_NORESERVE);
	madvise(common, MANY * REGION, MADV_NOHUGEPAGE);
	for (t = 0; t < THREADS; t++)
		if (pthread_create(&threads[t], NULL, touch_with, (void *)(t * page_size)))
			return 1;
	for (t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	for (i = 0; i < MANY; i++)
		for (t = 0; t < THREADS; t++)
			if (common[i * REGION + t * page_size] != (char)(i + 1))
				return 2;
	return 0;
}

int main(void)
{
	unsigned long before, anywhere, grown, made;
	unsigned int failed = 0, i;
	size_t part;
	char *held;

	if (access(STATS, R_OK)) {
		printf("ok 1 # SKIP not with dpt=on\n");
		return KSFT_SKIP;
	}
	lab_init();
	part = proc_kb("/proc/meminfo", NULL, "MemTotal") * 128ul;
	held = map_private(part, MAP_NORESERVE);
	madvise(held, part, MADV_NOHUGEPAGE);
	for (i = 0; i < part / page_size; i++)
		held[i * page_size] = 1;
	before = tables();
	anywhere = counter("placed_anywhere");
	grown = counter("exceptions_grown");
	set("max_soa_step", "0");
	set("far_soa_step", "0");
	set("cpd", "0");
	for (i = 0; i < TRIES; i++)
		failed += in_child(touch, NULL) != 0;
	test_result(!failed, "%u of %u processes failed", failed, TRIES);
	test_result(counter("placed_anywhere") > anywhere, "%lu tables lay anywhere",
		    counter("placed_anywhere") - anywhere);
	failed = in_child(touch_many, NULL);
	grown = counter("exceptions_grown") - grown;
	test_result(!failed && grown, "there may be many: %u, grown %lu times", failed, grown);
	made = counter("tables");
	failed = in_child(touch_together, NULL);
	made = counter("tables") - made;
	test_result(!failed, "threads make them together: %u, %lu for %d regions", failed, made,
		    MANY);
	failed = 0;
	anywhere = counter("placed_anywhere");
	set("far_soa_step", "15");
	for (i = 0; i < TRIES / 5; i++)
		failed += in_child(touch, NULL) != 0;
	test_result(!failed && counter("placed_anywhere") == anywhere,
		    "further steps find a place instead: %lu lay anywhere",
		    counter("placed_anywhere") - anywhere);
	set("max_soa_step", "4");
	set("cpd", "1");
	test_result(!in_child(touch, NULL), "all is well again");
	test_result(held[part / 2 & -page_size] == 1, "what was held is held");
	munmap(held, part);
	test_result(!counter("unplaced"), "each table is where its metadata say");
	test_result(tables() <= before + 8, "no table is left: %lu before, %lu after", before,
		    tables());
	return test_end();
}
