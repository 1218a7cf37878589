// SPDX-License-Identifier: GPL-2.0
/*
 * Going round the files of a mount, as the hand of a clock; and so seeing and moving
 * folios that several files have.
 *
 * Such a folio does not say which files these are. Nobody writes to it, so
 * there may as well be two of it for a while: who moves it makes a copy, and each file
 * gets that when the hand comes to it. Until the end of the turn the mover counts as an
 * owner of both, so that neither becomes a file's own, is written, or is free and
 * something else. What files have not got then, by fork() behind the hand, say, they get in
 * another round, in which nothing else moves.
 */
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "internal.h"

#define MFS_VISIT_LOOK	256	/* places of a file looked at with its lock held */
#define MFS_MOVED_MAX	4096UL	/* pages of which there may be two */
#define MFS_ROUNDS	3	/* more in a turn, until no file has what was moved */

/* Hands */

void mfs_hand_init(struct mfs_super *super)
{
	struct mfs_hand *hand;

	for (hand = super->hand; hand < super->hand + NR_MFS_HANDS; hand++) {
		spin_lock_init(&hand->lock);
		INIT_LIST_HEAD(&hand->files);
	}
	xa_init(&super->moved);
}

/* Whether anybody goes round; that does not change once there is a file. */
static bool mfs_hand_moves(struct mfs_super *super, unsigned int nr)
{
	return nr == MFS_HAND_SWAP ? !!super->swap : !!super->ops->shared;
}

/* A file is made: the last on the way of every hand. */
void mfs_hand_add(struct mfs_inode *mi)
{
	struct mfs_super *super = mfs_super(mi->inode.i_sb);
	unsigned int nr;

	for (nr = 0; nr < NR_MFS_HANDS; nr++) {
		struct mfs_hand *hand = &super->hand[nr];

		if (!mfs_hand_moves(super, nr))
			continue;
		mi->place[nr].next = 0;
		spin_lock(&hand->lock);
		list_add_tail(&mi->place[nr].list, &hand->files);
		hand->nr_files++;
		spin_unlock(&hand->lock);
	}
}

/* It is deleted. */
void mfs_hand_del(struct mfs_inode *mi)
{
	struct mfs_super *super = mfs_super(mi->inode.i_sb);
	unsigned int nr;

	for (nr = 0; nr < NR_MFS_HANDS; nr++) {
		struct mfs_hand *hand = &super->hand[nr];

		if (!mfs_hand_moves(super, nr))
			continue;
		spin_lock(&hand->lock);
		list_del(&mi->place[nr].list);
		hand->nr_files--;
		spin_unlock(&hand->lock);
	}
}

/* The file that a hand is in, with a reference; NULL if that is being deleted, and passed. */
struct mfs_inode *mfs_hand_file(struct mfs_super *super, unsigned int nr)
{
	struct mfs_hand *hand = &super->hand[nr];
	struct mfs_inode *mi;

	spin_lock(&hand->lock);
	mi = list_first_entry_or_null(&hand->files, struct mfs_inode, place[nr].list);
	if (mi && !igrab(&mi->inode)) {
		list_move_tail(&mi->place[nr].list, &hand->files);
		mi = NULL;
	}
	spin_unlock(&hand->lock);
	return mi;
}

/* On to the next file */
void mfs_hand_pass(struct mfs_inode *mi, unsigned int nr)
{
	struct mfs_hand *hand = &mfs_super(mi->inode.i_sb)->hand[nr];

	spin_lock(&hand->lock);
	list_move_tail(&mi->place[nr].list, &hand->files);
	spin_unlock(&hand->lock);
}

/* Folios that several files have */

/* Put @target in the place of a folio of the file, with the same in it. */
static int mfs_replace(struct mfs_inode *mi, pgoff_t index, struct folio *folio,
		       struct folio *target)
{
	XA_STATE_ORDER(xas, &mi->folios, index, folio_order(target));

	if (!mfs_unreferenced(folio, 0))
		return -EAGAIN;
	mfs_unmap(mi, index, folio_nr_pages(folio));
	/* Only now nobody can get a reference by a page table of this file's. */
	if (!mfs_unreferenced(folio, 0))
		return -EAGAIN;
	mfs_get_owner(target);
	xas_lock(&xas);
	xas_store(&xas, target);	/* in place of another: needs no memory */
	xas_unlock(&xas);
	mfs_drop(mfs_super(mi->inode.i_sb), folio);
	return 0;
}

/* Whether the folio is to stay: as in mfs_migrate(), or the cache of what is swapped has it. */
static bool mfs_stays(struct mfs_super *super, struct folio *folio)
{
	return mfs_poisoned(folio_page(folio, 0), folio_nr_pages(folio)) ||
	       (super->swap && folio_test_mlocked(folio)) ||
	       mfs_swap_caches(super, folio) || !mfs_unreferenced(folio, 0);
}

/* Make a folio a copy, for the time being the mover's; charged as the one it is of. */
static int mfs_copy_shared(struct mfs_super *super, struct folio *folio,
			   struct folio *target)
{
	struct mem_cgroup *old;
	int err;

	folio_set_swapbacked(target);
	/* While the folio is charged, and it is as long as a file has it, the cgroup stays. */
	old = set_active_memcg(folio_memcg(folio));
	err = fbmm_charge(target, GFP_NOWAIT | __GFP_NOWARN);
	set_active_memcg(old);
	if (err)
		return err;
	mfs_set_owner(target);
	target->mapping = NULL;
	target->index = folio->index;
	folio_copy(target, folio);
	folio_mark_uptodate(target);
	atomic_long_add(folio_nr_pages(target), &super->used);
	return 0;
}

/**
 * mfs_move_shared - replace a folio that several files have by another
 * @super: the mount
 * @visit: as mfs_ops.shared got it
 * @target: of the same order, from the caller, with one reference; given back if it is
 *	not used
 *
 * This file has it from now on, the others as the hand comes to them; those in which
 * somebody uses it then keep the folio. Until the end of the turn neither is free.
 *
 * Return: 0 or an error: -EAGAIN if somebody uses the folio, or too much is being moved.
 */
int mfs_move_shared(struct mfs_super *super, struct mfs_visit *visit,
		    struct folio *target)
{
	struct folio *folio = visit->folio;
	const unsigned long nr = folio_nr_pages(folio);
	int err = -EAGAIN;

	if (mfs_stays(super, folio) || super->rounds || mfs_is_in_a_hurry(super) ||
	    (super->nr_moved && super->nr_moved + nr > MFS_MOVED_MAX))
		goto give_back;
	err = xa_err(xa_store(&super->moved, folio_pfn(folio), target, GFP_KERNEL));
	if (err)
		goto give_back;
	err = mfs_copy_shared(super, folio, target);
	if (err)
		goto forget;
	mfs_get_owner(folio);
	super->mover = current;
	WRITE_ONCE(super->nr_moved, super->nr_moved + nr);
	err = mfs_replace(visit->mi, visit->index, folio, target);
	if (!err)
		return 0;
	WRITE_ONCE(super->nr_moved, super->nr_moved - nr);
	mfs_drop(super, folio);
	xa_erase(&super->moved, folio_pfn(folio));
	mfs_drop(super, target);
	return err;
forget:
	xa_erase(&super->moved, folio_pfn(folio));
give_back:
	mfs_give_back(super, target);
	return err;
}
EXPORT_SYMBOL_GPL(mfs_move_shared);

/**
 * mfs_end_turn - let go of what was moved
 * @super: the mount
 *
 * For who calls mfs_visit(), before files go.
 */
void mfs_end_turn(struct mfs_super *super)
{
	struct folio *target;
	unsigned long pfn;

	xa_for_each(&super->moved, pfn, target) {
		xa_erase(&super->moved, pfn);
		mfs_drop(super, pfn_folio(pfn));
		mfs_drop(super, target);
		cond_resched();
	}
	super->files_left = 0;
	super->rounds = 0;
	WRITE_ONCE(super->hurry, false);
	WRITE_ONCE(super->nr_moved, 0);
}
EXPORT_SYMBOL_GPL(mfs_end_turn);

/* There is no page, but some are there twice: have the turn end, and say that it will. */
bool mfs_hurry(struct mfs_super *super)
{
	if (!READ_ONCE(super->nr_moved))
		return false;
	WRITE_ONCE(super->hurry, true);
	return true;
}

/*
 * After -EALREADY, wait until nothing is there twice; no lock of the mount's files is held. Who
 * moves takes no page meanwhile, as there is none. Returns whether to try again.
 */
bool mfs_wait_turn(struct mfs_super *super, int *err)
{
	if (likely(*err != -EALREADY))
		return false;
	while (READ_ONCE(super->nr_moved) && !fatal_signal_pending(current)) {
		wake_up_process(super->mover);
		schedule_timeout_killable(1);
	}
	*err = fatal_signal_pending(current) ? -EINTR : 0;
	return !*err;
}

/* Whether a file has a folio that was moved; the mover counts as an owner of it, too. */
static bool mfs_left_behind(struct mfs_super *super)
{
	struct folio *target;
	unsigned long pfn;

	xa_for_each(&super->moved, pfn, target)
		if (mfs_shared(pfn_folio(pfn)))
			return true;
	return false;
}

/* The file that the hand is in is not passed in full. */
static void mfs_begin_round(struct mfs_super *super)
{
	super->files_left = READ_ONCE(super->hand[MFS_HAND_SHARED].nr_files) + 1;
}

static void mfs_visit_folio(struct mfs_super *super, struct mfs_visit *visit)
{
	struct mfs_inode *mi = visit->mi;
	struct folio *folio = visit->folio;
	struct folio *target;

	/* The others have ended, or have copies. */
	if (mfs_claim(mi, visit->index, folio, 0))
		return;
	if (!folio_trylock(folio))
		return;
	target = xa_load(&super->moved, folio_pfn(folio));
	if (target) {
		mfs_replace(mi, visit->index, folio, target);
	} else {
		visit->used = mfs_used(mi, visit->index, folio);
		super->ops->shared(super, visit);
	}
	folio_unlock(folio);
}

/* From where the hand is in the file; whether it came to the end. */
static bool mfs_visit_file(struct mfs_super *super, struct mfs_inode *mi)
{
	struct mfs_place *place = &mi->place[MFS_HAND_SHARED];
	unsigned int looked = 0;
	unsigned long index;
	void *entry;

	xa_for_each_start(&mi->folios, index, entry, place->next) {
		struct mfs_visit visit = { .mi = mi, .folio = entry };

		if (looked++ == MFS_VISIT_LOOK) {
			place->next = index;
			return false;
		}
		if (xa_is_value(entry) || mfs_owned(mi, entry))
			continue;
		visit.index = ALIGN_DOWN(index, folio_nr_pages(entry));
		mfs_visit_folio(super, &visit);
	}
	place->next = 0;
	return true;
}

/**
 * mfs_visit - look at some of the next file's folios that others have, too
 * @super: the mount; its mfs_ops.shared is called for each
 *
 * By one thread. What no other file has any more becomes the file's own again.
 *
 * Return: whether that ended a turn, in which each file was visited. Who calls flushes
 * what the turn has cleared: fbmm_flush_accessed().
 */
bool mfs_visit(struct mfs_super *super)
{
	struct mfs_inode *mi = mfs_hand_file(super, MFS_HAND_SHARED);
	bool passed = true;

	if (!super->files_left)
		mfs_begin_round(super);
	if (mi) {
		filemap_invalidate_lock(mi->inode.i_mapping);
		passed = mfs_visit_file(super, mi);
		filemap_invalidate_unlock(mi->inode.i_mapping);
		if (passed)
			mfs_hand_pass(mi, MFS_HAND_SHARED);
		iput(&mi->inode);
	}
	super->files_left -= passed;
	if (super->files_left)
		return false;
	if (super->rounds < MFS_ROUNDS && mfs_left_behind(super)) {
		super->rounds++;
		mfs_begin_round(super);
		return false;
	}
	mfs_end_turn(super);
	return true;
}
EXPORT_SYMBOL_GPL(mfs_visit);
