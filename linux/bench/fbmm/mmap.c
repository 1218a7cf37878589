// SPDX-License-Identifier: GPL-2.0
/*
 * mmap() and munmap() of anonymous memory, plain and populated, for some sizes:
 * the FBMM paper's Table 3. Also page faults one by one, for which it says that
 * they behave as MAP_POPULATE. And fork(), and what is written after it, for which it has no figures.
 *
 * Calls are made in rounds, so that their median has no interrupts in it. Prints a
 * JSON object for each, after all; linux/guest/count.c counts between the marks.
 *
 * Usage: mmap CALLS MAX_PAGES	at most so many calls, at most so many pages mapped
 */
#include "../../tests/foliomap/lab.h"

#include <sched.h>
#include <sys/wait.h>

#define ROUNDS	100
#define FORKS	25

static bool warm;	/* else nothing is printed, or counted */

static void begin(void)
{
	if (warm)
		mark_begin();
}

static void end(const char *what, size_t pages, size_t calls)
{
	if (!warm)
		return;
	mark_end();
	printf("{\"bench\": \"%s\", \"pages\": %zu, \"calls\": %zu}\n", what, pages,
	       calls);
}

/* How many calls make a round, so that all of them are as long. */
static size_t round_of(size_t calls)
{
	return calls < ROUNDS ? 1 : calls / ROUNDS;
}

static void measure(size_t pages, size_t calls, int flags, const char *map,
		    const char *unmap)
{
	const size_t size = pages * page_size, round = round_of(calls);
	char **at = malloc(calls * sizeof(*at));
	size_t first, i;

	if (!at)
		fail("malloc");
	/* Its faults are not to be counted. (Zeros would make a calloc() of it.) */
	memset(at, 0xff, calls * sizeof(*at));
	for (first = 0; first + round <= calls; first += round) {
		begin();
		for (i = first; i < first + round; i++)
			at[i] = mmap(NULL, size, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
		end(map, pages, round);
		for (i = first; i < first + round; i++)
			if (at[i] == MAP_FAILED)
				fail("mmap");
	}
	for (first = 0; first + round <= calls; first += round) {
		begin();
		for (i = first; i < first + round; i++)
			munmap(at[i], size);
		end(unmap, pages, round);
	}
	free(at);
}

static void measure_faults(size_t pages)
{
	volatile char *memory = mmap(NULL, pages * page_size, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const size_t round = round_of(pages);
	size_t first, i;

	if (memory == MAP_FAILED)
		fail("mmap");
	for (first = 0; first + round <= pages; first += round) {
		begin();
		for (i = first; i < first + round; i++)
			memory[i * page_size] = 1;
		end("fault", 1, round);
	}
	munmap((void *)memory, pages * page_size);
}

/* Of written memory; the child, which ends at once, runs when the parent waits. */
static void measure_fork(size_t pages)
{
	volatile char *memory = mmap(NULL, pages * page_size, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t round, i;
	pid_t pid;

	if (memory == MAP_FAILED)
		fail("mmap");
	for (round = 0; round < FORKS; round++) {
		for (i = 0; i < pages; i++)
			memory[i * page_size] = round;
		begin();
		pid = fork();
		if (!pid)
			_exit(0);
		end("fork", pages, 1);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			fail("fork");
	}
	munmap((void *)memory, pages * page_size);
}

enum way { IN_ORDER, SCATTERED, ALONE };

/* Number of the page that is written as @nr, of a power of two of them */
static size_t page_of(enum way way, size_t nr, size_t pages, size_t *last)
{
	switch (way) {
	case SCATTERED:	/* each once, as an LCG of full period has them */
		return *last = (*last * 1229 + 1) % pages;
	case ALONE:	/* one in each eight, from the last to the first */
		return pages - 1 - nr * 8 % pages;
	default:
		return nr;
	}
}

static void write_pages(volatile char *memory, size_t pages, enum way way, const char *what)
{
	const size_t some = way == ALONE ? pages / 8 : pages, part = round_of(some);
	size_t first, i, last = 0;

	for (first = 0; first + part <= some; first += part) {
		begin();
		for (i = first; i < first + part; i++)
			memory[page_of(way, i, pages, &last) * page_size] = 2;
		end(what, 1, part);
	}
}

static void child_comes_and_goes(void)
{
	const pid_t pid = fork();

	if (!pid)
		_exit(0);
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		fail("fork");
}

/*
 * What a parent writes while its child has the same memory, and waits; what it writes when its
 * child is gone, which copies nothing; and all of it with fork() and the child's end.
 */
static void measure_writes(size_t pages)
{
	volatile char *memory = mmap(NULL, pages * page_size, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t round, i;
	int ends[2];
	pid_t pid;
	char c;

	if (memory == MAP_FAILED)
		fail("mmap");
	for (i = 0; i < pages; i++)
		memory[i * page_size] = 1;
	if (pipe(ends))
		fail("pipe");
	pid = fork();
	if (!pid)
		_exit(close(ends[1]) || read(ends[0], &c, 1));
	write_pages(memory, pages, IN_ORDER, "write after fork");
	close(ends[0]);
	close(ends[1]);
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		fail("fork");
	child_comes_and_goes();
	write_pages(memory, pages, IN_ORDER, "write after the child");
	child_comes_and_goes();
	write_pages(memory, pages, SCATTERED, "write after the child, scattered");
	child_comes_and_goes();
	write_pages(memory, pages, ALONE, "write after the child, one in eight");
	for (round = 0; round < FORKS; round++) {
		begin();
		pid = fork();
		if (!pid)
			_exit(0);
		for (i = 0; i < pages; i++)
			memory[i * page_size] = round;
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			fail("fork");
		end("fork, write, exit", pages, 1);
	}
	munmap((void *)memory, pages * page_size);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 1, 2, 8, 32, 128 };
	static const struct sched_param first = { .sched_priority = 1 };
	static char printed[1 << 20];
	const size_t calls = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000;
	const size_t most = argc > 2 ? strtoul(argv[2], NULL, 0) : 16384;
	size_t i, n;

	lab_init();
	setvbuf(stdout, printed, _IOFBF, sizeof(printed));
	/* Caches, page tables and the first file are not what is measured. */
	measure(128, 8, MAP_POPULATE, "", "");
	measure(1, 8, 0, "", "");
	warm = true;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		n = sizes[i] * calls > most ? most / sizes[i] : calls;
		measure(sizes[i], calls, 0, "mmap", "munmap");
		measure(sizes[i], n, MAP_POPULATE, "mmap populate", "munmap populate");
	}
	measure_faults(2048);
	/* Else the child may run before its parent is out of fork(). */
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		fail("SCHED_FIFO");
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		measure_fork(sizes[i]);
	measure_fork(16384);
	measure_writes(2048);
	return 0;
}
