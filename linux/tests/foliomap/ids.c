// SPDX-License-Identifier: GPL-2.0
/*
 * Run out of ids of address spaces: fork() must fail with ENOMEM, nothing worse,
 * and ids must come back when address spaces end. Boot with foliomap_ids=60.
 */
#include "lab.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define MANY	200
#define ROUNDS	8

static int fork_until_failure(pid_t *pids, int *error)
{
	int count = 0;

	while (count < MANY) {
		pids[count] = fork();
		if (pids[count] < 0) {
			*error = errno;
			break;
		}
		if (!pids[count]) {
			pause();
			_exit(0);
		}
		count++;
	}
	return count;
}

static void end(pid_t *pids, int count)
{
	while (count--) {
		kill(pids[count], SIGKILL);
		waitpid(pids[count], NULL, 0);
	}
}

/*
 * How many address spaces can be made once those of before are gone: at least @least,
 * if it gets there in some seconds. An mm_struct is freed a little after its last user.
 */
static int make_again(pid_t *pids, int least)
{
	const time_t deadline = time(NULL) + 10;
	int count, error;

	do {
		count = fork_until_failure(pids, &error);
		end(pids, count);
		if (count < least)
			usleep(200000);
	} while (count < least && time(NULL) < deadline);
	return count;
}

int main(void)
{
	int first, least, count, fewest, error = 0, round;
	pid_t pids[MANY];
	char *folio;

	lab_init();
	first = fork_until_failure(pids, &error);
	end(pids, first);
	test_result(first > 0 && first < 60, "%d address spaces could be made", first);
	test_result(error == ENOMEM, "then fork failed: %s", strerror(error));

	/* An idle CPU keeps the page tables of the process it ran last (lazy TLB). */
	least = first - sysconf(_SC_NPROCESSORS_ONLN);
	fewest = first;
	for (round = 0; round < ROUNDS && fewest >= least; round++) {
		count = make_again(pids, least);
		if (count < fewest)
			fewest = count;
	}
	test_result(fewest >= least, "as many %d times again: at least %d", ROUNDS, fewest);

	/* An id that others had before must not find anything of theirs. */
	folio = alloc_folio(4);
	if (folio)
		test_result(page_exclusive(folio), "a new folio is exclusive");
	return test_end();
}
