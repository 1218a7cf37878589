// SPDX-License-Identifier: GPL-2.0
/*
 * What several files have after fork(), and is in no list: it belongs to no process, and
 * its accessed bits are asked file by file. A hand goes round the files, a turn
 * takes a window at least, and a folio that any of them used in the last two turns is hot,
 * one that none of them did is cold. These move as those in the lists do, and for the
 * same reasons; each file gets the copy when the hand comes by.
 */
#include <linux/kthread.h>
#include <linux/ktime.h>

#include "tiered.h"

/* For how long files are visited after a window */
#define TIERED_VISITING	NSEC_PER_MSEC

/*
 * Marks of a folio that is in no list: whether it was used in the turn before the last
 * (PG_active), in the last (PG_workingset), and which that was (PG_mappedtodisk, 0 or 1).
 */
void tiered_mark_shared(struct folio *folio, bool before, bool last, bool turn)
{
	tiered_set_active(folio, before);
	tiered_set_workingset(folio, last);
	tiered_set_mappedtodisk(folio, turn);
}

/* Move it if it is where it should not be. */
static void tiered_move_shared(struct tiered *t, struct mfs_visit *visit, bool hot)
{
	struct folio *folio = visit->folio, *target;
	const unsigned long nr = folio_nr_pages(folio);
	struct page *page = tier_get(&t->tier[hot ? LOCAL : REMOTE], folio_order(folio));

	if (!page)
		return;
	target = page_folio(page);
	INIT_LIST_HEAD(&target->lru);
	tiered_mark_shared(target, folio_test_active(folio), folio_test_workingset(folio),
			   folio_test_mappedtodisk(folio));
	if (mfs_move_shared(&t->super, visit, target)) {
		atomic_long_add(nr, &t->failed);
	} else if (hot) {
		atomic_long_add(nr, &t->promoted);
	} else {
		t->leaving += nr;
		atomic_long_add(nr, &t->demoted);
	}
}

/* For mfs_ops.shared */
void tiered_shared(struct mfs_super *super, struct mfs_visit *visit)
{
	struct tiered *t = container_of(super, struct tiered, super);
	struct folio *folio = visit->folio;
	const bool turn = t->turn & 1;
	const bool local = tier_of(t, folio) == &t->tier[LOCAL];
	bool before, last;

	if (folio_test_mappedtodisk(folio) == turn) {
		/* Found in another file in this turn */
		if (visit->used)
			folio_set_workingset(folio);
		return;
	}
	before = folio_test_active(folio);
	last = folio_test_workingset(folio);
	tiered_mark_shared(folio, last, visit->used, turn);
	if (local)
		t->shared_seen += folio_nr_pages(folio);
	if (before && last && !local) {
		if (tiered_has_room(t))
			tiered_move_shared(t, visit, true);
		else
			t->room_missed += folio_nr_pages(folio);
	} else if (!before && !last && local && tiered_is_short(t)) {
		tiered_move_shared(t, visit, false);
	}
}

/* Whether files have pages that are in no list */
static bool tiered_has_shared(struct tiered *t)
{
	return atomic_long_read(&t->super.used) > tiered_pages(t) || t->super.nr_moved;
}

/* Go on with the turn, or begin one, if there is something to see; how many pages moved. */
unsigned long tiered_visit(struct tiered *t)
{
	const unsigned long before = t->super.nr_moved;
	unsigned long moved;
	u64 now = ktime_get_ns();
	const u64 end = now + TIERED_VISITING;
	bool over;

	if (!t->super.files_left) {
		if (!tiered_has_shared(t)) {
			/* Nor is anything of it local, or wanted there. */
			t->shared_local = 0;
			t->room_wanted = 0;
			return 0;
		}
		if (now < t->turn_due)
			return 0;
		t->leaving = 0;
	}
	do {
		moved = t->super.nr_moved - before;
		over = mfs_visit(&t->super);
		now = ktime_get_ns();
		cond_resched();
	} while (!over && (now < end || mfs_is_in_a_hurry(&t->super)) && !kthread_should_stop());
	fbmm_flush_accessed();
	if (!over)
		return t->super.nr_moved - before;
	t->turn++;
	t->turn_due = now + t->window;
	t->shared_local = t->shared_seen;
	t->shared_seen = 0;
	t->room_wanted = min(t->room_missed, t->tier[LOCAL].nr / 4);
	t->room_missed = 0;
	t->leaving = 0;
	return moved;
}
