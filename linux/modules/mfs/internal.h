/* SPDX-License-Identifier: GPL-2.0 */
/* Between the files of the library. */
#ifndef _MFS_INTERNAL_H
#define _MFS_INTERNAL_H

#include "mfs.h"

/* file.c */
extern const struct file_operations mfs_file_operations;
extern const struct address_space_operations mfs_aops;

/* folios.c */
bool mfs_shared(const struct folio *folio);
void mfs_get_owner(struct folio *folio);
void mfs_drop(struct mfs_super *super, struct folio *folio);
void mfs_adopt(struct mfs_inode *mi, pgoff_t index, struct folio *folio);
void mfs_detach(struct mfs_inode *mi, struct folio *folio);
void mfs_hand_over(struct mfs_inode *mi, pgoff_t index, struct folio *folio,
		   struct folio *target);
int mfs_store(struct mfs_inode *mi, pgoff_t index, struct folio *folio);
int mfs_insert(struct mfs_inode *mi, pgoff_t index, struct folio *folio);
struct folio *mfs_alloc_one(struct mfs_inode *mi, pgoff_t index);
long mfs_fill_hole(struct mfs_inode *mi, pgoff_t index, pgoff_t first,
		   pgoff_t end);
int mfs_shatter(struct mfs_inode *mi, struct folio *folio, pgoff_t base,
		pgoff_t first, pgoff_t end);
int mfs_unshare(struct mfs_inode *mi, pgoff_t index, struct folio *folio);
int mfs_punch(struct mfs_inode *mi, pgoff_t first, pgoff_t end);

/* share.c */
loff_t mfs_remap_file_range(struct file *in, loff_t pos_in, struct file *out,
			    loff_t pos_out, loff_t len, unsigned int flags);

#endif /* _MFS_INTERNAL_H */
