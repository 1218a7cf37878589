/* SPDX-License-Identifier: GPL-2.0 */
/* Between the files of the library. */
#ifndef _MFS_INTERNAL_H
#define _MFS_INTERNAL_H

#include "mfs.h"

/* What a file has at a place: a folio, or a value if it is swapped out. */
static inline unsigned long mfs_entry_pages(const void *entry)
{
	return xa_is_value(entry) ? 1 : folio_nr_pages(entry);
}

/* The place after the entry at @index. */
static inline pgoff_t mfs_next(pgoff_t index, const void *entry)
{
	return ALIGN_DOWN(index, mfs_entry_pages(entry)) + mfs_entry_pages(entry);
}

/*
 * Whether to try again after -EBUSY. A memory manager that has a look at a folio
 * is done with it soon; mmap_lock may be held, so don't wait for others.
 */
#define MFS_TRIES	3	/* a tick each */

static inline bool mfs_try_again(int err, int *tries)
{
	if (err != -EBUSY || !*tries)
		return false;
	--*tries;
	schedule_timeout_uninterruptible(1);
	return true;
}

/* file.c */
extern const struct file_operations mfs_file_operations;
extern const struct address_space_operations mfs_aops;

/* owners.c */
bool mfs_shared(const struct folio *folio);
bool mfs_unreferenced(const struct folio *folio, int own);
bool mfs_claim(struct mfs_inode *mi, pgoff_t index, struct folio *folio, int refs);
void mfs_set_owner(struct folio *folio);
void mfs_get_owner(struct folio *folio);
bool mfs_used(struct mfs_inode *mi, pgoff_t index, struct folio *folio);
bool mfs_disown_shared(struct mfs_super *super, struct folio *folio);
void mfs_drop(struct mfs_super *super, struct folio *folio);
void mfs_retire(struct mfs_super *super, struct folio_batch *folios);
void mfs_give_back(struct mfs_super *super, struct folio *folio);
void mfs_adopt(struct mfs_inode *mi, pgoff_t index, struct folio *folio);
void mfs_detach(struct mfs_inode *mi, struct folio *folio);
void mfs_disclaim(struct mfs_inode *mi, struct folio **folios, unsigned int nr);

static inline atomic_long_t *mfs_owners(const struct folio *folio)
{
	BUILD_BUG_ON(sizeof(folio->private) != sizeof(atomic_long_t));
	return (atomic_long_t *)&folio->private;
}

/* Whether the folio is the file's own; the invalidate_lock is held. */
static inline bool mfs_owned(const struct mfs_inode *mi, const struct folio *folio)
{
	return READ_ONCE(folio->mapping) == mi->inode.i_mapping;
}

/*
 * A file has the folio no more; whether no file has it. Of one owner there will
 * not be two: its invalidate_lock is held exclusive, or the folio is fresh, or
 * erased from the cache of what is swapped, which had it last.
 */
static inline bool mfs_disown(struct mfs_super *super, struct folio *folio)
{
	return atomic_long_read_acquire(mfs_owners(folio)) == 1 ||
	       mfs_disown_shared(super, folio);
}

/* folios.c */
void mfs_unmap(struct mfs_inode *mi, pgoff_t index, unsigned long nr);
void mfs_hand_over(struct mfs_inode *mi, pgoff_t index, struct folio *folio,
		   struct folio *target);
int mfs_store(struct mfs_inode *mi, pgoff_t index, void *entry);
int mfs_insert(struct mfs_inode *mi, pgoff_t index, struct folio *folio);
unsigned int mfs_order(struct mfs_inode *mi, pgoff_t index, pgoff_t first, pgoff_t end);
struct folio *mfs_alloc_one(struct mfs_inode *mi, pgoff_t index, bool back);
long mfs_fill_hole(struct mfs_inode *mi, pgoff_t index, pgoff_t first,
		   pgoff_t end);
int mfs_unshare(struct mfs_inode *mi, pgoff_t index, struct folio *folio,
		struct vm_fault *vmf);
int mfs_punch(struct mfs_inode *mi, pgoff_t first, pgoff_t end);
void mfs_reap(struct mfs_inode *mi, pgoff_t first, pgoff_t end);

/* split.c */
int mfs_split(struct mfs_inode *mi, struct folio *folio, pgoff_t base);
int mfs_shatter(struct mfs_inode *mi, struct folio *folio, pgoff_t base,
		pgoff_t first, pgoff_t end);

/* super.c */
void mfs_stock(struct mfs_super *super, struct kstatfs *stat);

/* lock.c */
int mfs_may_lock(struct mfs_super *super, unsigned long nr);

/* swap.c */
extern const struct attribute_group mfs_swap_group;

int mfs_swap_open(struct mfs_super *super, struct fs_context *fc, const char *path);
void mfs_swap_statfs(struct mfs_super *super, struct kstatfs *stat);
void mfs_swap_show_options(struct mfs_super *super, struct seq_file *seq);
void mfs_swap_get(struct mfs_super *super, unsigned long slot);
void mfs_swap_put(struct mfs_super *super, unsigned long slot);
void mfs_swap_settle(struct mfs_super *super, unsigned long slot);
int mfs_swap_in(struct mfs_inode *mi, pgoff_t index, void *entry);
bool mfs_swap_caches(struct mfs_super *super, struct folio *folio);
void mfs_swap_stop(struct mfs_super *super);
void mfs_swap_close(struct mfs_super *super);

/* swapout.c */
unsigned long mfs_swap_room(struct mfs_super *super);
int mfs_swap_charge(struct folio *folio);
int mfs_swap_low(struct mfs_super *super, int err);
bool mfs_swap_wait(struct mfs_super *super, int *err);
void mfs_swap_freed(struct mfs_super *super);

/* visit.c */
void mfs_hand_init(struct mfs_super *super);
void mfs_hand_add(struct mfs_inode *mi);
void mfs_hand_del(struct mfs_inode *mi);
struct mfs_inode *mfs_hand_file(struct mfs_super *super, unsigned int nr);
void mfs_hand_pass(struct mfs_inode *mi, unsigned int nr);
bool mfs_hurry(struct mfs_super *super);
bool mfs_wait_turn(struct mfs_super *super, int *err);

/* share.c */
loff_t mfs_remap_file_range(struct file *in, loff_t pos_in, struct file *out,
			    loff_t pos_out, loff_t len, unsigned int flags);

#endif /* _MFS_INTERNAL_H */
