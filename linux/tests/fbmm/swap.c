// SPDX-License-Identifier: GPL-2.0
/*
 * Memory twice as large as the pool of a memory file system that swaps: it keeps
 * its contents whatever is done to it, and nothing of it is left at the end.
 *
 * Usage: swap POOL, the pool's size in MB
 */
#include "lab.h"

#include <glob.h>
#include <sys/uio.h>

#define CHILDREN	3

static size_t size;

/* A counter of the only mount; 0 if there is none. */
static unsigned long counter(const char *name)
{
	unsigned long value = 0;
	char pattern[64];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "/sys/fs/*mfs/*/%s", name);
	if (!glob(pattern, 0, NULL, &found))
		value = read_number(found.gl_pathv[0]);
	globfree(&found);
	return value;
}

/* How many pages are mapped, as the page tables say. */
static size_t present(const char *memory, size_t bytes)
{
	const int fd = open("/proc/self/pagemap", O_RDONLY);
	size_t page, count = 0;
	uint64_t entry;

	for (page = 0; page < bytes / page_size; page++) {
		if (pread(fd, &entry, sizeof(entry),
			  ((uintptr_t)memory / page_size + page) * sizeof(entry)) !=
		    sizeof(entry))
			fail("pagemap");
		count += entry >> 63;
	}
	close(fd);
	return count;
}

static void test_contents(void)
{
	char *memory = map_private(size, 0);
	unsigned int seed;
	bool same = true;

	for (seed = 1; seed <= 3; seed++) {
		fill(memory, size, seed);
		same &= filled(memory, size, seed);
	}
	test_result(same, "what is written is read again, three times over");
	munmap(memory, size);

	memory = map_private(size, MAP_POPULATE);
	test_result(zero(memory, size), "populated memory is zero");
	munmap(memory, size);
}

struct family {
	char *memory;
	int child;
};

/* A child writes a part of its own, and sees nothing of what others write. */
static int write_part(void *arg)
{
	const struct family *family = arg;
	const size_t part = size / CHILDREN / page_size * page_size;
	bool same = filled(family->memory, size, 5);
	int i;

	fill(family->memory + family->child * part, part, 10);
	for (i = 0; i < CHILDREN; i++)
		same &= filled(family->memory + i * part, part, i == family->child ?
			       10 : 5 + i * part * 2654435761u);
	return !same;
}

static void test_fork(void)
{
	struct family family = { .memory = map_private(size, 0) };
	pid_t pids[CHILDREN];
	bool same = true;
	size_t page;
	int i, status;

	fill(family.memory, size, 5);
	for (i = 0; i < CHILDREN; i++) {
		family.child = i;
		pids[i] = fork();
		if (pids[i] < 0)
			fail("fork");
		if (!pids[i])
			_exit(write_part(&family));
	}
	/* Every other page, while they run */
	for (page = 0; page < size / page_size; page += 2)
		memset(family.memory + page * page_size, page, page_size);
	for (i = 0; i < CHILDREN; i++) {
		if (waitpid(pids[i], &status, 0) == pids[i] && !status)
			continue;
		printf("# child %d: wait status %#x\n", i, status);
		same = false;
	}
	test_result(same, "children see what was there at fork(), and their own writes");
	same = true;
	for (page = 0; page < size / page_size; page += 2)
		same &= family.memory[page * page_size] == (char)page &&
			family.memory[(page + 1) * page_size - 1] == (char)page &&
			filled(family.memory + (page + 1) * page_size, page_size,
			       5 + (page + 1) * page_size * 2654435761u);
	test_result(same, "and their parent sees its own");
	munmap(family.memory, size);
}

static void test_parts(void)
{
	const size_t quarter = size / 4;
	char *memory = map_private(size, 0), *moved;

	fill(memory, size, 21);
	madvise(memory + quarter, quarter, MADV_DONTNEED);
	test_result(zero(memory + quarter, quarter) && filled(memory, quarter, 21),
		    "what is discarded is zero, what is not stays");
	fill(memory, size, 22);
	munmap(memory + 3 * quarter, quarter);
	test_result(filled(memory, 3 * quarter, 22), "the rest stays when a part is unmapped");

	moved = mremap(memory, 3 * quarter, size, MREMAP_MAYMOVE | MREMAP_FIXED,
		       map_private(size, 0));
	if (moved == MAP_FAILED)
		fail("mremap");
	test_result(filled(moved, 3 * quarter, 22) && zero(moved + 3 * quarter, quarter),
		    "what is moved stays the same");
	munmap(moved, size);
}

static void test_locked(void)
{
	const size_t some = size / 8;
	char *locked = map_private(some, 0), *memory = map_private(size, 0);

	fill(locked, some, 31);
	if (mlock(locked, some))
		fail("mlock");
	fill(memory, size, 32);
	test_result(present(locked, some) == some / page_size, "locked memory stays");
	test_result(filled(locked, some, 31) && filled(memory, size, 32),
		    "and so do its contents");
	munmap(locked, some);
	munmap(memory, size);
}

/* The kernel finds pages on a process's behalf, too: another's, and by a pipe. */
static void test_others(void)
{
	char *memory = map_private(size, 0), *copy = malloc(page_size);
	bool same = true;
	size_t at;
	pid_t pid;
	int wake[2], status;
	char byte;

	fill(memory, size, 41);
	if (pipe(wake))
		fail("pipe");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		close(wake[1]);
		_exit(read(wake[0], &byte, 1) != 0);
	}
	for (at = 0; at < size; at += page_size) {
		struct iovec local = { copy, page_size };
		struct iovec remote = { memory + at, page_size };

		same &= process_vm_readv(pid, &local, 1, &remote, 1, 0) ==
				(ssize_t)page_size &&
			!memcmp(copy, memory + at, page_size);
	}
	close(wake[0]);
	close(wake[1]);
	waitpid(pid, &status, 0);
	test_result(same && !status, "another process's memory is read");
	free(copy);
	munmap(memory, size);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "Usage: swap POOL\n");
		return 2;
	}
	lab_init();
	size = strtoul(argv[1], NULL, 10) << 21;
	test_contents();
	test_fork();
	test_parts();
	test_locked();
	test_others();
	printf("# %lu pages out, %lu in\n", counter("swapouts"), counter("swapins"));
	if (counter("used"))
		test_result(counter("swapouts") > size / page_size && counter("swapins"),
			    "pages were swapped out and in");
	test_result(counter("swapped") < size / page_size / 8,
		    "no slot is kept that nobody has");
	return test_end();
}
