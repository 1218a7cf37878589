// SPDX-License-Identifier: GPL-2.0
/*
 * Many tables while little memory is free: none may be without a place. What fills memory are huge
 * pages of hugetlb, which nothing moves, locked memory, which can be moved, or, where the test has
 * its memory from a memory file system, that one's pool.
 */
#include "lab.h"

#include <sys/resource.h>

#define TABLES 10000ul
#define REGIONS 64
#define LEFT 20ul	/* of so much memory one part stays free */
#define HUGEPAGES "/proc/sys/vm/nr_hugepages"

static unsigned long memory_kb(const char *what)
{
	return proc_kb("/proc/meminfo", NULL, what);
}

/* How much to take, KB */
static unsigned long surplus(void)
{
	const unsigned long left = memory_kb("MemTotal") / LEFT, free = memory_kb("MemFree");

	return free > left ? free - left : 0;
}

/* A table for each region, with what is written there */
static int touch(void *unused)
{
	char *memory = map_private(REGIONS * REGION, MAP_NORESERVE);
	int i;

	(void)unused;
	madvise(memory, REGIONS * REGION, MADV_NOHUGEPAGE);
	for (i = 0; i < REGIONS; i++)
		memory[i * REGION] = i + 1;
	for (i = 0; i < REGIONS; i++)
		if (memory[i * REGION] != i + 1)
			return 1;
	return 0;
}

static void many(const char *filled)
{
	const unsigned long before = counter("tables"), anywhere = counter("placed_anywhere");
	const unsigned long free = memory_kb("MemFree") >> 10;
	unsigned long failed = 0, programs = 0;

	while (counter("tables") - before < TABLES) {
		const pid_t pid = fork();
		int status;

		if (!pid)
			_exit(touch(NULL));
		programs++;
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			failed++;
		if (failed > 100)
			break;
	}
	test_result(!failed, "%s, %lu MB free: %lu of %lu programs failed, %lu tables, %lu anywhere",
		    filled, free, failed, programs, counter("tables") - before,
		    counter("placed_anywhere") - anywhere);
}

static void by_hugetlb(void)
{
	char text[32];

	snprintf(text, sizeof(text), "%lu", surplus() >> 11);
	if (!write_file(HUGEPAGES, text))
		fail(HUGEPAGES);
	many("huge pages");
	write_file(HUGEPAGES, "0");
}

static void by_locking(void)
{
	const size_t size = surplus() << 10;
	char *memory = map_private(size, MAP_NORESERVE);

	madvise(memory, size, MADV_NOHUGEPAGE);
	if (mlock(memory, size))
		fail("mlock");
	many("locked memory");
	munmap(memory, size);
}

int main(void)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	unsigned long before;

	if (access(STATS, R_OK)) {
		printf("ok 1 # SKIP not with dpt=on\n");
		return KSFT_SKIP;
	}
	lab_init();
	setrlimit(RLIMIT_MEMLOCK, &all);
	before = tables();
	if (*default_mount()) {
		many("a memory file system's pool");
	} else {
		by_hugetlb();
		by_locking();
	}
	test_result(!counter("unplaced"), "no table is where it should not be");
	test_result(tables() <= before + 8, "no table is left: %lu before, %lu after", before,
		    tables());
	return test_end();
}
