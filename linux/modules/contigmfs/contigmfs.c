// SPDX-License-Identifier: GPL-2.0
/*
 * contigmfs: memory in pieces that are as long as possible in physical memory,
 * given and mapped when it is asked for, and the table of these ranges that a
 * range TLB would read (FBMM paper, section 5.3, after Redundant Memory Mappings).
 *
 *	mount -t contigmfs [-o size=512M[,swap=FILE]] none DIR
 *
 * debugfs has contigmfs/MINOR/ranges, a line a range: the file's inode number as in
 * /proc/PID/maps, the first page in the file, how many pages, the first frame. A
 * file's pages are in the order of their addresses, so ranges of files are ranges
 * of addresses.
 */
#include <linux/debugfs.h>
#include <linux/gfp.h>
#include <linux/log2.h>
#include <linux/mmzone.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>

#include "mfs.h"

/* The longest piece: what is filled at once at most */
#define CONTIG_MOST	(SZ_64M >> PAGE_SHIFT)
#define CONTIG_ORDERS	(const_ilog2(CONTIG_MOST) + 1)

struct contig {
	struct mfs_super super;
	struct dentry *dir;
	/* Pieces given, by the order of the smallest block that would have them */
	atomic_long_t pieces[CONTIG_ORDERS];
};

static struct dentry *contig_debugfs;

static struct contig *contig(struct mfs_super *super)
{
	return container_of(super, struct contig, super);
}

/*
 * A block of the buddy allocator becomes single pages, so that they can be shared and
 * freed one by one; it joins them again. What is longer than needed goes back at once.
 */
static int contig_alloc_block(struct mfs_run *run)
{
	unsigned int order = min_t(unsigned int, order_base_2(run->nr),
				   MAX_PAGE_ORDER);
	unsigned long i;

	for (;; order--) {
		const gfp_t gfp = order ? __GFP_NORETRY | __GFP_NOWARN : 0;

		run->page = alloc_pages(GFP_HIGHUSER | gfp, order);
		if (run->page)
			break;
		if (!order)
			return -ENOMEM;
	}
	if (order)
		split_page(run->page, order);
	for (i = run->nr; i < 1UL << order; i++)
		__free_page(run->page + i);
	run->nr = min(run->nr, 1UL << order);
	return 0;
}

/*
 * Blocks in a row, as single pages; not more than the memory cgroup lets a file have, or
 * most would have to go back.
 */
static bool contig_alloc_blocks(struct mfs_run *run)
{
	unsigned long nr = min(run->nr, fbmm_charge_room());

	if (nr <= MAX_ORDER_NR_PAGES)
		return false;
	run->page = fbmm_alloc_range(&nr);
	if (run->page)
		run->nr = nr;
	return run->page;
}

static int contig_alloc(struct mfs_super *super, struct mfs_run *run)
{
	const int err = contig_alloc_blocks(run) ? 0 : contig_alloc_block(run);

	if (err)
		return err;
	run->order = 0;
	atomic_long_inc(&contig(super)->pieces[order_base_2(run->nr)]);
	return 0;
}

/* The range table */

static void contig_print(struct seq_file *seq, struct inode *inode, pgoff_t index,
			 unsigned long nr, unsigned long pfn)
{
	if (nr)
		seq_printf(seq, "%llu %lu %lu %lu\n", (u64)inode->i_ino, index, nr, pfn);
}

static void contig_show_file(struct seq_file *seq, struct inode *inode)
{
	unsigned long index, first = 0, nr = 0, pfn = 0;
	struct folio *folio;

	filemap_invalidate_lock_shared(inode->i_mapping);
	xa_for_each(&mfs_inode(inode)->folios, index, folio) {
		if (xa_is_value(folio)) {	/* swapped out */
			contig_print(seq, inode, first, nr, pfn);
			nr = 0;
			continue;
		}
		if (nr && index == first + nr && folio_pfn(folio) == pfn + nr) {
			nr++;
			continue;
		}
		contig_print(seq, inode, first, nr, pfn);
		first = index;
		pfn = folio_pfn(folio);
		nr = 1;
	}
	contig_print(seq, inode, first, nr, pfn);
	filemap_invalidate_unlock_shared(inode->i_mapping);
}

static int ranges_show(struct seq_file *seq, void *unused)
{
	struct super_block *sb = seq->private;
	struct inode *inode, *done = NULL;

	spin_lock(&sb->s_inode_list_lock);
	list_for_each_entry(inode, &sb->s_inodes, i_sb_list) {
		if (!S_ISREG(inode->i_mode) || !igrab(inode))
			continue;
		/* The inode keeps its place in the list while we have it. */
		spin_unlock(&sb->s_inode_list_lock);
		iput(done);
		contig_show_file(seq, inode);
		done = inode;
		spin_lock(&sb->s_inode_list_lock);
	}
	spin_unlock(&sb->s_inode_list_lock);
	iput(done);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ranges);

static int contig_fill(struct mfs_super *super, struct fs_context *fc)
{
	char name[16];

	super->max_pages = CONTIG_MOST;
	snprintf(name, sizeof(name), "%u", MINOR(super->sb->s_dev));
	contig(super)->dir = debugfs_create_dir(name, contig_debugfs);
	debugfs_create_file("ranges", 0400, contig(super)->dir, super->sb,
			    &ranges_fops);
	return 0;
}

/* Called while the superblock's files still exist, so that none is shown twice. */
static void contig_unmount(struct mfs_super *super)
{
	debugfs_remove(contig(super)->dir);
}

static ssize_t pieces_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	struct mfs_super *super = container_of(kobj, struct mfs_super, kobj);
	ssize_t len = 0;
	int order;

	for (order = 0; order < CONTIG_ORDERS; order++)
		len += sysfs_emit_at(buf, len, "%s%ld", len ? " " : "",
				     atomic_long_read(&contig(super)->pieces[order]));
	return len + sysfs_emit_at(buf, len, "\n");
}
static struct kobj_attribute pieces_attr = __ATTR_RO(pieces);

static struct attribute *contig_attrs[] = {
	&pieces_attr.attr,
	NULL
};

static const struct attribute_group contig_group = {
	.attrs = contig_attrs,
};

static const struct mfs_ops contig_ops = {
	.super_size	= sizeof(struct contig),
	.fill		= contig_fill,
	.unmount	= contig_unmount,
	.alloc		= contig_alloc,
	.group		= &contig_group,
};

static struct mfs_type contigmfs = {
	.fs.name	= "contigmfs",
	.fs.owner	= THIS_MODULE,
	.fs.fs_flags	= FS_MEMORY_EAGER,
	.ops		= &contig_ops,
};

static int __init contigmfs_init(void)
{
	int err;

	contig_debugfs = debugfs_create_dir("contigmfs", NULL);
	err = mfs_register(&contigmfs);
	if (err)
		debugfs_remove(contig_debugfs);
	return err;
}
module_init(contigmfs_init);

static void __exit contigmfs_exit(void)
{
	mfs_unregister(&contigmfs);
	debugfs_remove(contig_debugfs);
}
module_exit(contigmfs_exit);

MODULE_DESCRIPTION("Memory file system with contiguous memory and a range table");
MODULE_LICENSE("GPL");
