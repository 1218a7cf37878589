// SPDX-License-Identifier: GPL-2.0
/*
 * After fork() nobody sees what another process writes later, not even who has kept a
 * page by its place in memory (CVE-2020-29374): all orders of events, calls that
 * keep a page, sizes of pages, and ways to write. Run it under fbmm-run; without,
 * it tests the kernel's own memory.
 *
 * Usage: references [all]	every call with every way to write, not only vmsplice()
 */
#include "holders.h"

#include <sched.h>
#include <sys/ptrace.h>

#define LARGE		(page_size << pmd_order)
#define TEXT		32

/*
 * Who does what: A has the memory, B and C are its children.
 *
 *	b c	A forks B, C	h	keeps the page	r	reads it
 *	w	writes it	o	writes another page of its 2 MB
 *	u	unmaps it	U	unmaps all	e	unmaps all but it
 *	d	discards it	m	moves all	x	ends
 */
static const char * const orders[] = {
	/* A child keeps the page */
	"Ab Bh Bx Aw", "Ab Bh Bx Ar Aw", "Ab Bh Bu Aw", "Ab Bh BU Aw", "Ab Bh Bd Aw",
	"Ab Bh Bw Aw", "Ab Bh Be Aw", "Ab Bh Bm Aw", "Ab Bh Bx Am Aw", "Ab Bh Bx Ao Aw",
	"Ab Bh BU Ae Aw", "Ab Br Bh BU Am Ar Aw", "Ab Aw Bh Aw Bx Aw",
	/* One that was never touched in it */
	"Ar Ab Bh Bx Ad Aw",
	/* The parent, before fork() and after */
	"Ah Ab Au Bw", "Ah Ab AU Bw", "Ah Ab Ad Bw", "Ah Ab Ae Bw", "Ah Ab Am Bw",
	"Ah Ab Aw Bw", "Ah Ab Ax Bw", "Ah Ab AU Br Bw", "Ah Ab AU Bm Bw", "Ah Ab AU Be Bw",
	"Ah Ab AU Bo Bw", "Ab Ah AU Bw", "Ab Ah Au Bw", "Ab Ah Aw Bw", "Ab Ah Ad Br Bw",
	/* Kept, and written by the same one: its own */
	"Ab Ah Bx Aw", "Ah Ab Bx Aw", "Ah Ab Ao Bx Aw",
	/* Three: brothers, and what was shared once before */
	"Ab Bh Ac Bx AU Cw", "Ab Ac Bh Bx AU Cw", "Ab Ac Bh Bx Ax Cw", "Ab Bh Bx Ac Ax Cw",
	"Ab Bh Bx Ac AU Cr Cw", "Ab Bh Bx Ac Cx Aw", "Ab Aw Ac Ch Cx Aw", "Ab BU Ac Ch Cx Aw",
	"Ah Ab Ac Ax BU Cw",
};
#define NR_ORDERS	(sizeof(orders) / sizeof(orders[0]))

enum way { STORE, CALL, LOCKED, REMOTE, TRACED, NR_WAYS };
static const char * const ways[NR_WAYS] = {
	"a store", "read()", "a store after mlock()", "process_vm_writev()", "ptrace()",
};

static pid_t actors[3];

/* In each actor */
static char *memory, *page;
static size_t size, offset;
static char expected[TEXT];	/* in the page; "" for zeros */
static bool lost;		/* unmapped */

/* What is written in a step, TEXT characters with zeros at the end. */
static const char *written(char who, char step)
{
	static char text[TEXT];

	snprintf(text, sizeof(text), "%c's step %d", who, step);
	return text;
}

static void write_call(char *to, const char *text)
{
	int through[2];

	if (pipe(through) || write(through[1], text, TEXT) != TEXT ||
	    read(through[0], to, TEXT) != TEXT)
		fail("read");
	close(through[0]);
	close(through[1]);
}

static void actor_map(void)
{
	if (size == LARGE) {
		memory = reserve(2 * LARGE);
		madvise(memory, 2 * LARGE, MADV_HUGEPAGE);
	} else {
		memory = map_private(4 * page_size, 0);
	}
	offset = size == LARGE ? 100 * page_size : page_size;
	page = memory + offset;
	strcpy(expected, "before");
	memcpy(page, expected, TEXT);
}

/* How much is mapped: the large page's neighbour is there for what is around it. */
static size_t length(void)
{
	return size == LARGE ? LARGE : 4 * page_size;
}

static void actor_move(void)
{
	char *target = size == LARGE ? reserve(2 * LARGE) : map_private(4 * page_size, 0);

	memory = mremap(memory, length(), length(), MREMAP_MAYMOVE | MREMAP_FIXED, target);
	if (memory == MAP_FAILED)
		fail("mremap");
	page = memory + offset;
}

static void actor_write(const char *text, enum way way)
{
	memcpy(expected, text, TEXT);
	if (way == CALL)
		write_call(page, text);
	if (way == LOCKED && mlock(page, page_size))
		fail("mlock");
	if (way == STORE || way == LOCKED)
		memcpy(page, text, TEXT);
}

static void actor_do(const struct holder *holder, char what, const char *text, enum way way)
{
	switch (what) {
	case 'h':
		holder->hold(getpid(), page);
		break;
	case 'r':
		*(volatile char *)page;
		break;
	case 'o':
		memcpy(memory, text, TEXT);
		break;
	case 'w':
		actor_write(text, way);
		break;
	case 'u':
		munmap(page, page_size);
		lost = true;
		break;
	case 'U':
		munmap(memory, length());
		lost = true;
		break;
	case 'e':
		munmap(memory, offset);
		munmap(page + page_size, length() - offset - page_size);
		break;
	case 'd':
		if (madvise(page, page_size, MADV_DONTNEED))
			fail("madvise");
		memset(expected, 0, TEXT);
		break;
	case 'm':
		actor_move();
		break;
	}
}

static pid_t actor_start(const struct holder *holder, unsigned int number, enum way way);

/* Answer each command with where the page is, or a forked actor's process. */
static void actor_run(const struct holder *holder, unsigned int number, int told, int said,
		      enum way way)
{
	char order[2];	/* what, and the number of the step */

	while (read(told, order, 2) == 2 && order[0] != 'x') {
		const char what = order[0];
		uint64_t answer;

		if (what == 'b' || what == 'c') {
			answer = actor_start(holder, what - 'a', way);
		} else if (what == '?') {
			answer = lost || !memcmp(page, expected, TEXT);
		} else {
			actor_do(holder, what, written('A' + number, order[1]), way);
			answer = (uintptr_t)page;
		}
		if (write(said, &answer, sizeof(answer)) != sizeof(answer))
			break;
	}
	_exit(0);
}

static int pipes[3][2][2];

static pid_t actor_start(const struct holder *holder, unsigned int number, enum way way)
{
	/* All are the driver's children, which waits for their end. */
	const pid_t pid = syscall(SYS_clone, SIGCHLD | (number ? CLONE_PARENT : 0),
				  NULL, NULL, NULL, NULL);

	if (pid < 0)
		fail("clone");
	if (!pid) {
		if (!number)
			actor_map();
		actor_run(holder, number, pipes[number][0][0], pipes[number][1][1], way);
	}
	return pid;
}

static void order_to(unsigned int number, char what, char step)
{
	const char order[] = { what, step };

	if (write(pipes[number][0][1], order, 2) != 2)
		fail("write");
}

static uint64_t tell(unsigned int number, char what, char step)
{
	uint64_t answer;

	order_to(number, what, step);
	if (read(pipes[number][1][0], &answer, sizeof(answer)) != sizeof(answer))
		fail("an actor ended");
	return answer;
}

/* From the outside */
static void write_remote(pid_t pid, uint64_t at, const char *text)
{
	struct iovec from = { (void *)text, TEXT }, to = { (void *)at, TEXT };

	if (process_vm_writev(pid, &from, 1, &to, 1, 0) != TEXT)
		fail("process_vm_writev");
}

static void write_traced(pid_t pid, uint64_t at, const char *text)
{
	unsigned int i;
	long word;

	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) ||
	    waitpid(pid, NULL, __WALL) != pid)
		fail("ptrace");
	for (i = 0; i < TEXT; i += sizeof(word)) {
		memcpy(&word, text + i, sizeof(word));
		if (ptrace(PTRACE_POKEDATA, pid, (void *)(at + i), (void *)word))
			fail("PTRACE_POKEDATA");
	}
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

static void end_actor(unsigned int number)
{
	order_to(number, 'x', 0);
	if (waitpid(actors[number], NULL, 0) != actors[number])
		fail("waitpid");
	actors[number] = 0;
}

/* In the driver: the page's contents in each process, and when it was kept. */
static char now[3][TEXT], kept[TEXT];
static unsigned int keeper;

/*
 * Whether what is held is what was there, or what the keeper himself made of it: a
 * part of a large page that is in use is not taken out, but cleared.
 */
static bool held_right(const char *copy)
{
	return !strcmp(copy, kept) || !strcmp(copy, now[keeper]);
}

static void take_step(const struct holder *holder, unsigned int who, char what, char number,
		      enum way way)
{
	static uint64_t at[3];

	switch (what) {
	case 'x':
		end_actor(who);
		return;
	case 'b':
	case 'c':
		actors[what - 'a'] = tell(who, what, number);
		memcpy(now[what - 'a'], now[who], TEXT);
		return;
	case 'h':
		keeper = who;
		memcpy(kept, now[who], TEXT);
		at[who] = tell(who, '@', number);
		held_at = (char *)at[who];
		if (holder->outside)
			holder->hold(actors[who], held_at);
		else
			tell(who, what, number);
		return;
	case 'w':
		memcpy(now[who], written('A' + who, number), TEXT);
		break;
	case 'd':
	case 'u':
	case 'U':
		memset(now[who], 0, TEXT);
		break;
	}
	at[who] = tell(who, what, number);
	if (what == 'w' && way == REMOTE)
		write_remote(actors[who], at[who], now[who]);
	if (what == 'w' && way == TRACED)
		write_traced(actors[who], at[who], now[who]);
}

static void start_play(const struct holder *holder, enum way way)
{
	unsigned int i;

	for (i = 0; i < 3; i++)
		if (pipe(pipes[i][0]) || pipe(pipes[i][1]))
			fail("pipe");
	actors[0] = actor_start(holder, 0, way);
	memset(now[0], 0, TEXT);
	strcpy(now[0], "before");
}

static void end_play(void)
{
	unsigned int i;

	for (i = 0; i < 3; i++) {
		if (actors[i])
			end_actor(i);
		close(pipes[i][0][0]);
		close(pipes[i][0][1]);
		close(pipes[i][1][0]);
		close(pipes[i][1][1]);
	}
}

/* Returns NULL, or what was wrong. */
static const char *play(const struct holder *holder, const char *order, enum way way)
{
	static char copy[1 << 12], wrong[128];
	const char *step = order;
	unsigned int i;

	if (!holder->open())
		fail(holder->name);
	start_play(holder, way);
	for (i = 1; *step; i++) {
		take_step(holder, step[0] - 'A', step[1], i, way);
		step += step[2] ? 3 : 2;
	}
	wrong[0] = 0;
	holder->held(copy);
	if (!held_right(copy))
		snprintf(wrong, sizeof(wrong), "%s: %c's page has '%.31s'", ways[way],
			 'A' + keeper, copy);
	for (i = 0; i < 3; i++)
		if (actors[i] && !tell(i, '?', 0))
			snprintf(wrong, sizeof(wrong), "%s: %c's memory is wrong", ways[way],
				 'A' + i);
	end_play();
	holder->close();
	return wrong[0] ? wrong : NULL;
}

/* All ways of writing, or one; only who keeps nothing that lasts can end. */
static void test_order(const struct holder *holder, const char *order, enum way first,
		       unsigned int nr_ways)
{
	const char *kind = size == LARGE ? "2 MB" : "a page";
	const char end[] = { strchr(order, 'h')[-1], 'x', 0 };
	unsigned int i;

	if (holder->lasts && strstr(order, end))
		return;
	for (i = 0; i < nr_ways; i++) {
		const char *wrong = play(holder, order, (first + i) % NR_WAYS);

		if (!wrong)
			continue;
		test_result(false, "%s, %s, %s: %s", holder->name, kind, order, wrong);
		return;
	}
	test_result(true, "%s, %s, %s", holder->name, kind, order);
}

int main(int argc, char **argv)
{
	const bool all = argc > 1 && !strcmp(argv[1], "all");
	unsigned int i, order;

	lab_init();
	holders_init();
	for (i = 0; i < NR_HOLDERS; i++) {
		if (!holders[i].open()) {
			test_skip("%s: not to be had here", holders[i].name);
			continue;
		}
		holders[i].close();
		for (size = page_size; size; size = size == page_size ? LARGE : 0)
			for (order = 0; order < NR_ORDERS; order++)
				test_order(&holders[i], orders[order], order % NR_WAYS,
					   all || !i ? NR_WAYS : 1);
	}
	return test_end();
}
