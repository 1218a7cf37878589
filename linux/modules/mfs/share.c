// SPDX-License-Identifier: GPL-2.0
/* Folios that several files have after fork(), or that change file or place. */
#include <linux/highmem.h>
#include <linux/rmap.h>

#include "internal.h"

static void mfs_lock_two(struct inode *a, struct inode *b)
{
	if (a > b)
		swap(a, b);
	filemap_invalidate_lock(a->i_mapping);
	if (a != b)
		down_write_nested(&b->i_mapping->invalidate_lock,
				  SINGLE_DEPTH_NESTING);
}

static void mfs_unlock_two(struct inode *a, struct inode *b)
{
	filemap_invalidate_unlock(a->i_mapping);
	if (a != b)
		filemap_invalidate_unlock(b->i_mapping);
}

/*
 * Give @out copies, in base pages, of the part of a folio in [@first, @end), as far as
 * it has none yet: where that is tried again, they stay.
 */
static int mfs_copy_part(struct folio *folio, pgoff_t base, pgoff_t first,
			 pgoff_t end, struct mfs_inode *out, long shift)
{
	const pgoff_t to = min(base + folio_nr_pages(folio), end);
	struct folio *copy;
	pgoff_t at;
	int err;

	for (at = max(base, first); at < to; at++) {
		if (xa_load(&out->folios, at + shift))
			continue;
		if (PageHWPoison(folio_page(folio, at - base)))
			return -EHWPOISON;
		copy = mfs_alloc_one(out, at + shift, false);
		if (IS_ERR(copy))
			return PTR_ERR(copy);
		copy_highpage(folio_page(copy, 0), folio_page(folio, at - base));
		err = mfs_insert(out, at + shift, copy);
		if (err) {
			mfs_drop(mfs_super(out->inode.i_sb), copy);
			return err;
		}
	}
	return 0;
}

/* Whether all of an entry goes to a place where it can be as it is. */
static bool mfs_moves_whole(void *entry, pgoff_t base, pgoff_t first, pgoff_t end,
			    long shift)
{
	const unsigned long nr = mfs_entry_pages(entry);

	return base >= first && base + nr <= end && IS_ALIGNED(base + shift, nr);
}

/*
 * One more file has the entry, or gets a copy: of a folio that goes to it only in
 * part, and of one that somebody reads from or writes to by its address in memory,
 * as fork() does with anonymous memory.
 */
static int mfs_share_one(struct mfs_inode *in, pgoff_t index, void *entry,
			 pgoff_t first, pgoff_t end, struct mfs_inode *out, long shift)
{
	const pgoff_t base = ALIGN_DOWN(index, mfs_entry_pages(entry));
	struct mfs_super *super = mfs_super(in->inode.i_sb);
	struct folio *folio = entry;
	int err;

	/* Of a large folio that was copied, and has become base pages since */
	if (mfs_entry_pages(entry) == 1 && xa_load(&out->folios, base + shift))
		return 0;
	if (xa_is_value(entry)) {
		mfs_swap_get(super, xa_to_value(entry));
		err = mfs_store(out, base + shift, entry);
		if (err)
			mfs_swap_put(super, xa_to_value(entry));
		return err;
	}
	/* Where pages are swapped out, a large one that could not be split is not shared. */
	if (folio_maybe_dma_pinned(folio) || (super->swap && folio_test_large(folio)) ||
	    !mfs_moves_whole(folio, base, first, end, shift))
		return mfs_copy_part(folio, base, first, end, out, shift);
	mfs_get_owner(folio);
	if (mfs_owned(in, folio))
		mfs_disclaim(in, &folio, 1);
	err = mfs_store(out, base + shift, folio);
	if (err)
		mfs_drop(super, folio);
	return err;
}

/* The node with the slot for @xas, if there is one of single pages. */
static struct xa_node *mfs_leaf(struct xa_state *xas)
{
	xas_load(xas);
	return xas_not_node(xas->xa_node) || xas->xa_node->shift ? NULL : xas->xa_node;
}

/*
 * Share single pages from @index on as long as both files have a node for them. Where
 * the other file's slots are empty, nothing but the node's counts changes with
 * them: xas_store() would look for all else that might, which takes more instructions
 * than everything that fork() does with a page. Nobody else uses either file, whose
 * locks are held exclusive. Returns where it ends.
 */
static pgoff_t mfs_share_node(struct mfs_inode *in, pgoff_t index, pgoff_t end,
			      struct mfs_inode *out, long shift)
{
	XA_STATE(from, &in->folios, index);
	XA_STATE(to, &out->folios, index + shift);
	struct folio *owned[XA_CHUNK_SIZE];
	struct xa_node *source, *target;
	unsigned int nr_owned = 0;

	if (shift & XA_CHUNK_MASK)
		return index;
	rcu_read_lock();
	xas_lock(&to);
	source = mfs_leaf(&from);
	target = mfs_leaf(&to);
	end = min(end, (index | XA_CHUNK_MASK) + 1);
	for (; source && target && index < end; index++) {
		void *entry = rcu_dereference_raw(source->slots[index & XA_CHUNK_MASK]);

		/* What was copied before this was tried again stays. */
		if (!entry || target->slots[index & XA_CHUNK_MASK])
			continue;
		if (xa_is_value(entry)) {
			mfs_swap_get(mfs_super(in->inode.i_sb), xa_to_value(entry));
			target->nr_values++;
		} else {
			if (xa_is_internal(entry) || folio_test_large(entry) ||
			    folio_maybe_dma_pinned(entry))
				break;
			mfs_get_owner(entry);
			if (mfs_owned(in, entry))
				owned[nr_owned++] = entry;
		}
		rcu_assign_pointer(target->slots[index & XA_CHUNK_MASK], entry);
		target->count++;
	}
	xas_unlock(&to);
	rcu_read_unlock();
	mfs_disclaim(in, owned, nr_owned);
	return index;
}

/*
 * In a mount that swaps, files share base pages only: there might never be memory for
 * the copies that a large folio becomes when it is written.
 */
static bool mfs_share_split(struct mfs_inode *in, pgoff_t index, void *entry)
{
	const unsigned long nr = mfs_entry_pages(entry);

	return nr > 1 && mfs_super(in->inode.i_sb)->swap &&
	       !mfs_split(in, entry, ALIGN_DOWN(index, nr));
}

/*
 * From *@next on, which is moved on. Nothing there is mapped but for reading: the
 * shim has seen to it.
 */
static int mfs_share(struct mfs_inode *in, pgoff_t *next, pgoff_t end,
		     struct mfs_inode *out, long shift)
{
	const pgoff_t first = *next;
	void *entry;
	int err;

	while (*next < end) {
		*next = mfs_share_node(in, *next, end, out, shift);
		entry = xa_find(&in->folios, next, end - 1, XA_PRESENT);
		if (!entry)
			break;
		if (mfs_share_split(in, *next, entry))
			continue;
		err = mfs_share_one(in, *next, entry, first, end, out, shift);
		if (err)
			return err;
		*next = mfs_next(*next, entry);
		cond_resched();
	}
	return 0;
}

/* Make base pages of large folios that cannot be moved as they are. */
static int mfs_move_split(struct mfs_inode *in, pgoff_t first, pgoff_t end, long shift)
{
	unsigned long index;
	void *entry;
	int err;

	xa_for_each_range(&in->folios, index, entry, first, end - 1) {
		const pgoff_t base = ALIGN_DOWN(index, mfs_entry_pages(entry));

		if (mfs_moves_whole(entry, base, first, end, shift))
			continue;
		err = mfs_shatter(in, entry, base, 0, 0);
		if (err)
			return err;
		cond_resched();
	}
	return 0;
}

/* Note all entries in @out as well; it has none of them if that fails. */
static int mfs_move_store(struct mfs_inode *in, pgoff_t first, pgoff_t end,
			  struct mfs_inode *out, long shift)
{
	unsigned long index, failed;
	void *entry;
	int err;

	xa_for_each_range(&in->folios, index, entry, first, end - 1) {
		err = mfs_store(out, index + shift, entry);
		if (err)
			goto undo;
		cond_resched();
	}
	return 0;
undo:
	failed = index;
	xa_for_each_range(&in->folios, index, entry, first, end - 1) {
		if (index == failed)
			break;
		xa_erase(&out->folios, index + shift);
	}
	return err;
}

/* mremap(): the folios change file, or place in the file, all of them or none. */
static int mfs_move(struct mfs_inode *in, pgoff_t first, pgoff_t end,
		    struct mfs_inode *out, long shift)
{
	struct folio *folio;
	unsigned long index;
	bool owned;
	int err;

	mfs_unmap(in, first, end - first);
	err = mfs_move_split(in, first, end, shift);
	if (!err)
		err = mfs_move_store(in, first, end, out, shift);
	if (err)
		return err;
	xa_for_each_range(&in->folios, index, folio, first, end - 1) {
		xa_erase(&in->folios, index);
		if (xa_is_value(folio))
			continue;
		folio_lock(folio);
		if (folio_mapped(folio))
			mfs_unmap(in, index, folio_nr_pages(folio));
		owned = mfs_owned(in, folio);
		mfs_detach(in, folio);
		if (owned)
			mfs_adopt(out, index + shift, folio);
		folio_unlock(folio);
		cond_resched();
	}
	return 0;
}

/*
 * Only for the shim, which knows that nobody has the destination mapped: user
 * space has to get file sizes and holes as clone_file_range(2) says.
 */
loff_t mfs_remap_file_range(struct file *in, loff_t pos_in, struct file *out,
			    loff_t pos_out, loff_t len, unsigned int flags)
{
	struct inode *from = file_inode(in), *to = file_inode(out);
	pgoff_t first = pos_in >> PAGE_SHIFT;
	const pgoff_t end = first + (len >> PAGE_SHIFT);
	const long shift = (pos_out >> PAGE_SHIFT) - first;
	int tries = MFS_TRIES;
	int err;

	if (!test_bit(AS_FBMM, &from->i_mapping->flags) ||
	    !test_bit(AS_FBMM, &to->i_mapping->flags))
		return -EOPNOTSUPP;
	if (from->i_sb != to->i_sb)
		return -EXDEV;
	do {
		mfs_lock_two(from, to);
		if (flags & FBMM_REMAP_MOVE)
			err = mfs_move(mfs_inode(from), first, end, mfs_inode(to),
				       shift);
		else
			err = mfs_share(mfs_inode(from), &first, end,
					mfs_inode(to), shift);
		mfs_unlock_two(from, to);
	} while (mfs_try_again(err, &tries) ||
		 mfs_swap_wait(mfs_super(from->i_sb), &err));
	return err ? err : len;
}

int mfs_migrate(struct mfs_super *super, struct folio *folio,
		struct folio *target)
{
	struct address_space *mapping;
	struct inode *inode;
	pgoff_t index;
	int err = -EAGAIN;

	/* The inode lives while the folio is locked and has a mapping: mfs_disclaim(). */
	folio_lock(folio);
	mapping = folio->mapping;
	inode = mapping ? igrab(mapping->host) : NULL;
	folio_unlock(folio);
	if (!inode)
		return -ENOENT;

	filemap_invalidate_lock(mapping);
	folio_lock(folio);
	index = folio->index;
	if (folio->mapping != mapping) {
		err = -ENOENT;
		goto unlock;
	}
	if (mfs_poisoned(folio_page(folio, 0), folio_nr_pages(folio)))
		goto unlock;
	/* Locked memory is mapped, or it might be swapped out until it is touched. */
	if (super->swap && folio_test_mlocked(folio))
		goto unlock;
	mfs_unmap(mfs_inode(inode), index, folio_nr_pages(folio));
	/* One reference is the file's, one the caller's. */
	if (!folio_ref_freeze(folio, 2))
		goto unlock;
	folio_ref_unfreeze(folio, 2);

	folio_lock(target);
	folio_set_swapbacked(target);
	folio_copy(target, folio);
	folio_mark_uptodate(target);
	mfs_hand_over(mfs_inode(inode), index, folio, target);
	folio_unlock(target);
	folio_put(folio);
	err = 0;
unlock:
	folio_unlock(folio);
	filemap_invalidate_unlock(mapping);
	iput(inode);
	return err;
}
EXPORT_SYMBOL_GPL(mfs_migrate);
