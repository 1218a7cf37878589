/* SPDX-License-Identifier: GPL-2.0 */
/* Writes after fork(), here and there, while a child has some of the pages, too */
#ifndef _FBMM_SCATTERED_H
#define _FBMM_SCATTERED_H

#include "lab.h"

#include <sys/wait.h>

#define SCATTERED	63	/* pages */

/* Number of the page that is written as @nr: all are, in an order that is none */
static size_t scattered(size_t nr)
{
	return nr * 2654435761u % SCATTERED;
}

static void fill_page(char *memory, size_t page, unsigned int seed)
{
	fill(memory + page * page_size, page_size, seed);
}

/* Whether each even page has the one and each odd page the other */
static bool filled_pages(const char *memory, unsigned int even, unsigned int odd)
{
	size_t page;

	for (page = 0; page < SCATTERED; page++)
		if (!filled(memory + page * page_size, page_size, page % 2 ? odd : even))
			return false;
	return true;
}

/*
 * Writes here and there, where a child still has every other page of the parent's: what
 * makes several pages writable at once must not take those.
 */
static void test_fork_scattered(void)
{
	char *a = map_private((SCATTERED + 1) * page_size, 0);
	int ready[2], go[2], status;
	size_t page, nr;
	pid_t pid;
	char c;

	for (page = 0; page < SCATTERED; page++)
		fill_page(a, page, 10);
	if (pipe(ready) || pipe(go))
		fail("pipe");
	pid = fork();
	if (!pid) {
		close(go[1]);
		for (nr = 0; nr < SCATTERED; nr++)
			if (scattered(nr) % 2)
				fill_page(a, scattered(nr), 12);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		await_char(go[0], &c);
		_exit(!filled_pages(a, 10, 12));
	}
	await_char(ready[0], &c);
	for (nr = 0; nr < SCATTERED; nr++)
		fill_page(a, scattered(nr), 11);
	if (write(go[1], "", 1) != 1)
		fail("write");
	waitpid(pid, &status, 0);
	test_result(!status, "a child does not see writes here and there");
	test_result(filled_pages(a, 11, 11), "nor the parent a child's");
	close(ready[0]);
	close(ready[1]);
	close(go[0]);
	close(go[1]);
	munmap(a, (SCATTERED + 1) * page_size);
}

#endif /* _FBMM_SCATTERED_H */
