// SPDX-License-Identifier: GPL-2.0
/*
 * The folios of a file: how they get into it and out of it. Whose they are is in
 * owners.c.
 */
#include <linux/highmem.h>
#include <linux/huge_mm.h>

#include "internal.h"

/* Make a fresh folio a file's: cleared and charged. */
static int mfs_prepare(struct mfs_super *super, struct folio *folio, bool clear)
{
	unsigned long i;
	int err;

	folio_set_swapbacked(folio);
	err = super->swap ? mfs_swap_charge(folio) : fbmm_charge(folio, GFP_KERNEL);
	if (err)
		return err;
	mfs_set_owner(folio);
	for (i = 0; clear && i < folio_nr_pages(folio); i++)
		clear_highpage(folio_page(folio, i));
	folio_mark_uptodate(folio);
	return 0;
}

/* Note the place in a file of a folio or slot; -EBUSY if there is another. */
int mfs_store(struct mfs_inode *mi, pgoff_t index, void *entry)
{
	XA_STATE_ORDER(xas, &mi->folios, index, ilog2(mfs_entry_pages(entry)));

	do {
		xas_lock(&xas);
		/* For a page alone a look is enough, and takes less time. */
		if (mfs_entry_pages(entry) > 1 ? xas_find_conflict(&xas) :
						 xas_load(&xas))
			xas_set_err(&xas, -EBUSY);
		else
			xas_store(&xas, entry);
		xas_unlock(&xas);
	} while (xas_nomem(&xas, GFP_KERNEL));
	return xas_error(&xas);
}

/* Put a fresh folio into a hole. */
int mfs_insert(struct mfs_inode *mi, pgoff_t index, struct folio *folio)
{
	int err = mfs_store(mi, index, folio);

	if (err)
		return err;
	folio_lock(folio);
	mfs_adopt(mi, index, folio);
	folio_unlock(folio);
	return 0;
}

/* The order of the largest folio that fits into the hole around @index. */
unsigned int mfs_order(struct mfs_inode *mi, pgoff_t index, pgoff_t first,
			      pgoff_t end)
{
	const unsigned int order = mfs_super(mi->inode.i_sb)->max_order;
	unsigned long start = ALIGN_DOWN(index, 1UL << order);
	const unsigned long last = start + (1UL << order) - 1;

	if (!order || start < first || last >= end ||
	    xa_find(&mi->folios, &start, last, XA_PRESENT))
		return 0;
	return order;
}

/* How many pages are missing from @index on. */
static unsigned long mfs_hole(struct mfs_inode *mi, pgoff_t index, pgoff_t end)
{
	const unsigned long most = mfs_super(mi->inode.i_sb)->max_pages;
	unsigned long next = index;

	if (most == 1)
		return 1;
	end = min(end, index + most);
	return xa_find(&mi->folios, &next, end - 1, XA_PRESENT) ? next - index :
		end - index;
}

/* Ask for no more than so many pages, at least one; returns how many it is now. */
static unsigned long mfs_bound(struct mfs_run *run, unsigned long most)
{
	if (run->order && most < 1UL << run->order) {
		run->order = 0;
		run->nr = 1;
	}
	if (run->order)
		return 1UL << run->order;
	run->nr = min(run->nr, most);
	return run->nr;
}

/*
 * Count what is about to be given; less than is asked for where the mount's limit is
 * near. Returns how many pages, 0 if there are none.
 */
static unsigned long mfs_reserve(struct mfs_super *super, struct mfs_run *run)
{
	long used = atomic_long_read(&super->used), left;

	do {
		left = super->limit - used;
		if (left <= 0)
			return 0;
		left = mfs_bound(run, left);
	} while (!atomic_long_try_cmpxchg(&super->used, &used, used + left));
	return left;
}

static int mfs_alloc_limited(struct mfs_super *super, struct mfs_run *run)
{
	const unsigned long counted = mfs_reserve(super, run);
	int err;

	if (!counted)
		return -ENOSPC;
	err = super->ops->alloc(super, run);
	atomic_long_sub(err ? counted : counted - run->nr, &super->used);
	return err;
}

/*
 * Ask the memory manager; with swap, -EAGAIN where it has no page just now, and -EALREADY
 * where pages are there twice. @back is whether for what was swapped out.
 */
static int mfs_alloc(struct mfs_super *super, struct mfs_run *run, bool back)
{
	int err;

	if (super->swap && !back) {
		const unsigned long room = mfs_swap_room(super);

		if (!room)
			return -ENOSPC;
		mfs_bound(run, room);
	}
	if (super->limit) {
		err = mfs_alloc_limited(super, run);
	} else {
		err = super->ops->alloc(super, run);
		if (!err)
			atomic_long_add(run->nr, &super->used);
	}
	if (err == -ENOSPC && mfs_hurry(super))
		return -EALREADY;
	return super->swap ? mfs_swap_low(super, err) : err;
}

/* A folio that mfs_alloc() gave is not for a file after all. */
static void mfs_decline(struct mfs_super *super, struct folio *folio)
{
	atomic_long_sub(folio_nr_pages(folio), &super->used);
	mfs_give_back(super, folio);
}

/* Ask for @run and put it into the file; how many pages from run->index on. */
static long mfs_fill_run(struct mfs_inode *mi, struct mfs_run *run)
{
	struct mfs_super *super = mfs_super(mi->inode.i_sb);
	int err = mfs_alloc(super, run, false);
	unsigned long step, i;
	pgoff_t at, next;

	if (err)
		return err;
	step = 1UL << run->order;
	at = ALIGN_DOWN(run->index, step);
	next = at;
	for (i = 0; i < run->nr; i += step) {
		struct folio *folio = page_folio(run->page + i);

		if (i % MAX_ORDER_NR_PAGES == 0)
			cond_resched();
		if (!err)
			err = mfs_prepare(super, folio, true);
		if (err) {
			mfs_decline(super, folio);
			continue;
		}
		err = mfs_insert(mi, at + i, folio);
		if (err)
			mfs_drop(super, folio);
		/* Another thread was faster, with one page or more. */
		if (err == -EBUSY && !run->order)
			err = 0;
		if (!err)
			next = at + i + step;
	}
	if (next > run->index)
		return next - run->index;
	return err == -EBUSY ? 0 : err;
}

/**
 * mfs_fill_hole - give a file pages where it has none
 * @mi: the file, its invalidate_lock held shared
 * @index: the page that is wanted
 * @first: first page of the file that may be filled along with it
 * @end: the page after the last
 *
 * Return: how many pages from @index on the file now has, 0 if that is to be tried
 * again; or an error.
 */
long mfs_fill_hole(struct mfs_inode *mi, pgoff_t index, pgoff_t first,
		   pgoff_t end)
{
	struct mfs_run run = {
		.inode = &mi->inode,
		.index = index,
		.nr = mfs_hole(mi, index, end),
		.order = mfs_order(mi, index, first, end),
	};
	const bool large = run.order;
	long filled;

	if (!run.nr)
		return 1;	/* another thread was faster */
	filled = mfs_fill_run(mi, &run);
	if ((filled == -ENOMEM || filled == -EDQUOT) && large) {
		/* A memory cgroup kills nobody for the sake of a large folio. */
		run.nr = 1;
		run.order = 0;
		filled = mfs_fill_run(mi, &run);
	}
	return filled;
}

/*
 * A base page for one place of a file, not inserted yet; @back is whether it had one
 * that was swapped out.
 */
struct folio *mfs_alloc_one(struct mfs_inode *mi, pgoff_t index, bool back)
{
	struct mfs_super *super = mfs_super(mi->inode.i_sb);
	struct mfs_run run = { .inode = &mi->inode, .index = index, .nr = 1 };
	struct folio *folio;
	int err = mfs_alloc(super, &run, back);

	if (err)
		return ERR_PTR(err);
	folio = page_folio(run.page);
	err = mfs_prepare(super, folio, false);
	if (err) {
		mfs_decline(super, folio);
		return ERR_PTR(err);
	}
	return folio;
}

void mfs_unmap(struct mfs_inode *mi, pgoff_t index, unsigned long nr)
{
	unmap_mapping_pages(mi->inode.i_mapping, index, nr, false);
}

/**
 * mfs_unshare - give a file its own copy of a base page it does not own
 * @mi: the file, its invalidate_lock held exclusive
 * @index: the page that is to be written
 * @folio: what the file has there
 * @vmf: where the process has it mapped that writes, if it is a write fault's page
 *
 * Return: 0 or an error.
 */
int mfs_unshare(struct mfs_inode *mi, pgoff_t index, struct folio *folio,
		struct vm_fault *vmf)
{
	XA_STATE(xas, &mi->folios, index);
	struct folio *copy;
	enum fbmm_writes writes;

	if (folio_test_hwpoison(folio))
		return -EHWPOISON;
	copy = mfs_alloc_one(mi, index, false);
	if (IS_ERR(copy))
		return PTR_ERR(copy);
	copy_highpage(folio_page(copy, 0), folio_page(folio, 0));
	if (!vmf)
		mfs_unmap(mi, index, 1);
	folio_lock(copy);
	xas_lock(&xas);
	xas_store(&xas, copy);	/* in place of another: needs no memory */
	xas_unlock(&xas);
	mfs_adopt(mi, index, copy);
	folio_unlock(copy);
	/* Only this process maps the file. */
	if (vmf && !fbmm_map_written(vmf, copy, &writes))
		mfs_unmap(mi, index, 1);
	mfs_drop(mfs_super(mi->inode.i_sb), folio);
	return 0;
}

/*
 * A migrated folio's place, charge and owner go over to @target, of the same
 * size; both are locked, and the invalidate_lock is held exclusive.
 */
void mfs_hand_over(struct mfs_inode *mi, pgoff_t index, struct folio *folio,
		   struct folio *target)
{
	XA_STATE_ORDER(xas, &mi->folios, index, folio_order(target));

	mfs_detach(mi, folio);
	mfs_set_owner(target);
	fbmm_migrate_charge(folio, target);
	xas_lock(&xas);
	xas_store(&xas, target);	/* in place of another: needs no memory */
	xas_unlock(&xas);
	mfs_adopt(mi, index, target);
	folio->private = NULL;
}

/* Erase the entry of one page that @xas is at. The last of a node takes the node along. */
static void mfs_erase(struct xa_state *xas, const void *entry)
{
	struct xa_node *node = xas->xa_node;

	if (!node || node->count == 1) {
		xas_store(xas, NULL);
		return;
	}
	rcu_assign_pointer(node->slots[xas->xa_offset], NULL);
	node->count--;
	node->nr_values -= xa_is_value(entry);
}

/*
 * Take base pages, and slots, from [@at, @end) as far as there is space, or until one is
 * large; returns where that is.
 */
static pgoff_t mfs_take(struct mfs_inode *mi, pgoff_t at, pgoff_t end,
			struct folio_batch *taken)
{
	XA_STATE(xas, &mi->folios, at);
	struct folio *folio;

	xas_lock(&xas);
	xas_for_each(&xas, folio, end - 1) {
		if (mfs_entry_pages(folio) > 1 || !folio_batch_space(taken)) {
			end = xas.xa_index;
			break;
		}
		folio_batch_add(taken, folio);
		mfs_erase(&xas, folio);
	}
	xas_unlock(&xas);
	return end;
}

/*
 * Base pages that are in the file no more, nor mapped: that takes the
 * invalidate_lock, which is held exclusive since they were unmapped.
 *
 * A page's lock keeps its mapping for who has a reference to the page. What
 * gives references is the file, page tables and the memory manager's lists, and
 * the page is in none of them: if the file's is the last, nobody has the lock or
 * will take it.
 */
static void mfs_remove_batch(struct mfs_inode *mi, struct folio_batch *taken)
{
	struct mfs_super *super = mfs_super(mi->inode.i_sb);
	unsigned int i, nr = 0;

	for (i = 0; i < folio_batch_count(taken); i++) {
		struct folio *folio = taken->folios[i];

		if (xa_is_value(folio)) {
			mfs_swap_put(super, xa_to_value(folio));
			continue;
		}
		if (mfs_owned(mi, folio)) {
			if (super->ops->removing)
				super->ops->removing(super, folio);
			if (folio_ref_count(folio) > 1) {
				folio_lock(folio);
				folio->mapping = NULL;
				folio_unlock(folio);
			}
		}
		if (mfs_disown(super, folio))
			taken->folios[nr++] = folio;
	}
	if (!nr)
		return;
	taken->nr = nr;
	mfs_retire(super, taken);
}

/* A large folio that is in the file no more, but perhaps still mapped. */
static void mfs_remove(struct mfs_inode *mi, struct folio *folio, pgoff_t base)
{
	folio_lock(folio);	/* wait for who is mapping it just now */
	if (folio_mapped(folio))
		mfs_unmap(mi, base, folio_nr_pages(folio));
	mfs_detach(mi, folio);
	folio_unlock(folio);
	mfs_drop(mfs_super(mi->inode.i_sb), folio);
}

/* Take what is in [@first, @end) of a large folio; *@next is where to go on. */
static int mfs_punch_large(struct mfs_inode *mi, pgoff_t index, pgoff_t first,
			   pgoff_t end, pgoff_t *next)
{
	struct folio *folio = xa_load(&mi->folios, index);
	const unsigned long nr = folio_nr_pages(folio);
	const pgoff_t base = ALIGN_DOWN(index, nr);
	const pgoff_t from = max(base, first);
	const pgoff_t to = min(base + nr, end);
	int err;

	if (to - from == nr) {
		xa_erase(&mi->folios, base);
		mfs_remove(mi, folio, base);
		*next = to;
		return 0;
	}
	err = mfs_shatter(mi, folio, base, first, end);
	if (!err)
		return 0;	/* base pages now: look again */
	if (mfs_claim(mi, base, folio, 0)) {
		folio_zero_range(folio, (from - base) << PAGE_SHIFT,
				 (to - from) << PAGE_SHIFT);
		err = -EBUSY;
	}
	*next = to;
	return err;
}

/**
 * mfs_punch - take pages from a file
 * @mi: the file, its invalidate_lock held exclusive; nothing there is mapped
 * @first: the first page
 * @end: the page after the last
 *
 * A large folio that is taken in part becomes base pages first, or, if others have it,
 * is replaced by copies of what is left. Where there is no memory for them, or somebody
 * uses the folio, the part is cleared and stays.
 *
 * Return: 0; -EBUSY if a part stays, cleared; another error if one stays as it is,
 * since it is not the file's own.
 */
int mfs_punch(struct mfs_inode *mi, pgoff_t first, pgoff_t end)
{
	struct folio_batch taken;
	pgoff_t at = first;
	int err, ret = 0;
	bool full;

	if (first >= end || xa_empty(&mi->folios))
		return 0;
	for (;;) {
		folio_batch_init(&taken);
		at = mfs_take(mi, at, end, &taken);
		full = !folio_batch_space(&taken);
		mfs_remove_batch(mi, &taken);
		if (at < end && !full) {
			err = mfs_punch_large(mi, at, first, end, &at);
			if (!ret || ret == -EBUSY)
				ret = err ? err : ret;
		}
		if (at >= end)
			return ret;
		cond_resched();
	}
}

/* Take a folio out of the file unless somebody has it locked. */
static void mfs_reap_folio(struct mfs_inode *mi, struct folio *folio, pgoff_t base)
{
	if (!folio_trylock(folio))
		return;
	xa_erase(&mi->folios, base);
	/* Only a large one may have been mapped since all was unmapped. */
	if (folio_test_large(folio) && folio_mapped(folio))
		mfs_unmap(mi, base, folio_nr_pages(folio));
	mfs_detach(mi, folio);
	folio_unlock(folio);
	mfs_drop(mfs_super(mi->inode.i_sb), folio);
}

/**
 * mfs_reap - take pages from a file that is about to go, without waiting
 * @mi: the file, its invalidate_lock held exclusive; nothing there is mapped
 * @first: the first page
 * @end: the page after the last
 *
 * What is locked stays until the file goes, and a large folio that is there in part.
 */
void mfs_reap(struct mfs_inode *mi, pgoff_t first, pgoff_t end)
{
	struct folio *entry;
	unsigned long index;

	xa_for_each_range(&mi->folios, index, entry, first, end - 1) {
		const unsigned long nr = mfs_entry_pages(entry);
		const pgoff_t base = ALIGN_DOWN(index, nr);

		cond_resched();
		if (base < first || base + nr > end)
			continue;
		if (!xa_is_value(entry)) {
			mfs_reap_folio(mi, entry, base);
			continue;
		}
		xa_erase(&mi->folios, index);
		mfs_swap_put(mfs_super(mi->inode.i_sb), xa_to_value(entry));
	}
}
