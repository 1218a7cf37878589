// SPDX-License-Identifier: GPL-2.0
/*
 * The contention of the FolioMap paper's section 4.1, after vm-scalability's
 * anon-cow-seq and anon-cow-rand: processes that share memory since fork() write
 * all of it at the same time, in the same order or each in its own. Every write
 * is a copy, and removes a mapping of a folio that the others work on as well.
 *
 * Prints a JSON object a line: the time from the start to the end of the last.
 *
 * Usage: anon_cow MEGABYTES ROUNDS PROCESSES [ORDER]
 */
#include "../../tests/foliomap/lab.h"

#include <sys/wait.h>
#include <time.h>

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* xorshift64* (Vigna, 2016) */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 2685821657736338717ull;
}

/* The order in which pages are written: in sequence, or shuffled (Fisher, Yates). */
static void arrange(uint32_t *pages, uint32_t count, bool shuffled, uint64_t seed)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		pages[i] = i;
	for (i = count - 1; shuffled && i; i--) {
		const uint32_t other = next_random(&seed) % (i + 1);
		const uint32_t page = pages[i];

		pages[i] = pages[other];
		pages[other] = page;
	}
}

static void writer(char *memory, const uint32_t *pages, uint32_t count, int ready, int go)
{
	char c = 0;
	uint32_t i;

	if (write(ready, &c, 1) != 1 || read(go, &c, 1) != 0)
		_exit(1);
	for (i = 0; i < count; i++)
		((volatile char *)memory)[pages[i] * page_size] = 2;
	_exit(0);
}

static void run(const char *bench, size_t size, unsigned int order, int processes,
		bool shuffled)
{
	const uint32_t count = size / page_size;
	uint32_t *pages = malloc(count * sizeof(*pages));
	char *memory = alloc_folios(size, order);
	int ready[2], go[2], i, status;
	uint64_t start, end;
	char c;

	if (!memory || !pages) {
		fprintf(stderr, "no memory in folios of order %u\n", order);
		exit(1);
	}
	if (pipe(ready) || pipe(go))
		fail("pipe");
	for (i = 0; i < processes; i++) {
		const pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (!pid) {
			close(go[1]);
			arrange(pages, count, shuffled, i + 1);
			writer(memory, pages, count, ready[1], go[0]);
		}
	}
	for (i = 0; i < processes; i++)
		await_char(ready[0], &c);
	start = now();
	mark_begin();
	close(go[1]);
	for (i = 0; i < processes; i++)
		if (wait(&status) < 0 || status)
			fail("a writer");
	mark_end();
	end = now();
	printf("{\"bench\": \"%s\", \"folio_kb\": %zu, \"pages\": %u, \"ns\": %lu, \"copies\": %u}\n",
	       bench, page_size << order >> 10, count * processes,
	       (unsigned long)(end - start), count * processes);
	fflush(stdout);
	close(go[0]);
	close(ready[0]);
	close(ready[1]);
	munmap(memory, size);
	free(pages);
}

int main(int argc, char **argv)
{
	const size_t size = (argc > 1 ? strtoul(argv[1], NULL, 0) : 16) << 20;
	const int rounds = argc > 2 ? atoi(argv[2]) : 3;
	const int processes = argc > 3 ? atoi(argv[3]) : sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int first = 0, last = pmd_order, order;
	int round;

	if (argc > 4)
		first = last = atoi(argv[4]);
	lab_init();
	for (round = 0; round < rounds; round++) {
		for (order = first; order <= last; order++) {
			if (order == 1)
				continue;	/* anonymous folios have no order 1 */
			run("anon_cow_seq", size, order, processes, false);
			run("anon_cow_rand", size, order, processes, true);
		}
	}
	return 0;
}
