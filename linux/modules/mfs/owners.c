// SPDX-License-Identifier: GPL-2.0
/*
 * Which files have a folio, and whether it is one's own.
 *
 * After fork() two files can have a folio, until one of them is written. A
 * folio's private field counts the files it is in. While it is a file's own, its
 * mapping and index say which and where; from fork() on the mapping is empty, as
 * the file it named may go away first.
 *
 * The last file that has a folio does not own it by that alone. Others may have kept
 * a reference: their process put it into a pipe, say, and ended. What is
 * written then must go elsewhere, as in wp_can_reuse_anon_folio(). So a folio becomes
 * a file's own again only in mfs_claim(), before it is written, and until then is
 * mapped read-only.
 */
#include "internal.h"

/*
 * Whether other files have the folio. With the invalidate_lock of one's own file
 * a "no" stays true: only that file's fork() makes others.
 */
bool mfs_shared(const struct folio *folio)
{
	return atomic_long_read(mfs_owners(folio)) > 1;
}

/*
 * The folio is this file's own: fresh, or moved from another that owned it, or nobody
 * has a reference to it. The caller has locked it.
 */
void mfs_adopt(struct mfs_inode *mi, pgoff_t index, struct folio *folio)
{
	folio->index = ALIGN_DOWN(index, folio_nr_pages(folio));
	folio->mapping = mi->inode.i_mapping;
	if (mfs_super(mi->inode.i_sb)->ops->added)
		mfs_super(mi->inode.i_sb)->ops->added(mfs_super(mi->inode.i_sb), folio);
}

/*
 * Whether nobody has the folio but the file, its page tables, and the caller, who has
 * @own references. No new mappings
 * come about while the invalidate_lock is held exclusive and the folio is locked.
 * An old one may go at any time, which is counted before its reference is dropped:
 * look at the references first, and what goes between looks like one that is kept.
 */
bool mfs_unreferenced(const struct folio *folio, int own)
{
	const int refs = folio_ref_count(folio) - own;

	smp_rmb();	/* folio_remove_rmap_ptes(), then folio_put_refs() */
	return refs == folio_mapcount(folio) + 1;
}

/*
 * Whether the file owns the folio, or does from now on: other files have had it, but
 * none has it any more, nor has anybody else. The caller has @refs references to it,
 * and the invalidate_lock is held exclusive.
 */
bool mfs_claim(struct mfs_inode *mi, pgoff_t index, struct folio *folio, int refs)
{
	bool mine;

	if (mfs_owned(mi, folio))
		return true;
	if (mfs_shared(folio))
		return false;
	folio_lock(folio);
	mine = mfs_unreferenced(folio, refs);
	if (mine)
		mfs_adopt(mi, index, folio);
	folio_unlock(folio);
	return mine;
}

/*
 * Whether the folio was used through this file since it was last asked: only an owner's is
 * named in it. It is locked, and the file's invalidate_lock held exclusive.
 */
bool mfs_used(struct mfs_inode *mi, pgoff_t index, struct folio *folio)
{
	struct address_space *mapping = folio->mapping;
	const pgoff_t before = folio->index;
	bool used;

	if (mapping)
		return fbmm_clear_accessed(folio);
	folio->index = index;
	folio->mapping = mi->inode.i_mapping;
	used = fbmm_clear_accessed(folio);
	folio->mapping = NULL;
	folio->index = before;
	return used;
}

/* The folio is fresh, and one file's. */
void mfs_set_owner(struct folio *folio)
{
	atomic_long_set(mfs_owners(folio), 1);
}

/* One more file has the folio, which the caller's has. */
void mfs_get_owner(struct folio *folio)
{
	atomic_long_inc(mfs_owners(folio));
}

/* Folios that no file has, and that are charged only if somebody else has them. */
static void mfs_give_back_batch(struct mfs_super *super, struct folio_batch *folios)
{
	unsigned int i;

	if (super->ops->free_batch)
		super->ops->free_batch(super, folios);
	else
		for (i = 0; i < folio_batch_count(folios); i++) {
			if (super->ops->free)
				super->ops->free(super, folios->folios[i]);
			else
				mfs_put(folios->folios[i]);
		}
	if (super->swap)
		mfs_swap_freed(super);
}

void mfs_give_back(struct mfs_super *super, struct folio *folio)
{
	struct folio_batch one;

	folio_batch_init(&one);
	folio_batch_add(&one, folio);
	mfs_give_back_batch(super, &one);
}

/* Folios that were a file's: who still has one keeps its charge, too. */
void mfs_retire(struct mfs_super *super, struct folio_batch *folios)
{
	unsigned long pages = 0;
	unsigned int i;

	for (i = 0; i < folio_batch_count(folios); i++) {
		struct folio *folio = folios->folios[i];

		pages += folio_nr_pages(folio);
		folio->private = NULL;
		folio->mapping = NULL;
	}
	/* Once for all: processes on other processors use the counter, too. */
	atomic_long_sub(pages, &super->used);
	fbmm_uncharge_batch(folios);
	mfs_give_back_batch(super, folios);
}

/* One of several files has the folio no more: mfs_disown() */
bool mfs_disown_shared(struct mfs_super *super, struct folio *folio)
{
	const long left = atomic_long_dec_return(mfs_owners(folio));

	if (left == 1 && super->swap)
		mfs_swap_settle(super, folio->index);
	return !left;
}

void mfs_drop(struct mfs_super *super, struct folio *folio)
{
	struct folio_batch one;

	if (!mfs_disown(super, folio))
		return;
	folio_batch_init(&one);
	folio_batch_add(&one, folio);
	mfs_retire(super, &one);
}

/* Take the folio away from where faults and the memory manager find it. */
void mfs_detach(struct mfs_inode *mi, struct folio *folio)
{
	struct mfs_super *super = mfs_super(mi->inode.i_sb);

	if (mfs_owned(mi, folio)) {
		if (super->ops->removing)
			super->ops->removing(super, folio);
		folio->mapping = NULL;
	}
}

/*
 * Folios of the file are not its own any more; the invalidate_lock is held exclusive.
 * Who has a reference may have locked one and be using the mapping: wait. Who gets one
 * later finds no mapping.
 */
void mfs_disclaim(struct mfs_inode *mi, struct folio **folios, unsigned int nr)
{
	struct mfs_super *super = mfs_super(mi->inode.i_sb);
	unsigned int i;

	if (!nr)
		return;
	for (i = 0; i < nr; i++) {
		if (super->ops->removing)
			super->ops->removing(super, folios[i]);
		WRITE_ONCE(folios[i]->mapping, NULL);
	}
	smp_mb();	/* others get a reference, lock, then look at the mapping */
	for (i = 0; i < nr; i++) {
		if (!mfs_unreferenced(folios[i], 0)) {
			folio_lock(folios[i]);
			folio_unlock(folios[i]);
		}
	}
}
