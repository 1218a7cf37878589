// SPDX-License-Identifier: GPL-2.0
/*
 * Run out of ids of address spaces. fork() must not fail: address spaces that find no
 * id of their own share one, and are told that all their large folios are shared, which
 * costs them copies and no more. Ids must come back when address spaces end. Boot with
 * foliomap_ids=60.
 */
#include "lab.h"

#include <sys/wait.h>
#include <time.h>

#define MANY	200
#define IDS	60
#define ROUNDS	8
#define ORDER	4

/* Inherited by all */
static pid_t *folio;

/*
 * Say whether a folio of one's own is exclusive, which it is without an id of one's own
 * never; then write to the folio that all others have as well, and keep it.
 */
static void run_child(int answer, int go)
{
	char *own = alloc_folio(ORDER);
	char c = !own ? '?' : page_exclusive(own) ? 'e' : 's';

	*folio = getpid();
	if (write(answer, &c, 1) != 1 || read(go, &c, 1) < 0)
		_exit(1);
	_exit(*folio != getpid());
}

/* How many of MANY have an id of their own, -1 if there could not be so many or one fails. */
static int own_ids(void)
{
	int answers[2], go[2], made, i, own = 0, status;
	bool ok = true;

	if (pipe(answers) || pipe(go))
		fail("pipe");
	*folio = 0;
	for (made = 0; made < MANY; made++) {
		pid_t pid = fork();

		if (pid < 0) {
			fprintf(stderr, "fork %d: %s\n", made, strerror(errno));
			ok = false;
			break;
		}
		if (!pid) {
			close(go[1]);
			run_child(answers[1], go[0]);
		}
	}
	close(answers[1]);
	for (i = 0; i < made; i++) {
		char c = '?';

		ok = read(answers[0], &c, 1) == 1 && c != '?' && ok;
		own += c == 'e';
	}
	ok = ok && !*folio;
	close(go[1]);
	for (i = 0; i < made; i++)
		ok = wait(&status) > 0 && !status && ok;
	close(go[0]);
	close(answers[0]);
	return ok ? own : -1;
}

/*
 * The same once the address spaces of before are gone: at least @least, if it gets there
 * in some seconds. An mm_struct is freed a little after its last user.
 */
static int own_ids_again(int least)
{
	const time_t deadline = time(NULL) + 10;
	int own;

	do {
		own = own_ids();
		if (own >= 0 && own < least)
			usleep(200000);
	} while (own >= 0 && own < least && time(NULL) < deadline);
	return own;
}

int main(void)
{
	int first, least, fewest, round;

	lab_init();
	folio = (pid_t *)alloc_folio(ORDER);
	if (!folio) {
		test_skip("no folio of order %d to be had", ORDER);
		return test_end();
	}
	test_result(page_exclusive((char *)folio), "a folio of a process with an id is exclusive");
	first = own_ids();
	test_result(first > 0 && first < IDS, "%d of %d have an id of their own, all live and keep what they write",
		    first, MANY);

	/* An idle CPU keeps the page tables of the process it ran last (lazy TLB). */
	least = first - sysconf(_SC_NPROCESSORS_ONLN);
	fewest = first;
	for (round = 0; round < ROUNDS && fewest >= least; round++) {
		const int own = own_ids_again(least);

		if (own < fewest)
			fewest = own;
	}
	test_result(fewest >= least, "as many %d times again: at least %d", ROUNDS, fewest);

	/* The processes that had none are gone, and so is what they added. */
	test_result(page_exclusive((char *)folio), "the folio is exclusive again");
	return test_end();
}
