// SPDX-License-Identifier: GPL-2.0
/*
 * Run out of ids of address spaces: fork() must fail with ENOMEM, nothing worse,
 * and ids must come back when address spaces end. Boot with foliomap_ids=60.
 */
#include "lab.h"

#include <signal.h>
#include <sys/wait.h>

#define MANY 200

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

int main(void)
{
	int count[3], error = 0, i;
	pid_t pids[MANY];
	char *folio;

	lab_init();
	for (i = 0; i < 3; i++) {
		count[i] = fork_until_failure(pids, &error);
		end(pids, count[i]);
		/* mm_structs are freed a little after their last user. */
		usleep(500000);
	}
	test_result(count[0] > 0 && count[0] < 60, "%d address spaces could be made", count[0]);
	test_result(error == ENOMEM, "then fork failed: %s", strerror(error));
	test_result(count[1] >= count[0] - 2 && count[2] >= count[0] - 2,
		    "as many again, and again: %d, %d", count[1], count[2]);

	/* An id that others had before must not find anything of theirs. */
	folio = alloc_folio(4);
	if (folio)
		test_result(page_exclusive(folio), "a new folio is exclusive");
	return test_end();
}
