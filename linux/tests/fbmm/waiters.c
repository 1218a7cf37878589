// SPDX-License-Identifier: GPL-2.0
/*
 * Processes that wait for a page of a small pool while others end and give theirs
 * back: nobody waits for ever.
 *
 * Usage: waiters ROUNDS
 */
#include "lab.h"

#define CHILDREN	2
#define SIZE		(250 * page_size)

static int use(unsigned int seed)
{
	char *memory = map_private(SIZE, 0);
	const size_t size = (100 + seed * 37 % 150) * page_size;

	fill(memory, size, seed);
	return filled(memory, size, seed) ? 0 : 1;
}

int main(int argc, char **argv)
{
	unsigned int round, rounds, i;
	pid_t pids[CHILDREN];
	bool same = true;
	int status;

	if (argc != 2) {
		fprintf(stderr, "Usage: waiters ROUNDS\n");
		return 2;
	}
	lab_init();
	rounds = strtoul(argv[1], NULL, 10);
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < CHILDREN; i++) {
			pids[i] = fork();
			if (pids[i] < 0)
				fail("fork");
			if (!pids[i])
				_exit(use(round * CHILDREN + i));
		}
		for (i = 0; i < CHILDREN; i++)
			same &= waitpid(pids[i], &status, 0) == pids[i] && !status;
	}
	test_result(same, "%u processes had the memory they asked for",
		    rounds * CHILDREN);
	return test_end();
}
