// SPDX-License-Identifier: GPL-2.0
/*
 * basicmfs: base pages from a list filled at mount. The least a memory manager
 * does, to measure what the way through files costs (FBMM paper, section 4).
 *
 *	mount -t basicmfs -o size=512M[,shrink][,swap=FILE] none DIR
 *
 * With shrink, free pages go back to the kernel when it is short of memory, and
 * come from it again when they are needed and it has any.
 */
#include <linux/seq_file.h>

#include "mfs.h"

struct basic {
	struct mfs_super super;
	struct mfs_pool pool;
	bool shrink;
};

struct basic_options {
	unsigned long pages;
	bool shrink;
};

enum { Opt_size, Opt_shrink };

static const struct fs_parameter_spec basic_parameters[] = {
	fsparam_string("size", Opt_size),
	fsparam_flag("shrink", Opt_shrink),
	{}
};

static struct basic *basic(struct mfs_super *super)
{
	return container_of(super, struct basic, super);
}

static int basic_parse(struct fs_context *fc, struct fs_parameter *param)
{
	struct basic_options *options = fc->fs_private;
	struct fs_parse_result result;
	int opt = fs_parse(fc, basic_parameters, param, &result);

	switch (opt) {
	case Opt_size:
		if (mfs_parse_size(param->string, &options->pages))
			return invalfc(fc, "size=%s is no amount of memory",
				       param->string);
		return 0;
	case Opt_shrink:
		options->shrink = true;
		return 0;
	default:
		return opt;
	}
}

static int basic_fill(struct mfs_super *super, struct fs_context *fc)
{
	const struct basic_options *options = fc->fs_private;
	struct mfs_pool *pool = &basic(super)->pool;
	int err;

	mfs_pool_init(pool, NUMA_NO_NODE);
	if (!options->pages)
		return invalfc(fc, "size is missing");
	err = mfs_pool_fill(pool, options->pages);
	if (!err && options->shrink) {
		basic(super)->shrink = true;
		err = mfs_pool_shrink(pool, "basicmfs");
	}
	return err;
}

static void basic_drain(struct mfs_super *super)
{
	mfs_pool_drain(&basic(super)->pool);
}

static int basic_alloc(struct mfs_super *super, struct mfs_run *run)
{
	run->page = mfs_pool_get(&basic(super)->pool);
	run->nr = 1;
	run->order = 0;
	return run->page ? 0 : -ENOSPC;
}

static void basic_free_batch(struct mfs_super *super, struct folio_batch *folios)
{
	mfs_pool_put_batch(&basic(super)->pool, folios);
}

static void basic_statfs(struct mfs_super *super, struct kstatfs *stat)
{
	const struct mfs_pool *pool = &basic(super)->pool;

	stat->f_blocks = pool->nr;
	stat->f_bfree = pool->nr_free + pool->missing;
	stat->f_bavail = pool->nr_free;
}

static void basic_show_options(struct mfs_super *super, struct seq_file *seq)
{
	seq_printf(seq, ",size=%luK", basic(super)->pool.nr << (PAGE_SHIFT - 10));
	if (basic(super)->shrink)
		seq_puts(seq, ",shrink");
}

static const struct mfs_ops basic_ops = {
	.super_size	= sizeof(struct basic),
	.options_size	= sizeof(struct basic_options),
	.parse		= basic_parse,
	.fill		= basic_fill,
	.drain		= basic_drain,
	.alloc		= basic_alloc,
	.free_batch	= basic_free_batch,
	.statfs		= basic_statfs,
	.show_options	= basic_show_options,
};

static struct mfs_type basicmfs = {
	.fs.name	= "basicmfs",
	.fs.owner	= THIS_MODULE,
	.ops		= &basic_ops,
};
mfs_module(basicmfs);

MODULE_DESCRIPTION("Memory file system with a list of base pages");
MODULE_LICENSE("GPL");
