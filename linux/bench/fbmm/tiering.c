// SPDX-License-Identifier: GPL-2.0
/*
 * tieredmfs outside of a kernel: which share of accesses is remote when its thread looks
 * at accessed bits, one processor takes turns with it, and pages are used at random with
 * given rates. A policy can be tried in seconds here; tables are made in guests.
 *
 * Rates are those of gups.c, where an access takes 26 ns, and of reads that follow a
 * zipfian distribution, where one takes 9 us; times are what a guest took whose clock counts
 * instructions. A line a workload: what is remote at least, if who uses what is known
 * beforehand; in the first eighth of the first half, its last, and the same of the second
 * half; and over all. "swing" is the longest window of the last eighth by the shortest.
 *
 * Runs on the host, in a second: cc -O2 tiering.c -lm
 * Usage: tiering [LOOK_NS [MOVE_NS]], what clearing a bit and looking at it take together,
 * and moving a page.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../modules/tieredmfs/window.h"

#define PAGES		32768
#define LOCAL_PAGES	8192
/* Free local pages, as settles while none are asked for: no more come back, no more leave */
#define KEEP		2
#define RECLAIM		64
#define ACCESS_NS	26
#define WAIT_EVERY	0.5e9
#define SHARE		25	/* as in thread.c, from here on */
#define CALM		8
#define BATCH_MIN	64
#define BATCH_MAX	16384
#define WINDOW_MIN	100e3
#define WINDOW_MAX	500e6
#define MOVING		4e6

enum { LOCAL, REMOTE };
enum { COLD, HOT };

struct page {
	double rate;		/* uses a nanosecond */
	int prev, next;
	bool remote, hot;
	int doubts;
};

static struct page pages[PAGES];
static struct { int first, last, nr; } lists[2][2];
static int nr_local, watched[PAGES];
static bool used[PAGES];		/* of those watched */
static double look_ns = 1440, move_ns = 3800, all_rate, local_rate;
static double clock_ns, ran_ns, remote_ns, wait_ns, window, batch;
static struct { double looked, seen; } found[2];	/* by tier */
static int calm;
static bool off, waiting;
static unsigned long usual[2];		/* by tier */
static uint64_t state;

static double next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 11) * 0x1p-53;
}

static void del(int i)
{
	struct page *page = &pages[i];

	*(page->prev < 0 ? &lists[page->remote][page->hot].first :
			   &pages[page->prev].next) = page->next;
	*(page->next < 0 ? &lists[page->remote][page->hot].last :
			   &pages[page->next].prev) = page->prev;
	lists[page->remote][page->hot].nr--;
	if (!page->remote) {
		nr_local--;
		local_rate -= page->rate;
	}
}

/* Put a page in doubt last, others first. */
static void add(int i, bool remote, bool hot, int doubts)
{
	struct page *page = &pages[i];

	page->remote = remote;
	page->hot = hot;
	page->doubts = doubts;
	page->prev = doubts ? lists[remote][hot].last : -1;
	page->next = doubts ? -1 : lists[remote][hot].first;
	*(page->prev < 0 ? &lists[remote][hot].first : &pages[page->prev].next) = i;
	*(page->next < 0 ? &lists[remote][hot].last : &pages[page->next].prev) = i;
	lists[remote][hot].nr++;
	if (!remote) {
		nr_local++;
		local_rate += page->rate;
	}
}

/* Of the time so far, in how much the program did not wait. */
static double runs(double ns)
{
	const double part = fmod(ns, WAIT_EVERY), run = WAIT_EVERY - wait_ns;

	return wait_ns ? (ns - part) / WAIT_EVERY * run + fmin(part, run) : ns;
}

/* Returns how long it ran. */
static double program_runs(double ns)
{
	const double ran = runs(clock_ns + ns) - runs(clock_ns);

	clock_ns += ns;
	ran_ns += ran;
	remote_ns += ran * (1 - local_rate / all_rate);
	return ran;
}

static bool judge(int i, bool was_used)
{
	const bool hot = pages[i].hot;
	int doubts = pages[i].doubts;

	if (!doubts) {
		found[pages[i].remote].looked++;
		found[pages[i].remote].seen += was_used;
	}
	del(i);
	if (was_used != hot)
		doubts++;
	else if (doubts)
		doubts--;
	if (doubts == TIERED_SURE) {
		add(i, pages[i].remote, was_used, 0);
		return true;
	}
	add(i, pages[i].remote, hot, doubts);
	return false;
}

static bool move(bool remote)
{
	const int i = lists[remote][remote ? HOT : COLD].first;

	if (i < 0 || pages[i].doubts)
		return false;
	del(i);
	add(i, !remote, remote, 0);
	return true;
}

static double balance(void)
{
	double spent = 0;
	bool moved = true;

	while (moved) {
		moved = false;
		while (spent < MOVING && LOCAL_PAGES - nr_local < RECLAIM && move(LOCAL)) {
			spent += move_ns;
			moved = true;
		}
		while (spent < MOVING && LOCAL_PAGES - nr_local > KEEP && move(REMOTE)) {
			spent += move_ns;
			moved = true;
		}
	}
	return spent;
}

static void adapt(void)
{
	const unsigned long target = tiered_target(PAGES, LOCAL_PAGES - KEEP);
	const double before = window;
	unsigned long all_used;

	if (found[LOCAL].looked + found[REMOTE].looked < PAGES / 4)
		return;
	all_used = nr_local * found[LOCAL].seen / fmax(found[LOCAL].looked, 1) +
		   (PAGES - nr_local) * found[REMOTE].seen / fmax(found[REMOTE].looked, 1);
	window = fmin(fmax(tiered_next_window(window, all_used, target), WINDOW_MIN), WINDOW_MAX);
	off = window != before && tiered_far_off(PAGES, all_used, target);
	memset(found, 0, sizeof(found));
}

static void one_round(void)
{
	int remote, hot, i, n, nr = 0, changed = 0;
	int looked[2] = {}, nr_used[2] = {};
	bool waited;
	double opening, ran, share[2], work;

	share[LOCAL] = tiered_local_batch(PAGES, nr_local, batch, waiting);
	share[REMOTE] = batch - share[LOCAL];
	for (remote = 0; remote < 2; remote++)
		for (hot = 0; hot < 2; hot++) {
			n = ceil(lists[remote][hot].nr * share[remote] /
				 (remote ? PAGES - nr_local : nr_local));
			for (i = lists[remote][hot].last; n-- && i >= 0; i = pages[i].prev)
				watched[nr++] = i;
		}
	opening = nr * look_ns / 2;
	if (opening > window / 2)
		batch = fmax(batch / 2, BATCH_MIN);
	else if (opening < window / 4)
		batch = fmin(batch * 2, BATCH_MAX);
	ran = program_runs(window);
	for (i = 0; i < nr; i++) {
		used[i] = next_random() < 1 - exp(-pages[watched[i]].rate * ran);
		looked[pages[watched[i]].remote]++;
		nr_used[pages[watched[i]].remote] += used[i];
	}
	waited = tiered_waited(tiered_fewer(&usual[LOCAL], looked[LOCAL], nr_used[LOCAL]),
			       tiered_fewer(&usual[REMOTE], looked[REMOTE], nr_used[REMOTE]));
	for (i = 0; i < nr && !waited; i++)
		changed += judge(watched[i], used[i]);
	adapt();
	work = nr * look_ns + balance();
	i = lists[REMOTE][HOT].first;
	waiting = i >= 0 && !pages[i].doubts &&
		  tiered_few_wait(lists[LOCAL][HOT].nr, lists[REMOTE][HOT].nr);
	if (off || changed > batch / TIERED_FEW)
		calm = 1;
	else if (!waited)
		calm = fmin(calm * 2, CALM);
	program_runs(fmax(work * (100 - SHARE) / SHARE * calm - window, 0));
}

/* Of gups.c: 90 % of the accesses in a hot part. */
static void set_hot(int start, int nr)
{
	int i;

	for (i = 0; i < PAGES; i++)
		pages[i].rate = 0.1 / PAGES / ACCESS_NS;
	for (i = 0; i < nr; i++)
		pages[(start + i) % PAGES].rate += 0.9 / nr / ACCESS_NS;
}

static void set_zipf(void)
{
	const int items = 100000;
	double zeta = 0;
	int rank;

	for (rank = 1; rank <= items; rank++)
		zeta += pow(rank, -0.99);
	for (rank = 1; rank <= items; rank++)
		pages[(int)(next_random() * PAGES)].rate += pow(rank, -0.99) / zeta / 9000;
}

static void sum_rates(void)
{
	int i;

	all_rate = local_rate = 0;
	for (i = 0; i < PAGES; i++) {
		all_rate += pages[i].rate;
		local_rate += pages[i].remote ? 0 : pages[i].rate;
	}
}

static int by_rate(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

static double least(void)
{
	double rates[PAGES], local = 0;
	int i;

	for (i = 0; i < PAGES; i++)
		rates[i] = pages[i].rate;
	qsort(rates, PAGES, sizeof(*rates), by_rate);
	for (i = 0; i < LOCAL_PAGES; i++)
		local += rates[i];
	return 1 - local / all_rate;
}

/*
 * @moves is how far the hot part moves halfway, @step how far 256 times in each half; for
 * @wait at the end of each WAIT_EVERY the program uses nothing.
 */
static void try(const char *name, int hot, int moves, int step, double wait, double half)
{
	double all = 0, all_ran = 0, shortest = 0, longest = 0, next, end;
	int i, slice, start = 0;

	memset(pages, 0, sizeof(pages));
	memset(lists, 0, sizeof(lists));
	for (i = 0; i < 4; i++)
		lists[i / 2][i % 2].first = lists[i / 2][i % 2].last = -1;
	state = 88172645463325252ull;
	if (hot)
		set_hot(0, hot);
	else
		set_zipf();
	nr_local = 0;
	for (i = 0; i < PAGES; i++)
		add(i, i >= LOCAL_PAGES - KEEP, HOT, TIERED_SURE - 1);
	sum_rates();
	clock_ns = 0;
	memset(found, 0, sizeof(found));
	wait_ns = wait;
	memset(usual, 0, sizeof(usual));
	window = 1e6;
	batch = BATCH_MIN;
	calm = 1;
	off = waiting = false;
	printf("%-24s least %4.1f %%:", name, 100 * least());
	next = half / 256;
	for (slice = 0; slice < 16; slice++) {
		remote_ns = ran_ns = 0;
		if (slice == 8 && moves)
			set_hot(start += moves, hot);
		sum_rates();
		shortest = longest = window;
		for (end = half * (slice + 1) / 8; clock_ns < end;) {
			if (step && clock_ns > next) {
				set_hot(start += step, hot);
				sum_rates();
				next += half / 256;
			}
			one_round();
			shortest = fmin(shortest, window);
			longest = fmax(longest, window);
		}
		all += remote_ns;
		all_ran += ran_ns;
		if (slice % 8 == 0 || slice % 8 == 7)
			printf(" %4.1f", 100 * remote_ns / ran_ns);
	}
	printf("; all %4.1f, swing %.2f\n", 100 * all / all_ran, longest / shortest);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		look_ns = atof(argv[1]);
	if (argc > 2)
		move_ns = atof(argv[2]);
	try("a quarter moves", 8192, 2048, 0, 0, 2.4e9);
	try("all of it moves", 8192, 16384, 0, 0, 2.4e9);
	try("all, half of it hot", 4096, 16384, 0, 0, 2.4e9);
	try("it moves slowly", 8192, 0, 16, 0, 2.4e9);
	try("a quarter, waits 20 ms", 8192, 2048, 0, 20e6, 2.4e9);
	try("a quarter, waits 200 ms", 8192, 2048, 0, 200e6, 3.6e9);
	try("zipfian", 0, 0, 0, 0, 7.2e9);
	return 0;
}
