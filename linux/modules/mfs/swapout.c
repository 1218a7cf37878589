// SPDX-License-Identifier: GPL-2.0
/*
 * Swapping out: the thread, and waiting for it.
 *
 * While the pool is low, the thread goes round the files of the mount, as the hand
 * of a clock, and takes the pages that were not used since it last came by. It
 * holds no lock while it writes. Who finds the pool empty drops the
 * invalidate_lock, which the thread needs, before it waits.
 */
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/sched/mm.h>
#include <linux/uio.h>

#include "swap.h"

#define MFS_SWAP_LOOK	256	/* places of a file looked at with its lock held */

struct mfs_victim {
	struct folio *folio;
	unsigned long slot;
	bool cached;
};

/* Whether the folio was used through this file; only its owner's is named in it. */
static bool mfs_swap_used(struct mfs_inode *mi, pgoff_t index, struct folio *folio)
{
	struct address_space *mapping = folio->mapping;
	const pgoff_t slot = folio->index;
	bool used;

	if (mapping)
		return fbmm_clear_accessed(folio);
	folio->index = index;
	folio->mapping = mi->inode.i_mapping;
	used = fbmm_clear_accessed(folio);
	folio->mapping = NULL;
	folio->index = slot;
	return used;
}

/*
 * Get a reference to the slot the folio has in the cache, or to a new one, for
 * which the cache has room.
 */
static int mfs_swap_find_slot(struct mfs_swap *swap, struct mfs_victim *victim)
{
	struct folio *folio = victim->folio;
	int slot, err;

	victim->slot = folio->index;
	victim->cached = !folio->mapping &&
			 xa_load(&swap->cache, victim->slot) == folio &&
			 refcount_inc_not_zero(&swap->users[victim->slot]);
	if (victim->cached)
		return 0;
	slot = ida_alloc_max(&swap->slots, swap->nr - 1, GFP_KERNEL);
	if (slot < 0)
		return slot;
	err = xa_reserve(&swap->cache, slot, GFP_KERNEL);
	if (err) {
		ida_free(&swap->slots, slot);
		return err;
	}
	refcount_set(&swap->users[slot], 1);
	atomic_long_inc(&swap->swapped);
	victim->slot = slot;
	return 0;
}

/*
 * Put a slot in the place of a folio, which becomes the cache's. Returns -EBUSY if
 * the folio has to stay, or another error if there is no slot.
 */
static int mfs_swap_take(struct mfs_swap *swap, struct mfs_inode *mi, pgoff_t index,
			 struct mfs_victim *victim)
{
	struct folio *folio = victim->folio;
	int err = -EBUSY;

	folio_lock(folio);
	if (folio_test_large(folio) || folio_test_mlocked(folio) ||
	    folio_test_hwpoison(folio) || !mfs_unreferenced(folio, 0) ||
	    (mfs_swap_used(mi, index, folio) && !swap->force))
		goto unlock;
	err = mfs_swap_find_slot(swap, victim);
	if (err)
		goto unlock;
	mfs_unmap(mi, index, 1);
	/* Only now nobody can get a reference by a page table. */
	if (!mfs_unreferenced(folio, 0)) {
		mfs_swap_put(swap->super, victim->slot);
		err = -EBUSY;
		goto unlock;
	}
	if (!victim->cached) {
		mfs_detach(mi, folio);
		folio->index = victim->slot;
		xa_store(&swap->cache, victim->slot, folio, GFP_KERNEL);
	}
	mfs_swap_get(swap->super, victim->slot);
	/* In place of another: needs no memory */
	xa_store(&mi->folios, index, xa_mk_value(victim->slot), GFP_KERNEL);
unlock:
	folio_unlock(folio);
	return err;
}

/* From where the hand is in the file; *@passed is whether it came to the end. */
static unsigned int mfs_swap_scan(struct mfs_swap *swap, struct mfs_inode *mi,
				  struct mfs_victim *batch, bool *passed)
{
	unsigned int looked = 0, nr = 0;
	unsigned long index;
	void *entry;
	int err;

	xa_for_each_start(&mi->folios, index, entry, mi->swap_hand) {
		if (nr == MFS_SWAP_BATCH || looked++ == MFS_SWAP_LOOK) {
			mi->swap_hand = index;
			*passed = false;
			return nr;
		}
		if (xa_is_value(entry))
			continue;
		batch[nr].folio = entry;
		err = mfs_swap_take(swap, mi, index, &batch[nr]);
		if (!err)
			nr++;
		else if (err != -EBUSY)
			break;
	}
	mi->swap_hand = 0;
	*passed = true;
	return nr;
}

/* Write what was taken, and give it back if no file has got it meanwhile. */
static void mfs_swap_write(struct mfs_swap *swap, const struct mfs_victim *victim)
{
	struct mfs_super *super = swap->super;
	int err = 0;

	if (victim->cached) {
		mfs_drop(super, victim->folio);
	} else {
		err = mfs_swap_io(swap, victim->slot, victim->folio, ITER_SOURCE);
		if (!err) {
			xa_set_mark(&swap->cache, victim->slot, MFS_WRITTEN);
			mfs_swap_settle(super, victim->slot);
		}
	}
	mfs_swap_put(super, victim->slot);
	if (!err) {
		atomic_long_inc(&swap->swapouts);
		return;
	}
	WRITE_ONCE(swap->failed, true);
	if (!swap->said)
		pr_err("%s: writing to the swap file: error %d\n",
		       super->sb->s_type->name, err);
	swap->said = true;
}

/* The file that the hand is in, with a reference, or NULL. */
static struct mfs_inode *mfs_swap_current(struct mfs_swap *swap)
{
	struct mfs_inode *mi;

	spin_lock(&swap->lock);
	mi = list_first_entry_or_null(&swap->files, struct mfs_inode, swap_list);
	if (mi && !igrab(&mi->inode)) {
		list_move_tail(&mi->swap_list, &swap->files);	/* is being deleted */
		mi = NULL;
	}
	spin_unlock(&swap->lock);
	return mi;
}

/* Move the hand on; returns whether it is in the next file. */
static bool mfs_swap_visit(struct mfs_swap *swap)
{
	struct mfs_victim batch[MFS_SWAP_BATCH];
	struct mfs_inode *mi = mfs_swap_current(swap);
	unsigned int nr, i;
	bool passed;

	if (!mi)
		return true;
	filemap_invalidate_lock(mi->inode.i_mapping);
	nr = mfs_swap_scan(swap, mi, batch, &passed);
	filemap_invalidate_unlock(mi->inode.i_mapping);
	if (passed) {
		spin_lock(&swap->lock);
		list_move_tail(&mi->swap_list, &swap->files);
		spin_unlock(&swap->lock);
	}
	iput(&mi->inode);
	for (i = 0; i < nr; i++)
		mfs_swap_write(swap, &batch[i]);
	return passed;
}

/* The thread */

static unsigned long mfs_swap_nr_free(struct mfs_swap *swap)
{
	return READ_ONCE(swap->pool->nr_free) + READ_ONCE(swap->pool->missing);
}

/* Whether somebody waits, also where missing pages are not to be had again. */
static bool mfs_swap_waiting(struct mfs_swap *swap)
{
	return atomic_read(&swap->waiting) && !READ_ONCE(swap->pool->nr_free);
}

static bool mfs_swap_goes_on(struct mfs_swap *swap)
{
	return !kthread_should_stop() && !READ_ONCE(swap->failed) &&
	       (mfs_swap_waiting(swap) || mfs_swap_nr_free(swap) < swap->high);
}

/*
 * At most three turns of the hand: in the first all pages may look used; in the
 * second, if there are many processors, still, and then it does not matter.
 * Returns whether that was not enough, and not because others gave pages back.
 */
static bool mfs_swap_round(struct mfs_swap *swap)
{
	unsigned long files;
	int turn;

	for (turn = 0; turn < 3 && mfs_swap_goes_on(swap); turn++) {
		swap->force = turn == 2;
		/* The one that the hand is in is not passed in full. */
		files = READ_ONCE(swap->nr_files) + 1;
		while (files && mfs_swap_goes_on(swap)) {
			files -= mfs_swap_visit(swap);
			wake_up_all(&swap->wait);
			cond_resched();
		}
		fbmm_flush_accessed();
	}
	return mfs_swap_goes_on(swap) || READ_ONCE(swap->failed);
}

static bool mfs_swap_due(struct mfs_swap *swap)
{
	return mfs_swap_waiting(swap) ||
	       (!READ_ONCE(swap->idle) && mfs_swap_nr_free(swap) < swap->low);
}

int mfs_swap_thread(void *data)
{
	struct mfs_swap *swap = data;
	bool scarce;
	long before;

	/* Who waits for a page may hold locks of other file systems. */
	memalloc_nofs_save();
	set_freezable();
	while (!kthread_should_stop()) {
		wait_event_freezable(swap->wake,
				     kthread_should_stop() || mfs_swap_due(swap));
		before = atomic_long_read(&swap->swapouts);
		scarce = mfs_swap_round(swap);
		WRITE_ONCE(swap->idle,
			   scarce && atomic_long_read(&swap->swapouts) == before);
		if (scarce)
			WRITE_ONCE(swap->rounds, swap->rounds + 1);
		wake_up_all(&swap->wait);
	}
	return 0;
}

/* A page was asked for: wake the thread if few are left; -EAGAIN if there is none. */
int mfs_swap_low(struct mfs_super *super, int err)
{
	struct mfs_swap *swap = super->swap;

	if (mfs_swap_due(swap) && wq_has_sleeper(&swap->wake))
		wake_up(&swap->wake);
	return err == -ENOSPC ? -EAGAIN : err;
}

/* The pool has got pages: for who waits for one. */
void mfs_swap_freed(struct mfs_super *super)
{
	if (wq_has_sleeper(&super->swap->wait))
		wake_up_all(&super->swap->wait);
}

/*
 * Whether there may be a page, or will be none: of two rounds one has begun since
 * @start. The thread may have seen pages that are gone again.
 */
static bool mfs_swap_ready(struct mfs_swap *swap, unsigned long start)
{
	if (READ_ONCE(swap->pool->nr_free) || READ_ONCE(swap->rounds) - start > 1)
		return true;
	wake_up(&swap->wake);
	return false;
}

/**
 * mfs_swap_wait - after -EAGAIN, wait for a page
 * @super: the mount; no lock of its files is held
 * @err: what asking for a page gave; if it is -EAGAIN, 0 when there may be a page,
 *	-ENOSPC if the pages in use cannot be swapped out, -EINTR if killed
 *
 * Return: whether to try again.
 */
bool mfs_swap_wait(struct mfs_super *super, int *err)
{
	struct mfs_swap *swap = super->swap;
	unsigned long start;
	long before;

	if (likely(*err != -EAGAIN))
		return false;
	start = READ_ONCE(swap->rounds);
	before = atomic_long_read(&swap->swapouts);
	atomic_inc(&swap->waiting);
	*err = wait_event_killable(swap->wait, mfs_swap_ready(swap, start));
	atomic_dec(&swap->waiting);
	if (*err)
		*err = -EINTR;
	else if (READ_ONCE(swap->rounds) - start > 1 &&
		 !READ_ONCE(swap->pool->nr_free) &&
		 atomic_long_read(&swap->swapouts) == before)
		*err = -ENOSPC;
	return !*err;
}
