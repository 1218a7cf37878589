// SPDX-License-Identifier: GPL-2.0
/*
 * Swapping pages of a memory file system out to a file of another one: the slots of
 * that file, and bringing pages back. The kernel's reclaim does not know these
 * pages, so swapout.c has a thread for it.
 *
 * In the place of a page that is out, a file has a value entry, the number of a
 * slot. After fork() several files can have a slot, as they can have a folio;
 * users[] counts them.
 *
 * A page whose slot is being written, or that other files still have, is in the
 * cache, by the slot's number. The cache then counts as one of the folio's
 * owners, so that no file writes to it. Who finds the slot in a file looks there
 * first. If writing fails, the page stays in the cache until nobody has the slot.
 */
#include <linux/bvec.h>
#include <linux/kthread.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "swap.h"

/* Slots */

int mfs_swap_io(struct mfs_swap *swap, unsigned long slot, struct folio *folio,
		unsigned int direction)
{
	loff_t pos = (loff_t)slot << PAGE_SHIFT;
	struct mem_cgroup *old;
	struct iov_iter iter;
	struct bio_vec bvec;
	ssize_t done;

	bvec_set_folio(&bvec, folio, PAGE_SIZE, 0);
	iov_iter_bvec(&iter, direction, &bvec, 1, PAGE_SIZE);
	/*
	 * The page cache of the swap file is nobody's. Who reads holds a lock of a file,
	 * which the thread needs to make room in a memory cgroup.
	 */
	old = fbmm_charge_root();
	if (direction == ITER_SOURCE)
		done = vfs_iter_write(swap->file, &iter, &pos, 0);
	else
		done = vfs_iter_read(swap->file, &iter, &pos, 0);
	set_active_memcg(old);
	if (done < 0)
		return done;
	return done == PAGE_SIZE ? 0 : -EIO;
}

/* One more file has the slot, which the caller's has. */
void mfs_swap_get(struct mfs_super *super, unsigned long slot)
{
	refcount_inc(&super->swap->users[slot]);
}

/* A file has the slot no more. */
void mfs_swap_put(struct mfs_super *super, unsigned long slot)
{
	struct mfs_swap *swap = super->swap;
	struct folio *folio;

	if (!refcount_dec_and_test(&swap->users[slot]))
		return;
	folio = xa_erase(&swap->cache, slot);
	if (folio)
		mfs_drop(super, folio);
	atomic_long_dec(&swap->swapped);
	ida_free(&swap->slots, slot);
	WRITE_ONCE(swap->failed, false);
}

/*
 * If nobody but the cache has what is cached of a slot, and it is in the slot as
 * well, free it. Called also for folios that are in no slot, with any @slot.
 */
void mfs_swap_settle(struct mfs_super *super, unsigned long slot)
{
	struct xarray *cache = &super->swap->cache;
	struct folio *folio;

	xa_lock(cache);
	folio = xa_load(cache, slot);
	if (folio && xa_get_mark(cache, slot, MFS_WRITTEN) && !mfs_shared(folio))
		__xa_erase(cache, slot);
	else
		folio = NULL;
	xa_unlock(cache);
	if (folio)
		mfs_drop(super, folio);
}

/* Swapping in */

/* What is cached of a slot, which the caller then owns, too. */
static struct folio *mfs_swap_cached(struct mfs_swap *swap, unsigned long slot)
{
	struct folio *folio;

	xa_lock(&swap->cache);
	folio = xa_load(&swap->cache, slot);
	if (folio)
		mfs_get_owner(folio);
	xa_unlock(&swap->cache);
	return folio;
}

static struct folio *mfs_swap_read(struct mfs_inode *mi, pgoff_t index,
				   unsigned long slot)
{
	struct mfs_super *super = mfs_super(mi->inode.i_sb);
	struct folio *folio = mfs_alloc_one(mi, index, true);
	int err;

	if (IS_ERR(folio))
		return folio;
	err = mfs_swap_io(super->swap, slot, folio, ITER_DEST);
	if (err) {
		pr_err_ratelimited("%s: reading page %lu of the swap file: error %d\n",
				   super->sb->s_type->name, slot, err);
		mfs_drop(super, folio);
		return ERR_PTR(-EIO);
	}
	return folio;
}

/**
 * mfs_swap_in - bring back a page of a file
 * @mi: the file, its invalidate_lock held shared
 * @index: the page
 * @entry: what the file has there, a value
 *
 * What is read may be another page's by then, of a slot that another thread has
 * brought back and freed: then the file has no longer that entry.
 *
 * Return: 0, also if another thread did it meanwhile; or an error, -EAGAIN if the
 * pool is empty, -EIO.
 */
int mfs_swap_in(struct mfs_inode *mi, pgoff_t index, void *entry)
{
	struct mfs_super *super = mfs_super(mi->inode.i_sb);
	const unsigned long slot = xa_to_value(entry);
	struct mfs_swap *swap = super->swap;
	struct folio *folio = mfs_swap_cached(swap, slot);
	const bool read = !folio;
	bool mine;

	if (read) {
		folio = mfs_swap_read(mi, index, slot);
		if (IS_ERR(folio))
			return PTR_ERR(folio);
		folio_lock(folio);
	}
	mine = xa_cmpxchg(&mi->folios, index, entry, folio, GFP_KERNEL) == entry;
	if (read) {
		if (mine)
			mfs_adopt(mi, index, folio);
		folio_unlock(folio);
	}
	if (!mine) {
		mfs_drop(super, folio);
		return 0;
	}
	atomic_long_inc(&swap->swapins);
	mfs_swap_put(super, slot);
	return 0;
}

/* Whether the folio, which no file owns, is cached of a slot. */
bool mfs_swap_caches(struct mfs_super *super, struct folio *folio)
{
	return super->swap && xa_load(&super->swap->cache, folio->index) == folio;
}

/* Mounting */

/* Nobody else may write to the file from now on, as with a program that runs. */
static int mfs_swap_claim(struct file *file, struct fs_context *fc,
			  const char *path)
{
	struct inode *inode = file_inode(file);

	if (!S_ISREG(inode->i_mode))
		return 0;	/* O_EXCL did it */
	if (atomic_cmpxchg(&inode->i_writecount, 1, -1) == 1)
		return 0;
	errorfc(fc, "swap=%s is open for writing elsewhere", path);
	return -ETXTBSY;
}

static void mfs_swap_unclaim(struct file *file)
{
	if (S_ISREG(file_inode(file)->i_mode))
		atomic_add(2, &file_inode(file)->i_writecount);
}

static int mfs_swap_open_file(struct mfs_swap *swap, struct fs_context *fc,
			      const char *path)
{
	struct file *file = filp_open(path, O_RDWR | O_LARGEFILE | O_EXCL |
				      O_NOATIME, 0);
	umode_t mode;
	int err;

	if (IS_ERR(file)) {
		errorfc(fc, "cannot open swap=%s", path);
		return PTR_ERR(file);
	}
	mode = file_inode(file)->i_mode;
	swap->nr = min_t(loff_t, i_size_read(file->f_mapping->host) >> PAGE_SHIFT,
			 INT_MAX / sizeof(*swap->users));
	if ((!S_ISREG(mode) && !S_ISBLK(mode)) || !(file->f_mode & FMODE_CAN_READ) ||
	    !(file->f_mode & FMODE_CAN_WRITE))
		err = invalfc(fc, "swap=%s is no file or disk to swap to", path);
	else if (swap->nr < MFS_SWAP_BATCH)
		err = invalfc(fc, "swap=%s is smaller than %lu KB", path,
			      MFS_SWAP_BATCH * PAGE_SIZE / SZ_1K);
	else
		err = mfs_swap_claim(file, fc, path);
	if (err)
		fput(file);
	else
		swap->file = file;
	return err;
}

/**
 * mfs_swap_open - let pages be swapped out while few are free
 * @super: the mount, after mfs_ops.fill
 * @fc: for messages
 * @path: a file, sparse if you like, or a disk
 *
 * Return: 0 or an error; mfs_swap_stop() and mfs_swap_close() follow anyway.
 */
int mfs_swap_open(struct mfs_super *super, struct fs_context *fc, const char *path)
{
	struct kstatfs stat = {};
	struct task_struct *thread;
	struct mfs_swap *swap;
	int err;

	mfs_stock(super, &stat);
	if (!stat.f_blocks)
		return invalfc(fc, "swap=%s: size is missing", path);
	swap = kzalloc(sizeof(*swap), GFP_KERNEL);
	if (!swap)
		return -ENOMEM;
	super->swap = swap;
	swap->super = super;
	swap->low = max_t(unsigned long, stat.f_blocks / 64, 1);
	swap->high = 2 * swap->low;
	ida_init(&swap->slots);
	xa_init(&swap->cache);
	spin_lock_init(&swap->lock);
	INIT_LIST_HEAD(&swap->wanted);
	init_waitqueue_head(&swap->wake);
	init_waitqueue_head(&swap->wait);
	err = mfs_swap_open_file(swap, fc, path);
	if (err)
		return err;
	swap->users = kvcalloc(swap->nr, sizeof(*swap->users), GFP_KERNEL);
	if (!swap->users)
		return -ENOMEM;
	thread = kthread_run(mfs_swap_thread, swap, "%s-swap/%u",
			     super->sb->s_type->name, MINOR(super->sb->s_dev));
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	swap->thread = thread;
	swap->reclaimer.reclaim = mfs_swap_reclaim;
	fbmm_add_reclaimer(&swap->reclaimer);
	return 0;
}

/* Before files go */
void mfs_swap_stop(struct mfs_super *super)
{
	if (!super->swap || !super->swap->thread)
		return;
	fbmm_del_reclaimer(&super->swap->reclaimer);
	kthread_stop(super->swap->thread);
}

/* When they are gone, or mfs_swap_open() failed */
void mfs_swap_close(struct mfs_super *super)
{
	struct mfs_swap *swap = super->swap;

	if (!swap)
		return;
	WARN_ON_ONCE(!ida_is_empty(&swap->slots) || !xa_empty(&swap->cache));
	if (swap->file) {
		mfs_swap_unclaim(swap->file);
		fput(swap->file);
	}
	kvfree(swap->users);
	kfree(swap);
	super->swap = NULL;
}

/* Add the slots to what statfs says. */
void mfs_swap_statfs(struct mfs_super *super, struct kstatfs *stat)
{
	const struct mfs_swap *swap = super->swap;
	const unsigned long free = swap->nr - atomic_long_read(&swap->swapped);

	stat->f_blocks += swap->nr;
	stat->f_bfree += free;
	stat->f_bavail += free;
	stat->f_bavail -= min_t(u64, stat->f_bavail, MFS_SWAP_KEPT);
}

void mfs_swap_show_options(struct mfs_super *super, struct seq_file *seq)
{
	seq_puts(seq, ",swap=");
	seq_file_path(seq, super->swap->file, ", \t\n\\");
}

#define MFS_SWAP_COUNTER(_name)							\
static ssize_t _name##_show(struct kobject *kobj, struct kobj_attribute *attr,	\
			    char *buf)						\
{										\
	struct mfs_super *super = container_of(kobj, struct mfs_super, kobj);	\
										\
	return sysfs_emit(buf, "%ld\n",						\
			  atomic_long_read(&super->swap->_name));		\
}										\
static struct kobj_attribute _name##_attr = __ATTR_RO(_name)

MFS_SWAP_COUNTER(swapped);
MFS_SWAP_COUNTER(swapouts);
MFS_SWAP_COUNTER(swapins);

static struct attribute *mfs_swap_attrs[] = {
	&swapped_attr.attr,
	&swapouts_attr.attr,
	&swapins_attr.attr,
	NULL
};

const struct attribute_group mfs_swap_group = {
	.attrs = mfs_swap_attrs,
};
