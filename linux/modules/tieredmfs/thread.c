// SPDX-License-Identifier: GPL-2.0
/*
 * The thread of tieredmfs: which pages are used, and moving them.
 *
 * It clears the accessed bits of some pages of each list, waits, and looks which
 * are set again. A bit says whether a page was used, not how often: after a long
 * wait all pages look used, after a short one none. So it waits for as long as
 * makes some more pages look used than the local pool has: see window.h.
 * One such window is often wrong about a page: a page changes list when three more of
 * them say so than do not.
 *
 * While less than reclaim_threshold pages are free locally, or no piece of 2 MB, cold
 * ones go to the remote pool; while more than alloc_threshold are, hot remote ones
 * come back. What that keeps free is for new pages: while few are asked for, the
 * thresholds are lower.
 */
#include <linux/freezer.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>

#include "tiered.h"
#include "window.h"

/* Limits of the window, of the pages in it, and of the time for moves after it */
#define TIERED_WINDOW_MIN	(100 * NSEC_PER_USEC)
#define TIERED_WINDOW_FIRST	NSEC_PER_MSEC
#define TIERED_BATCH_MIN	64UL
#define TIERED_BATCH_MAX	16384UL
#define TIERED_MOVING		(4 * NSEC_PER_MSEC)

/* While little changes, rests are up to this many times longer. */
#define TIERED_CALM		8

/* Looking */

static void tiered_watch_list(struct tiered *t, struct tier *tier, int heat,
			      long nr_pages)
{
	struct folio *folio;

	while (nr_pages > 0) {
		spin_lock(&t->lock);
		if (list_empty(&tier->list[heat])) {
			spin_unlock(&t->lock);
			break;
		}
		folio = list_last_entry(&tier->list[heat], struct folio, lru);
		list_move(&folio->lru, &tier->watched);
		nr_pages -= folio_nr_pages(folio);
		folio_get(folio);
		spin_unlock(&t->lock);

		if (folio_trylock(folio)) {
			fbmm_clear_accessed(folio);
			folio_unlock(folio);
		}
		folio_put(folio);
		cond_resched();
	}
}

static void tiered_watch_tier(struct tiered *t, struct tier *tier, unsigned long batch)
{
	const unsigned long all = max(tier_pages(tier), 1UL);
	int heat;

	for (heat = 0; heat < NR_HEATS; heat++)
		tiered_watch_list(t, tier, heat,
				  DIV_ROUND_UP(READ_ONCE(tier->nr_pages[heat]) * batch, all));
}

/*
 * Open a window, with the same share of both lists of a tier. How long that took says how
 * many pages the next can have.
 */
static void tiered_watch(struct tiered *t)
{
	const unsigned long all = max(tiered_pages(t), 1UL);
	const unsigned long batch = min(t->batch, all);
	const unsigned long local = tiered_local_batch(all, tier_pages(&t->tier[LOCAL]),
						       batch, t->waiting);
	const u64 start = ktime_get_ns();
	u64 took;

	tiered_watch_tier(t, &t->tier[LOCAL], local);
	tiered_watch_tier(t, &t->tier[REMOTE], batch - local);
	fbmm_flush_accessed();
	took = ktime_get_ns() - start;
	if (took > t->window / 2)
		t->batch = max(t->batch / 2, TIERED_BATCH_MIN);
	else if (took < t->window / 4)
		t->batch = min(t->batch * 2, TIERED_BATCH_MAX << t->super.max_order);
}

/*
 * Put a folio where it belongs now; returns whether that is another list. In doubt
 * it goes to the end of its own, and is looked at again in the next window.
 */
static bool tiered_judge(struct tiered *t, struct folio *folio, bool used)
{
	struct tier *tier = tier_of(t, folio);
	const bool hot = folio_test_active(folio);
	const unsigned long nr = folio_nr_pages(folio);
	unsigned int doubts = tiered_doubts(folio);

	lockdep_assert_held(&t->lock);
	if (!doubts) {	/* else a page that is likely to be unlike the others */
		tier->looked += nr;
		tier->seen += used ? nr : 0;
	}
	tiered_del(t, folio);
	if (used != hot)
		doubts++;
	else if (doubts)
		doubts--;
	if (doubts == TIERED_SURE) {
		tiered_add(t, folio, used, 0);
		return true;
	}
	tiered_add(t, folio, hot, doubts);
	return false;
}

/* What a window found in a tier: pages, and how many of them were used */
struct tiered_seen {
	unsigned long pages, used;
};

static void tiered_look(struct tiered *t, struct tier *tier, struct folio *folio,
			struct tiered_seen *seen)
{
	bool used;

	if (!folio_trylock(folio))
		return;
	if (folio->mapping) {
		used = fbmm_clear_accessed(folio);
		spin_lock(&t->lock);
		if (!list_empty(&folio->lru)) {
			list_move(&folio->lru, &tier->found[used]);
			seen->pages += folio_nr_pages(folio);
			seen->used += used ? folio_nr_pages(folio) : 0;
		}
		spin_unlock(&t->lock);
	}
	folio_unlock(folio);
}

/* Close the window of a tier: whether fewer pages were used than usual. */
static int tiered_look_at_tier(struct tiered *t, struct tier *tier)
{
	struct tiered_seen seen = {};
	struct folio *folio;

	for (;;) {
		spin_lock(&t->lock);
		if (list_empty(&tier->watched)) {
			spin_unlock(&t->lock);
			break;
		}
		folio = list_last_entry(&tier->watched, struct folio, lru);
		/* To the end: it may stay in doubt, if somebody has it locked. */
		list_move_tail(&folio->lru, &tier->list[folio_test_active(folio)]);
		folio_get(folio);
		spin_unlock(&t->lock);

		tiered_look(t, tier, folio, &seen);
		folio_put(folio);
		cond_resched();
	}
	return tiered_fewer(&tier->usual, seen.pages, seen.used);
}

/*
 * Judge what was found, or if that says nothing leave it where it is looked at again next.
 * Returns how many pages changed list.
 */
static unsigned long tiered_conclude(struct tiered *t, struct tier *tier, bool used)
{
	struct list_head *found = &tier->found[used];
	unsigned long changed = 0;
	struct folio *folio;

	for (;;) {
		spin_lock(&t->lock);
		if (list_empty(found)) {
			spin_unlock(&t->lock);
			break;
		}
		folio = list_last_entry(found, struct folio, lru);
		if (t->waited)
			list_move_tail(&folio->lru, &tier->list[folio_test_active(folio)]);
		else if (tiered_judge(t, folio, used))
			changed += folio_nr_pages(folio);
		spin_unlock(&t->lock);
		cond_resched();
	}
	return changed;
}

/* Close the window; returns how many pages changed list. */
static unsigned long tiered_look_at_all(struct tiered *t)
{
	const int fewer_local = tiered_look_at_tier(t, &t->tier[LOCAL]);
	const int fewer_remote = tiered_look_at_tier(t, &t->tier[REMOTE]);
	unsigned long changed = 0;
	int tier;

	t->waited = tiered_waited(fewer_local, fewer_remote);
	for (tier = 0; tier < NR_TIERS; tier++) {
		changed += tiered_conclude(t, &t->tier[tier], false);
		changed += tiered_conclude(t, &t->tier[tier], true);
	}
	return changed;
}

/* How many pages of a tier look used, judging by those looked at */
static unsigned long tiered_used(struct tier *tier)
{
	const unsigned long looked = max(tier->looked, 1UL);

	return mult_frac(tier_pages(tier), tier->seen, looked);
}

/* By how many pages look used; returns whether the window is far off. */
static bool tiered_adapt_window(struct tiered *t)
{
	struct tier *local = &t->tier[LOCAL], *remote = &t->tier[REMOTE];
	const unsigned long all = tiered_pages(t), nr = local->nr;
	const unsigned long room = nr - min(nr, tiered_alloc_above(t) + t->shared_local);
	const unsigned long target = tiered_target(all, room);
	const u64 most = READ_ONCE(t->interval) * NSEC_PER_MSEC;
	unsigned long used;
	u64 window;

	if (local->looked + remote->looked < all / 4)
		return t->off;
	used = tiered_used(local) + tiered_used(remote);
	window = clamp_t(u64, tiered_next_window(t->window, used, target),
			 TIERED_WINDOW_MIN, most);
	t->off = window != t->window && tiered_far_off(all, used, target);
	local->looked = 0;
	local->seen = 0;
	remote->looked = 0;
	remote->seen = 0;
	WRITE_ONCE(t->window, window);
	return t->off;
}

/*
 * How much of the thresholds is kept: all when pages were asked for in the last round,
 * more than half of what was kept for them; less and less while they are not.
 */
static void tiered_adapt_keep(struct tiered *t)
{
	const unsigned long asked = atomic_long_xchg(&t->asked, 0);

	if (asked > tiered_alloc_above(t) / 2)
		WRITE_ONCE(t->keep, min(2 * t->keep, TIERED_KEEP_ALL));
	else if (t->keep > 1)
		WRITE_ONCE(t->keep, t->keep - 1);
}

/* Moving */

/* The folio last found to be in the right list, or NULL if all are in doubt. */
static struct folio *tiered_first(struct tiered *t, int tier, int heat)
{
	struct folio *folio = list_first_entry_or_null(&t->tier[tier].list[heat],
						       struct folio, lru);

	lockdep_assert_held(&t->lock);
	return folio && !tiered_doubts(folio) ? folio : NULL;
}

/* The same with a reference, put to the end. */
static struct folio *tiered_take(struct tiered *t, int tier, int heat)
{
	struct folio *folio;

	spin_lock(&t->lock);
	folio = tiered_first(t, tier, heat);
	if (folio) {
		list_move_tail(&folio->lru, &t->tier[tier].list[heat]);
		folio_get(folio);
	}
	spin_unlock(&t->lock);
	return folio;
}

/*
 * Move a cold folio from the local tier, or a hot one from the remote; how many pages
 * it has, or 0 if there is none or no room for it.
 */
static unsigned long tiered_move(struct tiered *t, int from)
{
	const bool hot = from == REMOTE;
	struct folio *folio, *target;
	unsigned long nr;
	struct page *page;

	folio = tiered_take(t, from, hot ? HOT : COLD);
	if (!folio)
		return 0;
	nr = folio_nr_pages(folio);
	page = tier_get(&t->tier[!from], folio_order(folio));
	if (!page) {
		folio_put(folio);
		return 0;
	}
	target = page_folio(page);
	INIT_LIST_HEAD(&target->lru);
	tiered_mark(target, hot, 0);
	if (mfs_migrate(&t->super, folio, target)) {
		tier_put(&t->tier[!from], target);
		folio_put(folio);
		atomic_long_add(nr, &t->failed);
	} else {
		tier_put(&t->tier[from], folio);
		atomic_long_add(nr, hot ? &t->promoted : &t->demoted);
	}
	return nr;
}

/* Little is free locally, or not in the pieces that hot ones would need. */
bool tiered_is_short(struct tiered *t)
{
	struct tier *local = &t->tier[LOCAL];

	return tier_free(local) + t->leaving < tiered_reclaim_below(t) + t->room_wanted ||
	       (t->super.max_order && !READ_ONCE(local->nr_pieces) && !t->leaving);
}

bool tiered_has_room(struct tiered *t)
{
	return tier_free(&t->tier[LOCAL]) > tiered_alloc_above(t);
}

static unsigned long tiered_move_from(struct tiered *t, int from, u64 end)
{
	unsigned long moved = 0, nr;

	while (ktime_get_ns() < end && !kthread_should_stop() &&
	       (from == LOCAL ? tiered_is_short(t) : tiered_has_room(t))) {
		nr = tiered_move(t, from);
		if (!nr)
			break;
		moved += nr;
		cond_resched();
	}
	return moved;
}

/* Make room, and use it; returns how many pages were tried. */
static unsigned long tiered_balance(struct tiered *t)
{
	const u64 end = ktime_get_ns() + TIERED_MOVING;
	unsigned long moved = 0, nr;

	do {
		nr = tiered_move_from(t, LOCAL, end);
		nr += tiered_move_from(t, REMOTE, end);
		moved += nr;
	} while (nr);

	spin_lock(&t->lock);
	t->waiting = tiered_first(t, REMOTE, HOT) &&
		     tiered_few_wait(t->tier[LOCAL].nr_pages[HOT],
				     t->tier[REMOTE].nr_pages[HOT]);
	spin_unlock(&t->lock);
	return moved;
}

/* Resting */

static void tiered_sleep(struct tiered *t, u64 ns)
{
	ktime_t time = ns_to_ktime(ns);

	set_current_state(TASK_INTERRUPTIBLE);
	if (!kthread_should_stop())
		schedule_hrtimeout_range(&time, ns / 16, HRTIMER_MODE_REL);
	__set_current_state(TASK_RUNNING);
	if (mfs_is_in_a_hurry(&t->super))
		tiered_visit(t);
	try_to_freeze();
}

/* Nothing is remote, and there is room: it does not matter what is used. */
static bool tiered_is_idle(struct tiered *t)
{
	return !tier_used(&t->tier[REMOTE]) && !tiered_is_short(t);
}

/* One window, and what follows from it. Returns how long to rest after it. */
static u64 tiered_round(struct tiered *t)
{
	const unsigned long share = READ_ONCE(t->share);
	const u64 start = ktime_get_ns();
	unsigned long changed;
	u64 closed, work, rest;
	bool off;

	tiered_watch(t);
	work = ktime_get_ns() - start;
	tiered_sleep(t, t->window);
	closed = ktime_get_ns();
	changed = tiered_look_at_all(t);
	off = tiered_adapt_window(t);
	tiered_adapt_keep(t);
	changed += tiered_balance(t);
	changed += tiered_visit(t);
	work += ktime_get_ns() - closed;

	if (off || changed > t->batch / TIERED_FEW)
		t->calm = 1;
	else if (!t->waited)
		t->calm = min(t->calm * 2, TIERED_CALM);
	rest = div_u64(work * (100 - share) * t->calm, share);
	return rest > t->window ? rest - t->window : 0;
}

static int tiered_thread(void *data)
{
	struct tiered *t = data;
	u64 rest;

	set_freezable();
	while (!kthread_should_stop()) {
		if (t->super.max_order) {
			tier_join(&t->tier[LOCAL]);
			tier_join(&t->tier[REMOTE]);
		}
		rest = tiered_is_idle(t) ? U64_MAX : tiered_round(t);
		rest = min_t(u64, rest, READ_ONCE(t->interval) * NSEC_PER_MSEC);
		if (rest)
			tiered_sleep(t, rest);
	}
	mfs_end_turn(&t->super);
	return 0;
}

int tiered_start(struct tiered *t)
{
	struct task_struct *thread;

	t->window = TIERED_WINDOW_FIRST;
	t->batch = TIERED_BATCH_MIN;
	t->calm = 1;
	thread = kthread_run(tiered_thread, t, "tieredmfs/%u",
			     MINOR(t->super.sb->s_dev));
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	t->thread = thread;
	return 0;
}
