// SPDX-License-Identifier: GPL-2.0
/*
 * Under tieredmfs: what a parent and a child have in common after fork() is moved by how
 * both of them use it; what either has stays the same, and is its own again in the end.
 */
#include "lab.h"

#include "../../bench/fbmm/nodes.h"

#include <glob.h>
#include <time.h>

#define MB		((size_t)1 << 20)
#define MEMORY		(24 * MB)
#define PART		(6 * MB)
#define PATIENCE	400	/* seconds, on a busy host */

static char *memory;

static unsigned long counter(const char *name)
{
	char pattern[128];
	unsigned long value;
	glob_t found;

	snprintf(pattern, sizeof(pattern), "/sys/fs/tieredmfs/*/%s", name);
	if (glob(pattern, 0, NULL, &found) || found.gl_pathc != 1)
		fail(pattern);
	value = read_number(found.gl_pathv[0]);
	globfree(&found);
	return value;
}

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

/* Read a byte of each page. */
static void use(const char *from, size_t size)
{
	size_t at;

	for (at = 0; at < size; at += page_size)
		*(const volatile char *)(from + at);
}

/* Use of @from the first half, as the child does the other, until all are local. */
static bool becomes_local(const char *from)
{
	const long end = now() + PATIENCE;
	size_t local = 0;

	while (now() < end && local < PART / page_size * 9 / 10) {
		unsigned int i;

		for (i = 0; i < 200; i++)
			use(from, PART / 2);
		use(from, PART);	/* only what is mapped says where it is */
		local = count_local(from, PART);
	}
	printf("# %zu of %zu pages are local\n", local, PART / page_size);
	return local >= PART / page_size * 9 / 10;
}

/* The second half of the part that the parent has named, until it names none. */
static void child(int commands)
{
	char part = 0;

	fcntl(commands, F_SETFL, O_NONBLOCK);
	for (;;) {
		ssize_t got = read(commands, &part, 1);

		if (!got)
			_exit(!filled(memory, MEMORY, 1));
		use(memory + part * PART + PART / 2, PART / 2);
	}
}

/* Pages that files have and that are in none of the thread's lists */
static long outside_lists(void)
{
	return counter("used") - counter("local_hot") - counter("local_cold") -
	       counter("remote_hot") - counter("remote_cold");
}

static bool becomes_own(void)
{
	const long end = now() + PATIENCE;

	while (now() < end && outside_lists())
		use(memory, PART);
	return !outside_lists();
}

/*
 * While pages move, and are there twice, all others that there are can be had: else this is
 * killed. A few are left to libraries.
 */
static bool takes_all_others(size_t pages, const char *used)
{
	const unsigned long promoted = counter("promoted");
	const long end = now() + PATIENCE;
	const size_t size = (pages - 16) * page_size;
	char *rest = map_private(size, 0);
	bool same;

	while (now() < end && counter("promoted") == promoted)
		use(used, PART / 2);
	fill(rest, size, 3);
	same = filled(rest, size, 3);
	munmap(rest, size);
	return same;
}

int main(void)
{
	int commands[2], status;
	const char last = MEMORY / PART - 1, first = 0;
	size_t others;
	unsigned long promoted;
	pid_t pid;

	lab_init();
	memory = map_private(MEMORY, 0);
	fill(memory, MEMORY, 1);
	if (pipe(commands))
		fail("pipe");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		close(commands[1]);
		child(commands[0]);
	}
	close(commands[0]);
	others = counter("local_free") + counter("remote_free");
	test_result(outside_lists() >= (long)(MEMORY / page_size * 9 / 10),
		    "all is shared after fork()");
	promoted = counter("promoted");
	if (write(commands[1], &last, 1) != 1)
		fail("write");
	test_result(becomes_local(memory + last * PART), "what both use becomes local");
	test_result(counter("promoted") > promoted, "and was moved");
	test_result(filled(memory, MEMORY, 1), "the parent has what it had");
	if (write(commands[1], &first, 1) != 1)
		fail("write");
	test_result(becomes_local(memory), "so does what they use next");
	if (write(commands[1], &last, 1) != 1)
		fail("write");
	test_result(takes_all_others(others, memory + last * PART),
		    "all other pages can be had while some are there twice");
	fill(memory + PART, PART, 2);
	test_result(filled(memory + PART, PART, 2), "the parent writes to some of it");
	close(commands[1]);
	if (waitpid(pid, &status, 0) != pid)
		fail("waitpid");
	test_result(!status, "the child has what it had");
	test_result(becomes_own(), "without the child, all is the parent's own");
	test_result(filled(memory, PART, 1) && filled(memory + PART, PART, 2), "and the same");
	munmap(memory, MEMORY);
	test_result(counter("used") < 2 * MB / page_size, "it is given back");
	return test_end();
}
