// SPDX-License-Identifier: GPL-2.0
/*
 * How much of a pool processes may lock: mlock() would else take from all others
 * what nothing gives back, with a swap file, too.
 *
 * Nothing is counted when memory is unlocked or unmapped. mfs_super.locked is what
 * was asked for since the mappings were last counted, which is done when it exceeds
 * the limit.
 */
#include "internal.h"

static unsigned int lockable = 75;
module_param(lockable, uint, 0644);
MODULE_PARM_DESC(lockable, "percentage of a pool that may be locked");

static DEFINE_MUTEX(mfs_counting);

/* How many pages may be locked; ULONG_MAX where no pool is set aside. */
static unsigned long mfs_lockable(struct mfs_super *super)
{
	const unsigned int percent = min(READ_ONCE(lockable), 100U);
	struct kstatfs stat = {};

	mfs_stock(super, &stat);
	return stat.f_blocks ? mult_frac(stat.f_blocks, percent, 100UL) : ULONG_MAX;
}

/* Pages of locked mappings of all files. */
static unsigned long mfs_count_locked(struct super_block *sb)
{
	struct inode *inode, *done = NULL;
	unsigned long nr = 0;

	spin_lock(&sb->s_inode_list_lock);
	list_for_each_entry(inode, &sb->s_inodes, i_sb_list) {
		/* Anybody may have made many that are not mapped. */
		if (!mapping_mapped(inode->i_mapping) && !need_resched())
			continue;
		if (!igrab(inode))
			continue;
		/* The inode keeps its place in the list while we have it. */
		spin_unlock(&sb->s_inode_list_lock);
		iput(done);
		nr += fbmm_nr_locked(inode->i_mapping);
		done = inode;
		cond_resched();
		spin_lock(&sb->s_inode_list_lock);
	}
	spin_unlock(&sb->s_inode_list_lock);
	iput(done);
	return nr;
}

/**
 * mfs_may_lock - whether a process may lock so many pages more
 * @super: the mount
 * @nr: how many
 *
 * Who is about to lock others after asking is missed while the mappings are counted;
 * what that takes beyond the limit is found when they are counted next.
 *
 * Return: 0, or -ENOSPC.
 */
int mfs_may_lock(struct mfs_super *super, unsigned long nr)
{
	const unsigned long limit = mfs_lockable(super);
	unsigned long asked, locked;
	bool fits;

	if (limit == ULONG_MAX)
		return 0;
	if (nr > limit)
		return -ENOSPC;
	asked = atomic_long_add_return(nr, &super->locked);
	if (asked <= limit)
		return 0;
	/* Two at once would both take off what is not locked any more. */
	mutex_lock(&mfs_counting);
	asked = atomic_long_read(&super->locked);
	locked = mfs_count_locked(super->sb);
	fits = locked + nr <= limit;
	/* Others may have asked for more since. */
	atomic_long_add(locked + (fits ? nr : 0) - asked, &super->locked);
	mutex_unlock(&mfs_counting);
	return fits ? 0 : -ENOSPC;
}
