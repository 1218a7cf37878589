/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What memory file systems share: everything but where pages come from and when
 * they move. docs/write-a-memory-manager.md builds one step by step.
 *
 * Locks, from the outside in: mmap_lock, the mapping's invalidate_lock, the lock
 * of a folio, i_mmap_rwsem, the memory manager's own.
 *
 * A file's pages are in mfs_inode.folios. Faults and fallocate() add pages with
 * the invalidate_lock held shared; what removes, shares, replaces or moves them
 * holds it exclusive. A page that is found stays while the lock is held, and no
 * other file gets it.
 *
 * Base pages are mapped with the invalidate_lock held, all others by the kernel
 * after ->fault() has returned them: with a reference, and locked.
 */
#ifndef _MFS_H
#define _MFS_H

#include <linux/fbmm.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/fs_parser.h>
#include <linux/kobject.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/statfs.h>
#include <linux/xarray.h>

struct mfs_super;
struct mfs_swap;
struct mfs_visit;

/* A hole a file wants filled, and what the memory manager gave. */
struct mfs_run {
	struct inode *inode;
	/* The page that is wanted now, its place in the file */
	pgoff_t index;
	/*
	 * In: how many pages are missing from @index on, not above
	 * mfs_super.max_pages. Out: how many were given.
	 */
	unsigned long nr;
	/*
	 * In: the order of the largest folio that fits around @index, 0 or
	 * PMD_ORDER, and not above mfs_super.max_order. Out: the order of the
	 * folios given.
	 */
	unsigned int order;
	/* Out: the first of @nr pages in a row, one folio if @order is not 0. */
	struct page *page;
};

/*
 * A memory manager. All functions but alloc are optional; all may sleep, but
 * free, and what says where folios are, must not wait for memory. The library itself
 * knows the mount option swap= and, where there is no statfs, size=.
 */
struct mfs_ops {
	/* Size of the structure that starts with a struct mfs_super. */
	size_t super_size;

	/*
	 * Size of its mount options' structure, at fc->fs_private. parse returns
	 * as fs_context_operations.parse_param does.
	 */
	size_t options_size;
	int (*parse)(struct fs_context *fc, struct fs_parameter *param);
	void (*free_options)(struct fs_context *fc);

	/*
	 * At mount; before files go, for what looks at them by itself; and when
	 * the last is gone. The latter two are also called when fill failed.
	 */
	int (*fill)(struct mfs_super *super, struct fs_context *fc);
	void (*unmount)(struct mfs_super *super);
	void (*drain)(struct mfs_super *super);

	/*
	 * Give pages, at least for run->index. Each has one reference, which is
	 * the file's. -ENOSPC if there are none: the process gets SIGBUS, or
	 * ENOSPC from fallocate(). Their contents do not matter.
	 */
	int (*alloc)(struct mfs_super *super, struct mfs_run *run);

	/*
	 * Take folios back that no file has, one or many at a time: one of these,
	 * or none for folio_put().
	 */
	void (*free)(struct mfs_super *super, struct folio *folio);
	void (*free_batch)(struct mfs_super *super, struct folio_batch *folios);

	/*
	 * A folio is in its place in a file, or about to leave it. After removing
	 * the memory manager gives nobody a reference to it.
	 */
	void (*added)(struct mfs_super *super, struct folio *folio);
	void (*removing)(struct mfs_super *super, struct folio *folio);

	/*
	 * Fill in f_blocks, f_bfree and f_bavail, in pages: what there is, what is free,
	 * and what of that can be given at once. Without, it is what size= says, if it is
	 * given. With swap=, pages go out while little is free.
	 */
	void (*statfs)(struct mfs_super *super, struct kstatfs *stat);

	/*
	 * With swap=: whether a folio is to go before any other. Without, or when these
	 * do not do, those go that were not used for longest.
	 */
	bool (*swap_first)(struct mfs_super *super, struct folio *folio);

	/* A folio has become base pages, which are about to be added. */
	void (*split)(struct mfs_super *super, struct page *pages, unsigned int order);

	/*
	 * Of mfs_visit(): a folio that several files have, and whether it was used through
	 * one of them since the last call for that. A turn calls at least once for each of
	 * these files. May move it: mfs_move_shared().
	 */
	void (*shared)(struct mfs_super *super, struct mfs_visit *visit);

	/* Text for /proc/mounts, starting with a comma. */
	void (*show_options)(struct mfs_super *super, struct seq_file *seq);

	/* Files of /sys/fs/NAME/MINOR; their kobject is mfs_super.kobj. */
	const struct attribute_group *group;
};

/* A type of memory file system: fs.name, fs.owner and ops are to be set. */
struct mfs_type {
	struct file_system_type fs;
	const struct mfs_ops *ops;
	struct kset *kset;
};

/* Who goes round the files of a mount, and each file's place on the way: visit.c */
enum { MFS_HAND_SWAP, MFS_HAND_SHARED, NR_MFS_HANDS };

struct mfs_hand {
	spinlock_t lock;
	/* First the file that the hand is in */
	struct list_head files;
	unsigned long nr_files;
};

struct mfs_place {
	struct list_head list;
	/* The next of the file's pages to look at */
	pgoff_t next;
};

/* A mounted one; the memory manager's own structure starts with it. */
struct mfs_super {
	const struct mfs_ops *ops;
	struct super_block *sb;
	struct kobject kobj;
	/* Pages that files have, for sysfs, and how many they may have; 0 is any number */
	atomic_long_t used;
	unsigned long limit;
	/* How many files there are */
	atomic_long_t files;
	/* Pages asked to be locked: not fewer than are, but for those just now: lock.c */
	atomic_long_t locked;
	/*
	 * What alloc can give at once, if fill says that it is more than a page:
	 * finding out how large a hole is costs time.
	 */
	unsigned long max_pages;
	unsigned int max_order;
	/* Where pages go when few are free; NULL without swap= */
	struct mfs_swap *swap;
	struct mfs_hand hand[NR_MFS_HANDS];
	/* What mfs_move_shared() moved in this turn: by its address what it became */
	struct xarray moved;
	unsigned long nr_moved;
	/* In this round of a turn of mfs_visit(); 0 between two turns */
	unsigned long files_left;
	/* How many rounds more this turn has, for what some files had not got yet */
	unsigned int rounds;
	/* Who moves, and whether somebody needs a page and there is none: mfs_hurry() */
	struct task_struct *mover;
	bool hurry;
};

struct mfs_inode {
	struct inode inode;
	struct xarray folios;
	struct mfs_place place[NR_MFS_HANDS];
};

static inline struct mfs_super *mfs_super(const struct super_block *sb)
{
	return sb->s_fs_info;
}

static inline struct mfs_inode *mfs_inode(struct inode *inode)
{
	return container_of(inode, struct mfs_inode, inode);
}

int mfs_register(struct mfs_type *type);
void mfs_unregister(struct mfs_type *type);

/* Whether memory errors are known of one of the pages. */
static inline bool mfs_poisoned(const struct page *page, unsigned long nr)
{
	while (nr--)
		if (PageHWPoison(page++))
			return true;
	return false;
}

/* Of a folio that no file has: whether somebody else has it. */
static inline bool mfs_busy(struct folio *folio)
{
	return folio_memcg_charged(folio) || folio_ref_count(folio) != 1;
}

/*
 * Clear what a folio that no file has was marked with. Who finds it by its number may lock it
 * at any time: that stays, and nothing of it is lost.
 */
static inline void mfs_clear_flags(struct folio *folio)
{
	set_mask_bits(&fbmm_flags(folio),
		      PAGE_FLAGS_CHECK_AT_PREP &
		      ~(BIT(PG_head) | BIT(PG_locked) | BIT(PG_waiters)), 0);
}

/*
 * Give a folio back to the kernel; or nobody: the page allocator does not look for
 * errors in the pages of a large one.
 */
static inline void mfs_put(struct folio *folio)
{
	if (!mfs_poisoned(folio_page(folio, 0), folio_nr_pages(folio)))
		folio_put(folio);
}

/*
 * Replace a folio of a file by another of the same order: for migration. On
 * entry @folio has a reference of the caller's; @target is from the caller and
 * has one reference. On success the file has @target, and @folio has one
 * reference less and is the caller's to free.
 *
 * Return: -EAGAIN if somebody uses the folio at the moment or a page is broken, or it is
 * locked memory in a mount that swaps, -ENOENT if it is in no file or shared by several.
 */
int mfs_migrate(struct mfs_super *super, struct folio *folio,
		struct folio *target);

/* A folio that several files have, locked, and the file it was found in */
struct mfs_visit {
	struct mfs_inode *mi;
	pgoff_t index;
	struct folio *folio;
	bool used;
};

/* Who calls mfs_visit() then does so until the turn is over; also when woken up for it. */
static inline bool mfs_is_in_a_hurry(const struct mfs_super *super)
{
	return READ_ONCE(super->hurry);
}

bool mfs_visit(struct mfs_super *super);
void mfs_end_turn(struct mfs_super *super);
int mfs_move_shared(struct mfs_super *super, struct mfs_visit *visit,
		    struct folio *target);

/* A set of pages taken from the kernel at mount. */
struct mfs_pool {
	spinlock_t lock;
	struct list_head free;
	unsigned long nr_free;
	unsigned long nr;
	/* Pages to take from the kernel anew, in place of ones that were in use. */
	unsigned long missing;
	int node;
	struct shrinker *shrinker;
};

void mfs_pool_init(struct mfs_pool *pool, int node);
int mfs_pool_fill(struct mfs_pool *pool, unsigned long nr);
struct page *mfs_pool_get(struct mfs_pool *pool);
void mfs_pool_put(struct mfs_pool *pool, struct folio *folio);
void mfs_pool_put_batch(struct mfs_pool *pool, struct folio_batch *folios);
void mfs_pool_add(struct mfs_pool *pool, struct page *pages, unsigned long nr);
bool mfs_pool_take_row(struct mfs_pool *pool, struct page *pages, unsigned long nr);
void mfs_pool_drain(struct mfs_pool *pool);

/* Let the kernel have free pages of the pool when it is short of memory. */
int mfs_pool_shrink(struct mfs_pool *pool, const char *name);

/* "64M", "1G" or, of all memory, "25%" to pages; -EINVAL if it is none. */
int mfs_parse_size(const char *text, unsigned long *pages);

#define mfs_module(_type)						\
static int __init _type##_init(void)					\
{									\
	return mfs_register(&_type);					\
}									\
module_init(_type##_init);						\
									\
static void __exit _type##_exit(void)					\
{									\
	mfs_unregister(&_type);						\
}									\
module_exit(_type##_exit)

#endif /* _MFS_H */
