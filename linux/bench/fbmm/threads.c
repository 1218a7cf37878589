// SPDX-License-Identifier: GPL-2.0
/*
 * mmap() and munmap() of single pages in 1 to 32 threads at once, which all change
 * one address space: the FBMM paper, section 4.
 *
 * Prints a JSON object a line; linux/guest/count.c counts between the marks.
 *
 * Usage: threads CALLS	in all threads together
 */
#include "../../tests/foliomap/lab.h"

#include <pthread.h>

static pthread_barrier_t barrier;
static size_t calls_each;
static bool unmap;
static char **maps;

static void *work(void *first)
{
	char **mine = first;
	size_t i;

	pthread_barrier_wait(&barrier);		/* all are there */
	pthread_barrier_wait(&barrier);		/* counting has begun */
	for (i = 0; i < calls_each; i++) {
		if (unmap)
			munmap(mine[i], page_size);
		else
			mine[i] = mmap(NULL, page_size, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	pthread_barrier_wait(&barrier);
	return NULL;
}

/* Counts from when all threads have started until all have made their calls. */
static void measure(const char *what, size_t threads)
{
	pthread_t ids[32];
	size_t i;

	pthread_barrier_init(&barrier, NULL, threads + 1);
	for (i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, work, &maps[i * calls_each]))
			fail("pthread_create");
	pthread_barrier_wait(&barrier);
	mark_begin();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	mark_end();
	for (i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	pthread_barrier_destroy(&barrier);
	printf("{\"bench\": \"%s\", \"pages\": %zu, \"calls\": %zu}\n", what, threads,
	       threads * calls_each);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const size_t calls = argc > 1 ? strtoul(argv[1], NULL, 0) : 9600;
	size_t threads, i;

	lab_init();
	for (threads = 1; threads <= 32; threads *= 2) {
		calls_each = calls / threads;
		maps = calloc(threads * calls_each, sizeof(*maps));
		if (!maps)
			fail("calloc");
		unmap = false;
		measure("mmap in threads", threads);
		for (i = 0; i < threads * calls_each; i++)
			if (maps[i] == MAP_FAILED)
				fail("mmap");
		unmap = true;
		measure("munmap in threads", threads);
		free(maps);
	}
	return 0;
}
