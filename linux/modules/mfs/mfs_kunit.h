/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For the KUnit tests of memory file systems. Such a test is a module that has the
 * file system's own source in it, so it sees what is static there; it cannot be
 * loaded beside the file system. No process has memory from what it makes.
 */
#ifndef _MFS_KUNIT_H
#define _MFS_KUNIT_H

#include <kunit/test.h>

#include "mfs.h"

/* What the manager gives for a hole of @nr pages in which a folio of @order fits. */
static inline int mfs_test_alloc(struct mfs_super *super, unsigned long nr,
				 unsigned int order, struct mfs_run *run)
{
	*run = (struct mfs_run) { .nr = nr, .order = order };
	return super->ops->alloc(super, run);
}

/* The same for one base page; NULL if there is none. */
static inline struct page *mfs_test_page(struct mfs_super *super)
{
	struct mfs_run run;

	return mfs_test_alloc(super, 1, 0, &run) ? NULL : run.page;
}

/* Give a folio back as mfs does when the last file has it no more. */
static inline void mfs_test_free(struct mfs_super *super, struct page *page)
{
	struct folio_batch one;

	if (super->ops->free) {
		super->ops->free(super, page_folio(page));
	} else if (super->ops->free_batch) {
		folio_batch_init(&one);
		folio_batch_add(&one, page_folio(page));
		super->ops->free_batch(super, &one);
	} else {
		mfs_put(page_folio(page));
	}
}

/* Numbers that look random and are the same each time: Knuth's MMIX */
static inline u32 mfs_test_random(u64 *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 32;
}

#endif /* _MFS_KUNIT_H */
