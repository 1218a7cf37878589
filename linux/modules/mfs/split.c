// SPDX-License-Identifier: GPL-2.0
/*
 * Large folios that become base pages: where a part is punched out, moved, or written
 * after fork(), and where they are swapped out.
 */
#include <linux/highmem.h>
#include <linux/huge_mm.h>

#include "internal.h"

/* The pages of what was a large folio, each in its place; they stay the file's own. */
static void mfs_place(struct mfs_inode *mi, struct xa_state *xas, struct page *pages,
		      unsigned int order, pgoff_t base)
{
	unsigned long i;

	xas_lock(xas);
	xas_split(xas, page_folio(pages), order);
	for (i = 0; i < 1UL << order; i++) {
		xas_set(xas, base + i);
		xas_store(xas, page_folio(pages + i));
	}
	xas_unlock(xas);
	mfs_adopt(mi, base, page_folio(pages));
	for (i = 1; i < 1UL << order; i++) {
		struct folio *folio = page_folio(pages + i);

		folio_lock(folio);
		mfs_set_owner(folio);
		mfs_adopt(mi, base + i, folio);
		folio_unlock(folio);
	}
}

/**
 * mfs_split - make base pages of a large folio, where they are
 * @mi: the file, its invalidate_lock held exclusive
 * @folio: the folio
 * @base: its place in the file
 *
 * Return: 0; -EBUSY if another file has the folio, or somebody a reference; -ENOMEM.
 */
int mfs_split(struct mfs_inode *mi, struct folio *folio, pgoff_t base)
{
	struct mfs_super *super = mfs_super(mi->inode.i_sb);
	const unsigned int order = folio_order(folio);
	XA_STATE(xas, &mi->folios, base);
	int err = -EBUSY;

	if (!mfs_claim(mi, base, folio, 0))
		return -EBUSY;
	xas_split_alloc(&xas, folio, order, GFP_KERNEL);
	if (xas_error(&xas))
		return xas_error(&xas);
	folio_lock(folio);
	mfs_unmap(mi, base, 1UL << order);
	if (folio_ref_count(folio) == 1) {
		mfs_detach(mi, folio);
		err = fbmm_split(folio) ? 0 : -EBUSY;
		if (!err && super->ops->split)
			super->ops->split(super, folio_page(folio, 0), order);
		if (!err)
			mfs_place(mi, &xas, folio_page(folio, 0), order, base);
		else
			mfs_adopt(mi, base, folio);
	}
	folio_unlock(folio);
	if (err)
		xas_nomem(&xas, 0);	/* frees what xas_split_alloc() got */
	return err;
}

static void mfs_drop_all(struct mfs_super *super, struct list_head *folios)
{
	struct folio *folio, *next;

	list_for_each_entry_safe(folio, next, folios, lru) {
		list_del_init(&folio->lru);
		mfs_drop(super, folio);
	}
}

/* Base pages for [@base, @end), but not for [@skip, @skip_end); in no file yet. */
static int mfs_alloc_list(struct mfs_inode *mi, pgoff_t base, pgoff_t end,
			  pgoff_t skip, pgoff_t skip_end, struct list_head *folios)
{
	struct folio *folio;
	pgoff_t at;

	for (at = base; at < end; at++) {
		if (at >= skip && at < skip_end)
			continue;
		folio = mfs_alloc_one(mi, at, false);
		if (IS_ERR(folio)) {
			mfs_drop_all(mfs_super(mi->inode.i_sb), folios);
			return PTR_ERR(folio);
		}
		folio->index = at;
		list_add_tail(&folio->lru, folios);
	}
	return 0;
}

/* Put base pages in the place of a large folio, which @xas can split. */
static void mfs_replace(struct mfs_inode *mi, struct xa_state *xas,
			struct folio *folio, pgoff_t base, struct list_head *copies)
{
	struct folio *copy = list_first_entry(copies, struct folio, lru), *next;
	pgoff_t at;

	xas_lock(xas);
	xas_split(xas, folio, folio_order(folio));
	for (at = base; at < base + folio_nr_pages(folio); at++) {
		xas_set(xas, at);
		if (list_entry_is_head(copy, copies, lru) || copy->index != at) {
			xas_store(xas, NULL);
			continue;
		}
		xas_store(xas, copy);
		copy = list_next_entry(copy, lru);
	}
	xas_unlock(xas);
	list_for_each_entry_safe(copy, next, copies, lru) {
		list_del_init(&copy->lru);
		folio_lock(copy);
		mfs_adopt(mi, copy->index, copy);
		folio_unlock(copy);
	}
}

/*
 * Put copies of base pages in the place of a large folio that others have as well,
 * all but those in [@first, @end). Nobody writes to it: fork() has shared it, which
 * copies what is pinned.
 */
static int mfs_split_by_copies(struct mfs_inode *mi, struct folio *folio, pgoff_t base,
			       pgoff_t first, pgoff_t end)
{
	struct mfs_super *super = mfs_super(mi->inode.i_sb);
	const unsigned long nr = folio_nr_pages(folio);
	XA_STATE(xas, &mi->folios, base);
	struct folio *copy;
	LIST_HEAD(copies);
	int err;

	err = mfs_alloc_list(mi, base, base + nr, first, end, &copies);
	if (err)
		return err;
	xas_split_alloc(&xas, folio, folio_order(folio), GFP_KERNEL);
	err = xas_error(&xas);
	if (err)
		goto drop;

	folio_lock(folio);
	mfs_unmap(mi, base, nr);
	err = -EHWPOISON;
	list_for_each_entry(copy, &copies, lru) {
		struct page *page = folio_file_page(folio, copy->index);

		if (PageHWPoison(page))
			goto unlock;
		copy_highpage(folio_page(copy, 0), page);
	}
	mfs_detach(mi, folio);
	mfs_replace(mi, &xas, folio, base, &copies);
	folio_unlock(folio);
	mfs_drop(super, folio);
	return 0;
unlock:
	folio_unlock(folio);
	xas_nomem(&xas, 0);	/* frees what xas_split_alloc() got */
drop:
	mfs_drop_all(super, &copies);
	return err;
}

/*
 * Make base pages of a large folio; those in [@first, @end) need not stay. The
 * invalidate_lock is held exclusive. Who has a reference to one that is the file's own
 * may write to it: then it stays, and -EBUSY is returned.
 */
int mfs_shatter(struct mfs_inode *mi, struct folio *folio, pgoff_t base,
		pgoff_t first, pgoff_t end)
{
	const int err = mfs_split(mi, folio, base);

	if (err != -EBUSY || mfs_owned(mi, folio))
		return err;
	return mfs_split_by_copies(mi, folio, base, first, end);
}
