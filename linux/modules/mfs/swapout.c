// SPDX-License-Identifier: GPL-2.0
/*
 * Swapping out: the thread, and waiting for it.
 *
 * While few pages are free, the thread goes round the files of the mount, as the hand
 * of a clock, and takes the pages that were not used since it last came by; before
 * these, such as the manager names. It holds no lock while it writes. Who finds no page
 * drops the invalidate_lock, which the thread needs, before it waits; and so does who
 * finds no room in a memory cgroup, for which the thread takes pages of that cgroup.
 *
 * Large folios become base pages first.
 */
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/magic.h>
#include <linux/sched/mm.h>
#include <linux/uio.h>

#include "swap.h"

#define MFS_SWAP_LOOK	256	/* places of a file looked at with its lock held */
#define MFS_SWAP_MEMCG	64	/* pages that go when a memory cgroup is full */
#define MFS_SWAP_PATIENCE	(10 * HZ)	/* before the kernel kills instead */

struct mfs_victim {
	struct folio *folio;
	unsigned long slot;
	bool cached;
};

/* Whether the memory cgroup that is full has the folio, if there is one. */
static bool mfs_swap_belongs(struct mfs_swap *swap, struct folio *folio)
{
	bool belongs;

	if (!swap->memcg)
		return true;
	rcu_read_lock();
	belongs = mem_cgroup_is_descendant(folio_memcg(folio), swap->memcg);
	rcu_read_unlock();
	return belongs;
}

/* Whether the folio is not to go in this turn. */
static bool mfs_swap_stays(struct mfs_swap *swap, struct mfs_inode *mi, pgoff_t index,
			   struct folio *folio)
{
	if (!mfs_swap_belongs(swap, folio))
		return true;
	if (swap->turn == MFS_FIRST)
		return !folio->mapping || !swap->super->ops->swap_first(swap->super, folio);
	return mfs_used(mi, index, folio) && swap->turn != MFS_ANY;
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

	/* Who has it locked may be waiting for room in a memory cgroup: for the thread. */
	if (!folio_trylock(folio))
		return -EBUSY;
	if (folio_test_mlocked(folio) || folio_test_hwpoison(folio) ||
	    !mfs_unreferenced(folio, 0) || mfs_swap_stays(swap, mi, index, folio))
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

/* Make base pages of a large folio that is to go; returns the one at @index, or NULL. */
static struct folio *mfs_swap_split(struct mfs_swap *swap, struct mfs_inode *mi,
				    pgoff_t index, struct folio *folio)
{
	const pgoff_t base = ALIGN_DOWN(index, folio_nr_pages(folio));
	bool stays;

	if (!folio_trylock(folio))
		return NULL;	/* as in mfs_swap_take() */
	stays = folio_test_mlocked(folio) || !mfs_unreferenced(folio, 0) ||
		mfs_swap_stays(swap, mi, base, folio);
	folio_unlock(folio);
	return stays || mfs_split(mi, folio, base) ? NULL : xa_load(&mi->folios, index);
}

/* From where the hand is in the file; *@passed is whether it came to the end. */
static unsigned int mfs_swap_scan(struct mfs_swap *swap, struct mfs_inode *mi,
				  struct mfs_victim *batch, bool *passed)
{
	unsigned int looked = 0, nr = 0;
	unsigned long index;
	void *entry;
	int err;

	xa_for_each_start(&mi->folios, index, entry,
			  mi->place[MFS_HAND_SWAP].next) {
		if (nr == MFS_SWAP_BATCH || looked++ == MFS_SWAP_LOOK) {
			mi->place[MFS_HAND_SWAP].next = index;
			*passed = false;
			return nr;
		}
		if (!xa_is_value(entry) && folio_test_large(entry))
			entry = mfs_swap_split(swap, mi, index, entry);
		if (!entry || xa_is_value(entry))
			continue;
		batch[nr].folio = entry;
		err = mfs_swap_take(swap, mi, index, &batch[nr]);
		if (!err)
			nr++;
		else if (err != -EBUSY)
			break;
	}
	mi->place[MFS_HAND_SWAP].next = 0;
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

/* Move the hand on; returns whether it is in the next file. */
static bool mfs_swap_visit(struct mfs_swap *swap)
{
	struct mfs_victim batch[MFS_SWAP_BATCH];
	struct mfs_inode *mi = mfs_hand_file(swap->super, MFS_HAND_SWAP);
	unsigned int nr, i;
	bool passed;

	if (!mi)
		return true;
	filemap_invalidate_lock(mi->inode.i_mapping);
	nr = mfs_swap_scan(swap, mi, batch, &passed);
	filemap_invalidate_unlock(mi->inode.i_mapping);
	if (passed)
		mfs_hand_pass(mi, MFS_HAND_SWAP);
	iput(&mi->inode);
	for (i = 0; i < nr; i++)
		mfs_swap_write(swap, &batch[i]);
	return passed;
}

/* Rounds */

/* Pages that are free, also ones that the kernel yet has to give */
static unsigned long mfs_swap_nr_free(struct mfs_swap *swap)
{
	struct kstatfs stat;

	mfs_stock(swap->super, &stat);
	return stat.f_bfree;
}

/* Whether there is a page, and not one that the kernel may or may not give. */
static bool mfs_swap_has_page(struct mfs_swap *swap)
{
	struct kstatfs stat;

	mfs_stock(swap->super, &stat);
	return stat.f_bavail;
}

/* Whether somebody waits, also where missing pages are not to be had again. */
static bool mfs_swap_waiting(struct mfs_swap *swap)
{
	return atomic_read(&swap->waiting) && !mfs_swap_has_page(swap);
}

/**
 * mfs_swap_room - how many pages may be given that were not swapped out
 * @super: the mount, which swaps
 *
 * A few stay for those that come back, each of which leaves a slot when it has a page:
 * were all pages and slots in use, nothing could be exchanged, and a process might get
 * SIGBUS for memory that it had. Where nothing can be written, pages stay.
 */
unsigned long mfs_swap_room(struct mfs_super *super)
{
	struct mfs_swap *swap = super->swap;
	unsigned long room = mfs_swap_nr_free(swap);

	if (!READ_ONCE(swap->failed))
		room += swap->nr - atomic_long_read(&swap->swapped);
	return room - min(room, MFS_SWAP_KEPT);
}

static bool mfs_swap_goes_on(struct mfs_swap *swap)
{
	return !kthread_should_stop() && !READ_ONCE(swap->failed) &&
	       (mfs_swap_waiting(swap) || mfs_swap_nr_free(swap) < swap->high);
}

/* One turn of the hand, for as long as @goes_on says so. */
static void mfs_swap_turn(struct mfs_swap *swap, bool (*goes_on)(struct mfs_swap *swap))
{
	/* The one that the hand is in is not passed in full. */
	unsigned long files = READ_ONCE(swap->super->hand[MFS_HAND_SWAP].nr_files) + 1;

	while (files && goes_on(swap)) {
		files -= mfs_swap_visit(swap);
		wake_up_all(&swap->wait);
		cond_resched();
	}
	if (swap->turn != MFS_FIRST)
		fbmm_flush_accessed();
}

static void mfs_swap_turns(struct mfs_swap *swap, bool (*goes_on)(struct mfs_swap *swap))
{
	swap->turn = swap->super->ops->swap_first ? MFS_FIRST : MFS_UNUSED;
	for (; swap->turn < NR_MFS_TURNS && goes_on(swap); swap->turn++)
		mfs_swap_turn(swap, goes_on);
}

/* Returns whether that was not enough, and not because others gave pages back. */
static bool mfs_swap_round(struct mfs_swap *swap)
{
	mfs_swap_turns(swap, mfs_swap_goes_on);
	return mfs_swap_goes_on(swap) || READ_ONCE(swap->failed);
}

static bool mfs_swap_due(struct mfs_swap *swap)
{
	return mfs_swap_waiting(swap) ||
	       (!READ_ONCE(swap->idle) && mfs_swap_nr_free(swap) < swap->low);
}

/* Memory cgroups */

static bool mfs_swap_goes_on_memcg(struct mfs_swap *swap)
{
	return !kthread_should_stop() && !READ_ONCE(swap->failed) &&
	       atomic_long_read(&swap->swapouts) < swap->until;
}

/* The memory cgroup of who has waited longest, with a reference. */
static struct mem_cgroup *mfs_swap_wanted(struct mfs_swap *swap)
{
	struct mem_cgroup *memcg = NULL;
	struct mfs_wanted *wanted;

	spin_lock(&swap->lock);
	wanted = list_first_entry_or_null(&swap->wanted, struct mfs_wanted, list);
	if (wanted) {
		memcg = wanted->memcg;
		css_get(&memcg->css);
	}
	spin_unlock(&swap->lock);
	return memcg;
}

/* Tell who waits for this memory cgroup. What they wait in is theirs again then. */
static void mfs_swap_tell(struct mfs_swap *swap, struct mem_cgroup *memcg, long pages)
{
	struct mfs_wanted *wanted, *next;

	spin_lock(&swap->lock);
	list_for_each_entry_safe(wanted, next, &swap->wanted, list) {
		if (wanted->memcg != memcg)
			continue;
		list_del_init(&wanted->list);
		wanted->pages = pages;
		/* After the pages, which are read without the lock */
		smp_store_release(&wanted->done, true);
	}
	spin_unlock(&swap->lock);
	wake_up_all(&swap->wait);
}

/* For one memory cgroup, if somebody waits. */
static void mfs_swap_memcg(struct mfs_swap *swap)
{
	struct mem_cgroup *memcg = mfs_swap_wanted(swap);
	const long before = atomic_long_read(&swap->swapouts);

	if (!memcg)
		return;
	swap->until = before + MFS_SWAP_MEMCG;
	swap->memcg = memcg;
	mfs_swap_turns(swap, mfs_swap_goes_on_memcg);
	swap->memcg = NULL;
	mfs_swap_tell(swap, memcg, atomic_long_read(&swap->swapouts) - before);
	mem_cgroup_put(memcg);
}

/* The thread */

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
				     kthread_should_stop() || mfs_swap_due(swap) ||
				     !list_empty_careful(&swap->wanted));
		mfs_swap_memcg(swap);
		if (!mfs_swap_due(swap))
			continue;
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

/* Waiting */

/* A page was asked for: wake the thread if few are left; -EAGAIN if there is none. */
int mfs_swap_low(struct mfs_super *super, int err)
{
	struct mfs_swap *swap = super->swap;

	if (mfs_swap_due(swap) && wq_has_sleeper(&swap->wake))
		wake_up(&swap->wake);
	return err == -ENOSPC ? -EAGAIN : err;
}

/* Pages have come back: for who waits for one. */
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
	if (mfs_swap_has_page(swap) || READ_ONCE(swap->rounds) - start > 1)
		return true;
	wake_up(&swap->wake);
	return false;
}

static int mfs_swap_wait_page(struct mfs_swap *swap)
{
	const unsigned long start = READ_ONCE(swap->rounds);
	const long before = atomic_long_read(&swap->swapouts);
	int err;

	atomic_inc(&swap->waiting);
	err = wait_event_killable(swap->wait, mfs_swap_ready(swap, start));
	atomic_dec(&swap->waiting);
	if (err)
		return -EINTR;
	if (READ_ONCE(swap->rounds) - start > 1 && !mfs_swap_has_page(swap) &&
	    atomic_long_read(&swap->swapouts) == before)
		return -ENOSPC;
	return 0;
}

/**
 * mfs_swap_charge - charge a folio, in a mount that swaps
 * @folio: as for fbmm_charge()
 *
 * The caller has a lock of the file, which the thread waits for. So this neither
 * reclaims nor, above memory.high, sleeps; that comes on the way back to user space.
 *
 * Return: 0, or -EDQUOT if there is no room, for mfs_swap_wait().
 */
int mfs_swap_charge(struct folio *folio)
{
	return fbmm_charge(folio, GFP_NOWAIT | __GFP_NOWARN) ? -EDQUOT : 0;
}

/* Whether there is room for a page by now, or the kernel makes some: kills, if @gfp lets it. */
static int mfs_swap_try_charge(gfp_t gfp)
{
	struct folio *folio = folio_alloc(GFP_KERNEL, 0);
	struct folio_batch batch;
	int err;

	if (!folio)
		return -ENOMEM;
	err = fbmm_charge(folio, gfp);
	if (!err) {
		folio_batch_init(&batch);
		folio_batch_add(&batch, folio);
		fbmm_uncharge_batch(&batch);
	}
	folio_put(folio);
	return err;
}

/*
 * Let the thread take pages of a memory cgroup, to which the caller has a reference.
 * Waits at most for @patience after the last page of any has gone. Returns how many
 * have, or -EINTR if killed.
 */
static long mfs_swap_ask(struct mfs_swap *swap, struct mem_cgroup *memcg, long patience)
{
	struct mfs_wanted wanted = { .memcg = memcg };
	long before, left;

	spin_lock(&swap->lock);
	list_add_tail(&wanted.list, &swap->wanted);
	spin_unlock(&swap->lock);
	wake_up(&swap->wake);
	do {
		before = atomic_long_read(&swap->swapouts);
		/* Then wanted.pages says how many: mfs_swap_tell() */
		left = wait_event_killable_timeout(swap->wait,
						   smp_load_acquire(&wanted.done),
						   patience);
	} while (!left && atomic_long_read(&swap->swapouts) != before);
	spin_lock(&swap->lock);
	list_del_init(&wanted.list);
	spin_unlock(&swap->lock);
	return left < 0 ? -EINTR : wanted.pages;
}

static int mfs_swap_wait_memcg(struct mfs_swap *swap)
{
	struct mem_cgroup *memcg = fbmm_full_memcg();
	long pages;

	if (!memcg)
		return fatal_signal_pending(current) ? -EINTR : 0;
	/* The kernel may reclaim other memory of the cgroup's. */
	if (!mfs_swap_try_charge(GFP_KERNEL | __GFP_NORETRY))
		pages = 1;
	else
		pages = mfs_swap_ask(swap, memcg, MAX_SCHEDULE_TIMEOUT);
	mem_cgroup_put(memcg);
	if (pages < 0)
		return pages;
	return pages ? 0 : mfs_swap_try_charge(GFP_KERNEL);
}

/**
 * mfs_swap_reclaim - make room in a memory cgroup for memory of any kind
 * @reclaimer: of a mount that swaps
 * @memcg: full; the caller has a reference
 * @gfp: as for what there is no room for
 *
 * Who asks holds no lock that the thread needs for its own files, nor, with __GFP_FS,
 * one of any file system. A disk needs none, nor does tmpfs but its inode's. Should one
 * be needed after all, as where the disk is a file of that file system, the kernel kills.
 *
 * Return: whether any of its pages have gone.
 */
bool mfs_swap_reclaim(struct fbmm_reclaimer *reclaimer, struct mem_cgroup *memcg,
		      gfp_t gfp)
{
	struct mfs_swap *swap = container_of(reclaimer, struct mfs_swap, reclaimer);
	struct inode *inode = file_inode(swap->file);

	if (!(gfp & __GFP_IO))
		return false;
	if (!(gfp & __GFP_FS) && !S_ISBLK(inode->i_mode) &&
	    inode->i_sb->s_magic != TMPFS_MAGIC)
		return false;
	return mfs_swap_ask(swap, memcg, MFS_SWAP_PATIENCE) > 0;
}

/**
 * mfs_swap_wait - after -EAGAIN, -EALREADY or -EDQUOT, wait for a page, or for room
 * @super: the mount; no lock of its files is held
 * @err: what asking for a page gave; if it is one of these, 0 when there may be a page,
 *	-ENOSPC if the pages in use cannot be swapped out, -EINTR if killed
 *
 * Return: whether to try again.
 */
bool mfs_swap_wait(struct mfs_super *super, int *err)
{
	if (likely(*err != -EAGAIN && *err != -EDQUOT))
		return mfs_wait_turn(super, err);
	*err = *err == -EAGAIN ? mfs_swap_wait_page(super->swap) :
				 mfs_swap_wait_memcg(super->swap);
	return !*err;
}
