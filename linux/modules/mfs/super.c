// SPDX-License-Identifier: GPL-2.0
/* Mounting a memory file system, its directory, and its place in sysfs. */
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "internal.h"

#define MFS_MAGIC	0x6d667331	/* "mfs1" */

static struct kmem_cache *mfs_inode_cache;

/* The library's mount options, behind the manager's */
struct mfs_options {
	char *swap;
	unsigned long limit;
};

static struct mfs_type *mfs_type(struct fs_context *fc)
{
	return container_of(fc->fs_type, struct mfs_type, fs);
}

static size_t mfs_options_offset(const struct mfs_ops *ops)
{
	return ALIGN(ops->options_size, sizeof(void *));
}

static struct mfs_options *mfs_options(struct fs_context *fc)
{
	return fc->fs_private + mfs_options_offset(mfs_type(fc)->ops);
}

/* Inodes */

static struct inode *mfs_alloc_inode(struct super_block *sb)
{
	struct mfs_inode *mi = alloc_inode_sb(sb, mfs_inode_cache, GFP_KERNEL);

	return mi ? &mi->inode : NULL;
}

static void mfs_free_inode(struct inode *inode)
{
	kmem_cache_free(mfs_inode_cache, mfs_inode(inode));
}

static void mfs_init_inode_once(void *object)
{
	struct mfs_inode *mi = object;

	inode_init_once(&mi->inode);
	xa_init(&mi->folios);
}

/* Anybody may make files, which take memory of the kernel's: no more than tmpfs allows. */
static bool mfs_count_file(struct mfs_super *super)
{
	if (atomic_long_inc_return(&super->files) <= totalram_pages() / 2)
		return true;
	atomic_long_dec(&super->files);
	return false;
}

static void mfs_evict_inode(struct inode *inode)
{
	if (S_ISREG(inode->i_mode)) {
		atomic_long_dec(&mfs_super(inode->i_sb)->files);
		mfs_hand_del(mfs_inode(inode));
		filemap_invalidate_lock(inode->i_mapping);
		mfs_punch(mfs_inode(inode), 0, ULONG_MAX);
		filemap_invalidate_unlock(inode->i_mapping);
	}
	truncate_inode_pages_final(&inode->i_data);
	clear_inode(inode);
}

static int mfs_setattr(struct mnt_idmap *idmap, struct dentry *dentry,
		       struct iattr *attr)
{
	struct inode *inode = d_inode(dentry);
	int err = setattr_prepare(idmap, dentry, attr);

	if (err)
		return err;
	if (attr->ia_valid & ATTR_SIZE) {
		if (!PAGE_ALIGNED(attr->ia_size))
			return -EINVAL;
		filemap_invalidate_lock(inode->i_mapping);
		if (attr->ia_size < i_size_read(inode)) {
			mfs_unmap(mfs_inode(inode), attr->ia_size >> PAGE_SHIFT, 0);
			err = mfs_punch(mfs_inode(inode),
					attr->ia_size >> PAGE_SHIFT, ULONG_MAX);
			if (err == -EBUSY)	/* it is cleared */
				err = 0;
			if (err == -EALREADY)
				err = -ENOSPC;
			/* Private copies, too; faults that made them are over. */
			unmap_mapping_range(inode->i_mapping, attr->ia_size, 0, 1);
		}
		if (!err)
			i_size_write(inode, attr->ia_size);
		filemap_invalidate_unlock(inode->i_mapping);
		if (err)
			return err;
	}
	setattr_copy(idmap, inode, attr);
	return 0;
}

static const struct inode_operations mfs_file_inode_operations = {
	.setattr	= mfs_setattr,
	.getattr	= simple_getattr,
};

static const struct inode_operations mfs_dir_inode_operations;

static struct inode *mfs_new_inode(struct super_block *sb, struct mnt_idmap *idmap,
				   struct inode *dir, umode_t mode)
{
	struct mfs_super *super = mfs_super(sb);
	struct inode *inode;

	if (!S_ISDIR(mode) && !mfs_count_file(super))
		return NULL;
	inode = new_inode(sb);
	if (!inode) {
		if (!S_ISDIR(mode))
			atomic_long_dec(&super->files);
		return NULL;
	}
	inode->i_ino = get_next_ino();
	inode_init_owner(idmap, inode, dir, mode);
	simple_inode_init_ts(inode);
	/* A directory's lock is outside of mmap_lock, a file's inside. */
	lockdep_annotate_inode_mutex_key(inode);
	if (S_ISDIR(mode)) {
		inode->i_op = &mfs_dir_inode_operations;
		inode->i_fop = &simple_dir_operations;
		inc_nlink(inode);
	} else {
		inode->i_op = &mfs_file_inode_operations;
		inode->i_fop = &mfs_file_operations;
		inode->i_mapping->a_ops = &mfs_aops;
		mfs_hand_add(mfs_inode(inode));
	}
	return inode;
}

/* The directory: there is one, and it has files */

static int mfs_create(struct mnt_idmap *idmap, struct inode *dir,
		      struct dentry *dentry, umode_t mode, bool excl)
{
	struct inode *inode = mfs_new_inode(dir->i_sb, idmap, dir, mode | S_IFREG);

	if (!inode)
		return -ENOSPC;
	fbmm_name(dentry, inode);
	inode_set_mtime_to_ts(dir, inode_set_ctime_current(dir));
	return 0;
}

static int mfs_tmpfile(struct mnt_idmap *idmap, struct inode *dir,
		       struct file *file, umode_t mode)
{
	struct inode *inode = mfs_new_inode(dir->i_sb, idmap, dir, mode);

	if (!inode)
		return finish_open_simple(file, -ENOSPC);
	d_tmpfile(file, inode);
	return finish_open_simple(file, 0);
}

static const struct inode_operations mfs_dir_inode_operations = {
	.create		= mfs_create,
	.lookup		= simple_lookup,
	.tmpfile	= mfs_tmpfile,
	.unlink		= simple_unlink,
};

/* The superblock */

/* What there is, without the swap file: all 0 where nothing is set aside, or is limited. */
void mfs_stock(struct mfs_super *super, struct kstatfs *stat)
{
	const unsigned long used = atomic_long_read(&super->used);

	if (super->ops->statfs) {
		super->ops->statfs(super, stat);
		return;
	}
	stat->f_blocks = super->limit;
	stat->f_bfree = super->limit - min(used, super->limit);
	stat->f_bavail = stat->f_bfree;
}

static int mfs_statfs(struct dentry *dentry, struct kstatfs *stat)
{
	struct mfs_super *super = mfs_super(dentry->d_sb);

	stat->f_type = MFS_MAGIC;
	stat->f_bsize = PAGE_SIZE;
	stat->f_namelen = NAME_MAX;
	mfs_stock(super, stat);
	if (super->swap)
		mfs_swap_statfs(super, stat);
	return 0;
}

static int mfs_show_options(struct seq_file *seq, struct dentry *root)
{
	struct mfs_super *super = mfs_super(root->d_sb);

	if (super->ops->show_options)
		super->ops->show_options(super, seq);
	if (super->limit)
		seq_printf(seq, ",size=%luK", super->limit << (PAGE_SHIFT - 10));
	if (super->swap)
		mfs_swap_show_options(super, seq);
	return 0;
}

static const struct super_operations mfs_super_operations = {
	.alloc_inode	= mfs_alloc_inode,
	.free_inode	= mfs_free_inode,
	.drop_inode	= fbmm_drop_inode,
	.evict_inode	= mfs_evict_inode,
	.statfs		= mfs_statfs,
	.show_options	= mfs_show_options,
};

static void mfs_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct mfs_super, kobj));
}

static ssize_t used_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	struct mfs_super *super = container_of(kobj, struct mfs_super, kobj);

	return sysfs_emit(buf, "%ld\n", atomic_long_read(&super->used));
}
static struct kobj_attribute used_attr = __ATTR_RO(used);

static struct attribute *mfs_attrs[] = {
	&used_attr.attr,
	NULL
};
ATTRIBUTE_GROUPS(mfs);

static const struct kobj_type mfs_ktype = {
	.sysfs_ops	= &kobj_sysfs_ops,
	.release	= mfs_release,
	.default_groups	= mfs_groups,
};

static int mfs_fill_super(struct super_block *sb, struct fs_context *fc)
{
	struct mfs_type *type = mfs_type(fc);
	const struct mfs_ops *ops = type->ops;
	struct mfs_super *super = kzalloc(ops->super_size, GFP_KERNEL);
	struct inode *root;
	int err;

	if (!super)
		return -ENOMEM;
	super->ops = ops;
	super->sb = sb;
	super->max_pages = 1;
	mfs_hand_init(super);
	super->kobj.kset = type->kset;
	kobject_init(&super->kobj, &mfs_ktype);
	sb->s_fs_info = super;
	sb->s_magic = MFS_MAGIC;
	sb->s_op = &mfs_super_operations;
	sb->s_maxbytes = MAX_LFS_FILESIZE;
	sb->s_blocksize = PAGE_SIZE;
	sb->s_blocksize_bits = PAGE_SHIFT;
	sb->s_time_gran = 1;
	super->limit = mfs_options(fc)->limit;
	/* What follows is undone in mfs_kill_sb() also where it fails. */

	if (ops->fill) {
		err = ops->fill(super, fc);
		if (err)
			return err;
	}
	if (mfs_options(fc)->swap) {
		err = mfs_swap_open(super, fc, mfs_options(fc)->swap);
		if (err)
			return err;
	}
	err = kobject_add(&super->kobj, NULL, "%u", MINOR(sb->s_dev));
	if (!err && ops->group)
		err = sysfs_create_group(&super->kobj, ops->group);
	if (!err && super->swap)
		err = sysfs_create_group(&super->kobj, &mfs_swap_group);
	if (err)
		return err;

	root = mfs_new_inode(sb, &nop_mnt_idmap, NULL, S_IFDIR | S_ISVTX | 0777);
	sb->s_root = d_make_root(root);
	return sb->s_root ? 0 : -ENOMEM;
}

static void mfs_kill_sb(struct super_block *sb)
{
	struct mfs_super *super = mfs_super(sb);

	/* The kobject's files use what drain takes away. */
	if (super && super->kobj.state_in_sysfs)
		kobject_del(&super->kobj);
	if (super && super->ops->unmount)
		super->ops->unmount(super);
	if (super)
		mfs_swap_stop(super);
	fbmm_kill_super(sb);
	if (!super)
		return;
	WARN_ON_ONCE(atomic_long_read(&super->used));
	mfs_swap_close(super);
	if (super->ops->drain)
		super->ops->drain(super);
	kobject_put(&super->kobj);
}

enum { Opt_size, Opt_swap };

static const struct fs_parameter_spec mfs_parameters[] = {
	fsparam_string("size", Opt_size),
	fsparam_string("swap", Opt_swap),
	{}
};

static int mfs_parse_own(struct fs_context *fc, struct fs_parameter *param)
{
	struct mfs_options *options = mfs_options(fc);
	struct fs_parse_result result;
	int opt = fs_parse(fc, mfs_parameters, param, &result);

	switch (opt) {
	case Opt_size:
		if (mfs_type(fc)->ops->statfs)
			return -ENOPARAM;	/* it knows itself how much there is */
		if (mfs_parse_size(param->string, &options->limit))
			return invalfc(fc, "size=%s is no amount of memory",
				       param->string);
		return 0;
	case Opt_swap:
		kfree(options->swap);
		options->swap = param->string;
		param->string = NULL;
		return 0;
	default:
		return opt;
	}
}

static int mfs_parse_param(struct fs_context *fc, struct fs_parameter *param)
{
	const struct mfs_ops *ops = mfs_type(fc)->ops;
	int ret = ops->parse ? ops->parse(fc, param) : -ENOPARAM;

	return ret == -ENOPARAM ? mfs_parse_own(fc, param) : ret;
}

static int mfs_get_tree(struct fs_context *fc)
{
	return get_tree_nodev(fc, mfs_fill_super);
}

static void mfs_free_fc(struct fs_context *fc)
{
	if (mfs_type(fc)->ops->free_options)
		mfs_type(fc)->ops->free_options(fc);
	kfree(mfs_options(fc)->swap);
	kfree(fc->fs_private);
}

static const struct fs_context_operations mfs_context_operations = {
	.parse_param	= mfs_parse_param,
	.get_tree	= mfs_get_tree,
	.free		= mfs_free_fc,
};

static int mfs_init_fs_context(struct fs_context *fc)
{
	fc->fs_private = kzalloc(mfs_options_offset(mfs_type(fc)->ops) +
				 sizeof(struct mfs_options), GFP_KERNEL);
	if (!fc->fs_private)
		return -ENOMEM;
	fc->ops = &mfs_context_operations;
	return 0;
}

/**
 * mfs_register - make a memory file system known to mount
 * @type: fs.name, fs.owner and ops are set; fs.fs_flags may have FS_MEMORY_EAGER
 *
 * Return: 0 or an error.
 */
int mfs_register(struct mfs_type *type)
{
	int err;

	type->fs.init_fs_context = mfs_init_fs_context;
	type->fs.kill_sb = mfs_kill_sb;
	type->fs.fs_flags |= FS_MEMORY;
	type->kset = kset_create_and_add(type->fs.name, NULL, fs_kobj);
	if (!type->kset)
		return -ENOMEM;
	err = register_filesystem(&type->fs);
	if (err)
		kset_unregister(type->kset);
	return err;
}
EXPORT_SYMBOL_GPL(mfs_register);

/**
 * mfs_unregister - the opposite of mfs_register()
 * @type: as registered; nothing of it is mounted
 */
void mfs_unregister(struct mfs_type *type)
{
	unregister_filesystem(&type->fs);
	kset_unregister(type->kset);
}
EXPORT_SYMBOL_GPL(mfs_unregister);

/**
 * mfs_parse_size - an amount of memory, as given by an option
 * @text: a number with a suffix such as M or G, or a percentage of all memory
 * @pages: what it comes to
 *
 * Return: 0, or -EINVAL.
 */
int mfs_parse_size(const char *text, unsigned long *pages)
{
	char *end;
	unsigned long long value = memparse(text, &end);

	if (end == text)
		return -EINVAL;
	if (*end == '%') {
		if (value > 100)
			return -EINVAL;
		*pages = mult_frac(totalram_pages(), (unsigned long)value, 100UL);
		end++;
	} else {
		*pages = value >> PAGE_SHIFT;
	}
	return *end || !*pages ? -EINVAL : 0;
}
EXPORT_SYMBOL_GPL(mfs_parse_size);

static int __init mfs_init(void)
{
	mfs_inode_cache = kmem_cache_create("mfs_inode_cache",
					    sizeof(struct mfs_inode), 0,
					    SLAB_ACCOUNT | SLAB_RECLAIM_ACCOUNT,
					    mfs_init_inode_once);
	return mfs_inode_cache ? 0 : -ENOMEM;
}
module_init(mfs_init);

static void __exit mfs_exit(void)
{
	rcu_barrier();		/* inodes are freed after a grace period */
	kmem_cache_destroy(mfs_inode_cache);
}
module_exit(mfs_exit);

MODULE_DESCRIPTION("What memory file systems share");
MODULE_LICENSE("GPL");
