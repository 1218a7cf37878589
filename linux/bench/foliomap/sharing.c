// SPDX-License-Identifier: GPL-2.0
/*
 * Who maps a large folio, and what the kernel believes: processes map it, fork and
 * unmap it or parts of it; then the one that is left says of how many of its pages
 * /proc/PID/pagemap holds that nobody else maps them, writes to all of them, and
 * counts those that were copied. Runs on any kernel.
 *
 * The truth is in the table of cases: which address spaces map the folio when the
 * question is asked, and which of the pages asked about another one maps as well.
 * Only those need a copy.
 *
 * Prints a JSON object a line.
 */
#include "../../tests/foliomap/lab.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MOST	9	/* processes: A and eight children */

struct order {
	char what;
	long first, count;
};

static struct {
	int order[2], answer[2];
} pipes[MOST];
static long pids[MOST];
static char *region;
static unsigned int folio_order;

static long in_pages(long first, long count, bool write)
{
	long page, found = 0;

	for (page = first; page < first + count; page++) {
		volatile char *addr = region + page * page_size;
		const uint64_t frame = page_frame((char *)addr);

		if (write)
			(*addr)++;
		found += write ? page_frame((char *)addr) != frame :
				 page_exclusive((char *)addr);
	}
	return found;
}

static void serve(int self);

static long obey(const struct order *o)
{
	const size_t size = page_size << folio_order;
	int tries;
	long pid;

	switch (o->what) {
	case 'a':
		/* What the case before left may be in the way of a large one. */
		for (tries = 0; tries < 5 && !region; tries++) {
			write_file("/proc/sys/vm/compact_memory", "1");
			region = alloc_folio(folio_order);
		}
		/* Order 9 starts khugepaged, which would copy the folio into another. */
		allow_order(0);
		return region != NULL;
	case 'f':
		pid = fork();
		if (!pid)
			serve(o->first);
		return pid;
	case 'd':
		return madvise(region + o->first * page_size, o->count * page_size,
			       MADV_DONTNEED);
	case 'u':
		return munmap(region, size);
	case '?':
		return in_pages(o->first, o->count, false);
	case 'w':
		return in_pages(o->first, o->count, true);
	default:
		_exit(0);
	}
}

static void serve(int self)
{
	struct order o;
	long answer;

	while (read(pipes[self].order[0], &o, sizeof(o)) == sizeof(o)) {
		answer = obey(&o);
		if (write(pipes[self].answer[1], &answer, sizeof(answer)) != sizeof(answer))
			break;
	}
	_exit(1);
}

static long tell(int who, char what, long first, long count)
{
	const struct order o = { what, first, count };
	long answer;

	if (write(pipes[who].order[1], &o, sizeof(o)) != sizeof(o) ||
	    read(pipes[who].answer[0], &answer, sizeof(answer)) != sizeof(answer))
		fail("a process ended");
	return answer;
}

static void spawn(int parent, int child)
{
	pids[child] = tell(parent, 'f', child, 0);
	if (pids[child] <= 0)
		fail("fork");
}

/* Its mappings are gone when its end can be seen, waited for or not. */
static void end(int who)
{
	const struct order o = { 'x', 0, 0 };
	struct pollfd fd = {
		.fd = syscall(SYS_pidfd_open, pids[who], 0),
		.events = POLLIN,
	};

	if (fd.fd < 0 || write(pipes[who].order[1], &o, sizeof(o)) != sizeof(o) ||
	    poll(&fd, 1, -1) != 1)
		fail("end of a process");
	close(fd.fd);
	pids[who] = 0;
}

/* What is asked in the end: of whom, which pages, and how many others map as well. */
struct question {
	int who;
	long first, count, needed;
};

static struct question child_gone(long n)
{
	spawn(0, 1);
	end(1);
	return (struct question){ 0, 0, n, 0 };
}

static struct question parent_gone(long n)
{
	spawn(0, 1);
	tell(0, 'u', 0, 0);
	return (struct question){ 1, 0, n, 0 };
}

static struct question child_alive(long n)
{
	spawn(0, 1);
	return (struct question){ 0, 0, n, n };
}

static struct question eight_children_gone(long n)
{
	int i;

	for (i = 1; i < MOST; i++)
		spawn(0, i);
	for (i = 1; i < MOST; i++)
		end(i);
	return (struct question){ 0, 0, n, 0 };
}

static struct question child_of_child(long n)
{
	spawn(0, 1);
	tell(0, 'u', 0, 0);
	spawn(1, 2);
	end(1);
	spawn(2, 3);
	end(2);
	return (struct question){ 3, 0, n, 0 };
}

static struct question third_stays(long n)
{
	spawn(0, 1);
	spawn(0, 2);
	tell(0, 'u', 0, 0);
	end(1);
	return (struct question){ 2, 0, n, 0 };
}

static struct question third_stays_in_parts(long n)
{
	const long part = n / 4;

	spawn(0, 1);
	spawn(0, 2);
	tell(0, 'd', part, n - part);
	tell(1, 'd', 0, part);
	tell(1, 'd', 2 * part, n - 2 * part);
	tell(2, 'd', 0, 2 * part);
	tell(0, 'u', 0, 0);
	end(1);
	return (struct question){ 2, 2 * part, n - 2 * part, 0 };
}

static struct question third_forks_again(long n)
{
	const struct question q = third_stays(n);

	spawn(2, 3);
	end(3);
	return q;
}

static struct question child_of_third_stays(long n)
{
	third_stays(n);
	spawn(2, 3);
	end(2);
	return (struct question){ 3, 0, n, 0 };
}

static struct question half_is_left(long n)
{
	spawn(0, 1);
	end(1);
	tell(0, 'd', 0, n / 2);
	return (struct question){ 0, n / 2, n / 2, 0 };
}

static struct question one_page_is_left(long n)
{
	spawn(0, 1);
	end(1);
	tell(0, 'd', 0, n - 1);
	return (struct question){ 0, n - 1, 1, 0 };
}

static struct question half_each(long n)
{
	spawn(0, 1);
	tell(0, 'd', 0, n / 2);
	tell(1, 'd', n / 2, n / 2);
	return (struct question){ 0, n / 2, n / 2, 0 };
}

static const struct {
	const char *name;
	struct question (*act)(long n);
} cases[] = {
	{ "child gone", child_gone },
	{ "parent gone", parent_gone },
	{ "child alive", child_alive },
	{ "eight children gone", eight_children_gone },
	{ "child of a child of a child stays", child_of_child },
	{ "third stays", third_stays },
	{ "third stays, in parts", third_stays_in_parts },
	{ "third stays, forks, child gone", third_forks_again },
	{ "child of the third stays", child_of_third_stays },
	{ "half is left", half_is_left },
	{ "one page is left", one_page_is_left },
	{ "two processes, half each", half_each },
};

static void run(unsigned int number, unsigned int order)
{
	struct question q;
	long said, copies;
	pid_t first;
	int i;

	folio_order = order;
	for (i = 0; i < MOST; i++)
		if (pipe(pipes[i].order) || pipe(pipes[i].answer))
			fail("pipe");
	first = fork();
	if (!first)
		serve(0);
	pids[0] = first;
	if (!tell(0, 'a', 0, 0)) {
		fprintf(stderr, "no folio of order %u\n", order);
		exit(1);
	}
	q = cases[number].act(1l << order);
	said = tell(q.who, '?', q.first, q.count);
	copies = tell(q.who, 'w', q.first, q.count);
	printf("{\"bench\": \"%s\", \"folio_kb\": %zu, \"pages\": %ld, ",
	       cases[number].name, page_size << order >> 10, q.count);
	printf("\"exclusive\": %ld, \"copies\": %ld, \"needed\": %ld}\n", said, copies, q.needed);
	fflush(stdout);
	for (i = MOST - 1; i >= 0; i--)
		if (pids[i])
			end(i);
	waitpid(first, NULL, 0);
	for (i = 0; i < MOST; i++) {
		close(pipes[i].order[0]);
		close(pipes[i].order[1]);
		close(pipes[i].answer[0]);
		close(pipes[i].answer[1]);
	}
}

int main(void)
{
	static const unsigned int orders[] = { 2, 4, 9 };
	unsigned int i, j;

	lab_init();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (j = 0; j < sizeof(orders) / sizeof(orders[0]); j++)
			run(i, orders[j]);
	return 0;
}
