// SPDX-License-Identifier: GPL-2.0
/*
 * The primitives of the FolioMap paper's section 4.1, for one folio order or all:
 * fork() and munmap() of memory mapped by PTEs (Fig. 3), and write faults after
 * fork() with the child gone and with the child alive; for folios of one page
 * also faults that map a file.
 *
 * Prints a JSON object a line. "ns" is the guest's clock, which counts
 * instructions where the guest runs under QEMU's -icount.
 *
 * Usage: primitives MEGABYTES ROUNDS [ORDER|all [STEP]]
 *
 * With a step only each so many-th page is written.
 */
#include "../../tests/foliomap/lab.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t begin(void)
{
	const uint64_t start = now();

	mark_begin();
	return start;
}

static uint64_t end(uint64_t start)
{
	mark_end();
	return now() - start;
}

static void report(const char *what, unsigned int order, size_t pages,
		uint64_t ns, long copies)
{
	printf("{\"bench\": \"%s\", \"folio_kb\": %zu, \"pages\": %zu, \"ns\": %lu, \"copies\": %ld}\n",
	       what, page_size << order >> 10, pages, (unsigned long)ns, copies);
}

/* A child that does nothing but share the memory until it is told to go. */
static pid_t fork_sharer(void)
{
	const pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid) {
		pause();
		_exit(0);
	}
	return pid;
}

static void end_sharer(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static char *need(size_t size, unsigned int order)
{
	char *memory = alloc_folios(size, order);

	if (!memory) {
		fprintf(stderr, "no memory in folios of order %u\n", order);
		exit(1);
	}
	return memory;
}

static void fork_and_munmap(size_t size, unsigned int order)
{
	char *memory = need(size, order);
	uint64_t start, ns;
	pid_t child;

	start = begin();
	child = fork_sharer();
	ns = end(start);
	report("fork", order, size / page_size, ns, 0);
	end_sharer(child);

	start = begin();
	munmap(memory, size);
	ns = end(start);
	report("munmap", order, size / page_size, ns, 0);
}

/* Each fault is a sample: now and then one refills the allocator's lists as well. */
static void write_faults(size_t size, unsigned int order, bool alive, size_t step)
{
	const size_t pages = size / page_size;
	uint64_t *frames = calloc(pages, sizeof(*frames));
	uint64_t *ns = calloc(pages, sizeof(*ns));
	char *memory = need(size, order);
	uint64_t start;
	size_t page;
	pid_t child;

	for (page = 0; page < pages; page += step)
		frames[page] = page_frame(memory + page * page_size);
	child = fork_sharer();
	if (!alive)
		end_sharer(child);

	for (page = 0; page < pages; page += step) {
		start = begin();
		((volatile char *)memory)[page * page_size] = 2;
		ns[page] = end(start);
	}

	for (page = 0; page < pages; page += step)
		report(alive ? "write_child_alive" : "write_child_gone", order, 1, ns[page],
		       page_frame(memory + page * page_size) != frames[page]);
	if (alive)
		end_sharer(child);
	munmap(memory, size);
	free(frames);
	free(ns);
}

/* Reading pages of a file in the page cache, which is always in small folios here. */
static void file_faults(size_t size)
{
	const int fd = memfd_create("file", 0);
	uint64_t start, ns;
	char *memory;
	size_t page;

	if (fd < 0 || ftruncate(fd, size) || fallocate(fd, 0, 0, size))
		fail("memfd");
	memory = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		fail("mmap of a file");
	start = begin();
	for (page = 0; page < size / page_size; page++)
		(void)((volatile char *)memory)[page * page_size];
	ns = end(start);
	report("file_fault", 0, size / page_size, ns, 0);
	munmap(memory, size);
	close(fd);
}

int main(int argc, char **argv)
{
	const size_t size = (argc > 1 ? strtoul(argv[1], NULL, 0) : 64) << 20;
	const int rounds = argc > 2 ? atoi(argv[2]) : 3;
	const size_t step = argc > 4 ? strtoul(argv[4], NULL, 0) : 1;
	unsigned int first = 0, last = pmd_order, order;
	int round;

	if (argc > 3 && strcmp(argv[3], "all"))
		first = last = atoi(argv[3]);
	lab_init();
	for (order = first; order <= last; order++) {
		if (order == 1)
			continue;	/* anonymous folios have no order 1 */
		for (round = 0; round < rounds; round++) {
			if (!order)
				file_faults(size);
			fork_and_munmap(size, order);
			write_faults(2 << 20, order, false, step);
			write_faults(2 << 20, order, true, step);
		}
	}
	return 0;
}
