// SPDX-License-Identifier: GPL-2.0
/*
 * mmap() and munmap() of anonymous memory, plain and populated, for some sizes:
 * the FBMM paper's Table 3. Also page faults one by one, for which it says that
 * they behave as MAP_POPULATE.
 *
 * Prints a JSON object a line; linux/guest/count.c counts between the marks.
 *
 * Usage: mmap CALLS MAX_PAGES	at most so many calls, at most so many pages mapped
 */
#include "../../tests/foliomap/lab.h"

#include <time.h>

static uint64_t start;
static bool warm;	/* else nothing is printed, or counted */

static void begin(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	start = t.tv_sec * 1000000000ull + t.tv_nsec;
	if (warm)
		mark_begin();
}

static void end(const char *what, size_t pages, size_t calls)
{
	struct timespec t;

	if (!warm)
		return;
	mark_end();
	clock_gettime(CLOCK_MONOTONIC, &t);
	printf("{\"bench\": \"%s\", \"pages\": %zu, \"calls\": %zu, \"ns\": %lu}\n",
	       what, pages, calls,
	       (unsigned long)(t.tv_sec * 1000000000ull + t.tv_nsec - start));
	fflush(stdout);
}

static void measure(size_t pages, size_t calls, int flags, const char *map,
		    const char *unmap)
{
	const size_t size = pages * page_size;
	char **at = calloc(calls, sizeof(*at));
	size_t i;

	begin();
	for (i = 0; i < calls; i++)
		at[i] = mmap(NULL, size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	end(map, pages, calls);
	for (i = 0; i < calls; i++)
		if (at[i] == MAP_FAILED)
			fail("mmap");
	begin();
	for (i = 0; i < calls; i++)
		munmap(at[i], size);
	end(unmap, pages, calls);
	free(at);
}

static void measure_faults(size_t pages)
{
	volatile char *memory = mmap(NULL, pages * page_size, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i;

	if (memory == MAP_FAILED)
		fail("mmap");
	begin();
	for (i = 0; i < pages; i++)
		memory[i * page_size] = 1;
	end("fault", 1, pages);
	munmap((void *)memory, pages * page_size);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 1, 2, 8, 32, 128 };
	const size_t calls = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000;
	const size_t most = argc > 2 ? strtoul(argv[2], NULL, 0) : 16384;
	size_t i, n;

	lab_init();
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
	return 0;
}
