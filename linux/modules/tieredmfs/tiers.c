// SPDX-License-Identifier: GPL-2.0
/*
 * tieredmfs: two pools of memory, a fast local one and a slow remote one, and a
 * thread that keeps what is used in the fast one (FBMM paper, section 5.1, after
 * Transparent Page Placement).
 *
 *	mount -t tieredmfs -o local=1G,remote=4G[,local_node=0,remote_node=1][,huge]
 *		[,swap=FILE] none DIR
 *
 * Each pool has a list of hot and one of cold folios: base pages and, with huge,
 * pieces of 2 MB. New ones are hot until a window says otherwise, and local while more
 * than alloc_threshold pages are free there. What several files share after fork() is in
 * no list, and looked at by its files. /sys/fs/tieredmfs/MINOR has the settings and counters.
 */
#include <linux/kthread.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "tiered.h"
#include "window.h"

struct tiered_options {
	unsigned long pages[NR_TIERS];
	int node[NR_TIERS];
	bool node_given[NR_TIERS];
	bool huge;
};

static struct tiered *tiered(struct mfs_super *super)
{
	return container_of(super, struct tiered, super);
}

static struct tiered *tiered_of(struct kobject *kobj)
{
	return tiered(container_of(kobj, struct mfs_super, kobj));
}

/* The lists */

void tiered_add(struct tiered *t, struct folio *folio, bool hot, unsigned int doubts)
{
	struct tier *tier = tier_of(t, folio);

	lockdep_assert_held(&t->lock);
	tiered_mark(folio, hot, doubts);
	if (doubts)
		list_add_tail(&folio->lru, &tier->list[hot]);
	else
		list_add(&folio->lru, &tier->list[hot]);
	tier->nr_pages[hot] += folio_nr_pages(folio);
}

void tiered_del(struct tiered *t, struct folio *folio)
{
	struct tier *tier = tier_of(t, folio);

	lockdep_assert_held(&t->lock);
	list_del_init(&folio->lru);
	tier->nr_pages[folio_test_active(folio)] -= folio_nr_pages(folio);
}

static void tiered_added(struct mfs_super *super, struct folio *folio)
{
	struct tiered *t = tiered(super);

	spin_lock(&t->lock);
	tiered_add(t, folio, folio_test_active(folio), tiered_doubts(folio));
	spin_unlock(&t->lock);
}

static void tiered_removing(struct mfs_super *super, struct folio *folio)
{
	struct tiered *t = tiered(super);

	spin_lock(&t->lock);
	tiered_del(t, folio);
	/* Should others have it from now on */
	tiered_mark_shared(folio, folio_test_active(folio), folio_test_active(folio),
			   t->turn & 1);
	spin_unlock(&t->lock);
}

/* Pages */

static struct page *tiered_get(struct tiered *t, unsigned int order)
{
	const bool local = tier_free(&t->tier[LOCAL]) > tiered_alloc_above(t);
	struct page *page = tier_get(&t->tier[local ? LOCAL : REMOTE], order);

	return page ? page : tier_get(&t->tier[local ? REMOTE : LOCAL], order);
}

static int tiered_alloc(struct mfs_super *super, struct mfs_run *run)
{
	run->page = tiered_get(tiered(super), run->order);
	if (!run->page && run->order) {
		run->order = 0;
		run->page = tiered_get(tiered(super), 0);
	}
	if (!run->page)
		return -ENOSPC;
	run->nr = 1UL << run->order;
	atomic_long_add(run->nr, &tiered(super)->asked);
	INIT_LIST_HEAD(&page_folio(run->page)->lru);
	tiered_mark(page_folio(run->page), true, TIERED_SURE - 1);
	return 0;
}

static void tiered_free(struct mfs_super *super, struct folio *folio)
{
	tier_put(tier_of(tiered(super), folio), folio);
}

/* What is cold and remote already goes before all else. */
static bool tiered_swap_first(struct mfs_super *super, struct folio *folio)
{
	struct tiered *t = tiered(super);

	return tier_of(t, folio) == &t->tier[REMOTE] && !folio_test_active(folio);
}

/* The pages are in the tier's pool from now on. */
static void tiered_split(struct mfs_super *super, struct page *pages, unsigned int order)
{
	struct mfs_pool *pool = &tier_of(tiered(super), page_folio(pages))->pool;

	spin_lock(&pool->lock);
	pool->nr += 1UL << order;
	spin_unlock(&pool->lock);
}

/* Mounting */

enum { Opt_local, Opt_remote, Opt_local_node, Opt_remote_node, Opt_huge };

static const struct fs_parameter_spec tiered_parameters[] = {
	fsparam_string("local", Opt_local),
	fsparam_string("remote", Opt_remote),
	fsparam_u32("local_node", Opt_local_node),
	fsparam_u32("remote_node", Opt_remote_node),
	fsparam_flag("huge", Opt_huge),
	{}
};

static int tiered_parse(struct fs_context *fc, struct fs_parameter *param)
{
	struct tiered_options *options = fc->fs_private;
	struct fs_parse_result result;
	int tier, opt = fs_parse(fc, tiered_parameters, param, &result);

	if (opt < 0)
		return opt;
	if (opt == Opt_huge) {
		options->huge = true;
		return 0;
	}
	tier = opt == Opt_local || opt == Opt_local_node ? LOCAL : REMOTE;
	if (opt == Opt_local || opt == Opt_remote) {
		if (mfs_parse_size(param->string, &options->pages[tier]))
			return invalfc(fc, "%s=%s is no amount of memory",
				       param->key, param->string);
		return 0;
	}
	if (result.uint_32 >= MAX_NUMNODES || !node_state(result.uint_32, N_MEMORY))
		return invalfc(fc, "%s=%u: no such node with memory", param->key,
			       result.uint_32);
	options->node[tier] = result.uint_32;
	options->node_given[tier] = true;
	return 0;
}

static void tiered_init_tier(struct tier *tier, int node)
{
	mfs_pool_init(&tier->pool, node);
	INIT_LIST_HEAD(&tier->pieces);
	INIT_LIST_HEAD(&tier->list[COLD]);
	INIT_LIST_HEAD(&tier->list[HOT]);
	INIT_LIST_HEAD(&tier->watched);
	INIT_LIST_HEAD(&tier->found[false]);
	INIT_LIST_HEAD(&tier->found[true]);
}

static int tiered_fill(struct mfs_super *super, struct fs_context *fc)
{
	struct tiered_options *options = fc->fs_private;
	struct tiered *t = tiered(super);
	int tier, err;

	spin_lock_init(&t->lock);
	if (!options->node_given[LOCAL])
		options->node[LOCAL] = first_memory_node;
	if (!options->node_given[REMOTE])
		options->node[REMOTE] = next_memory_node(options->node[LOCAL]);
	for (tier = 0; tier < NR_TIERS; tier++)
		tiered_init_tier(&t->tier[tier], options->node[tier]);
	if (!options->pages[LOCAL] || !options->pages[REMOTE])
		return invalfc(fc, "local and remote are both needed");
	if (options->node[REMOTE] >= MAX_NUMNODES ||
	    options->node[LOCAL] == options->node[REMOTE])
		return invalfc(fc, "two different nodes with memory are needed");
	if (options->huge && !has_transparent_hugepage())
		return invalfc(fc, "huge: this machine has no huge pages");

	super->max_order = options->huge ? PMD_ORDER : 0;
	for (tier = 0; tier < NR_TIERS; tier++) {
		err = tier_fill(&t->tier[tier], options->pages[tier], options->huge);
		if (err)
			return err;
	}
	t->alloc_threshold = options->pages[LOCAL] / 50;
	t->reclaim_threshold = options->pages[LOCAL] / 20;
	t->keep = TIERED_KEEP_ALL;
	t->interval = 500;
	t->share = 25;
	return tiered_start(t);
}

static void tiered_unmount(struct mfs_super *super)
{
	if (tiered(super)->thread)
		kthread_stop(tiered(super)->thread);
}

static void tiered_drain(struct mfs_super *super)
{
	tier_drain(&tiered(super)->tier[LOCAL]);
	tier_drain(&tiered(super)->tier[REMOTE]);
}

static void tiered_statfs(struct mfs_super *super, struct kstatfs *stat)
{
	struct tier *tier = tiered(super)->tier;

	stat->f_blocks = tier[LOCAL].nr + tier[REMOTE].nr;
	stat->f_bfree = tier_free(&tier[LOCAL]) + tier_free(&tier[REMOTE]);
	stat->f_bavail = stat->f_bfree;
}

static void tiered_show_options(struct mfs_super *super, struct seq_file *seq)
{
	const struct tier *tier = tiered(super)->tier;

	seq_printf(seq, ",local=%luK,remote=%luK,local_node=%d,remote_node=%d%s",
		   tier[LOCAL].nr << (PAGE_SHIFT - 10),
		   tier[REMOTE].nr << (PAGE_SHIFT - 10),
		   tier[LOCAL].pool.node, tier[REMOTE].pool.node,
		   super->max_order ? ",huge" : "");
}

/* sysfs */

#define TIERED_SETTING(_name, _min, _max)					\
static ssize_t _name##_show(struct kobject *kobj, struct kobj_attribute *attr,	\
			    char *buf)						\
{										\
	return sysfs_emit(buf, "%lu\n", READ_ONCE(tiered_of(kobj)->_name));	\
}										\
										\
static ssize_t _name##_store(struct kobject *kobj, struct kobj_attribute *attr,	\
			     const char *buf, size_t count)			\
{										\
	unsigned long value;							\
	int err = kstrtoul(buf, 10, &value);					\
										\
	if (err)								\
		return err;							\
	if (value < (_min) || value > (_max))					\
		return -EINVAL;							\
	WRITE_ONCE(tiered_of(kobj)->_name, value);				\
	return count;								\
}										\
static struct kobj_attribute _name##_attr = __ATTR_RW(_name)

TIERED_SETTING(alloc_threshold, 0, LONG_MAX);
TIERED_SETTING(reclaim_threshold, 0, LONG_MAX);
TIERED_SETTING(interval, 1, 60 * MSEC_PER_SEC);
TIERED_SETTING(share, 1, 100);

#define TIERED_COUNTER(_name, _value)						\
static ssize_t _name##_show(struct kobject *kobj, struct kobj_attribute *attr,	\
			    char *buf)						\
{										\
	struct tiered *t = tiered_of(kobj);					\
										\
	return sysfs_emit(buf, "%lu\n", (unsigned long)(_value));		\
}										\
static struct kobj_attribute _name##_attr = __ATTR_RO(_name)

TIERED_COUNTER(local_free, tier_free(&t->tier[LOCAL]));
TIERED_COUNTER(remote_free, tier_free(&t->tier[REMOTE]));
TIERED_COUNTER(local_pieces, READ_ONCE(t->tier[LOCAL].nr_pieces));
TIERED_COUNTER(remote_pieces, READ_ONCE(t->tier[REMOTE].nr_pieces));
TIERED_COUNTER(local_hot, READ_ONCE(t->tier[LOCAL].nr_pages[HOT]));
TIERED_COUNTER(local_cold, READ_ONCE(t->tier[LOCAL].nr_pages[COLD]));
TIERED_COUNTER(remote_hot, READ_ONCE(t->tier[REMOTE].nr_pages[HOT]));
TIERED_COUNTER(remote_cold, READ_ONCE(t->tier[REMOTE].nr_pages[COLD]));
TIERED_COUNTER(window, READ_ONCE(t->window) / NSEC_PER_USEC);
TIERED_COUNTER(demoted, atomic_long_read(&t->demoted));
TIERED_COUNTER(promoted, atomic_long_read(&t->promoted));
TIERED_COUNTER(failed, atomic_long_read(&t->failed));

static struct attribute *tiered_attrs[] = {
	&alloc_threshold_attr.attr,
	&reclaim_threshold_attr.attr,
	&interval_attr.attr,
	&share_attr.attr,
	&local_free_attr.attr,
	&remote_free_attr.attr,
	&local_pieces_attr.attr,
	&remote_pieces_attr.attr,
	&local_hot_attr.attr,
	&local_cold_attr.attr,
	&remote_hot_attr.attr,
	&remote_cold_attr.attr,
	&window_attr.attr,
	&demoted_attr.attr,
	&promoted_attr.attr,
	&failed_attr.attr,
	NULL
};

static const struct attribute_group tiered_group = {
	.attrs = tiered_attrs,
};

static const struct mfs_ops tiered_ops = {
	.super_size	= sizeof(struct tiered),
	.options_size	= sizeof(struct tiered_options),
	.parse		= tiered_parse,
	.fill		= tiered_fill,
	.unmount	= tiered_unmount,
	.drain		= tiered_drain,
	.alloc		= tiered_alloc,
	.free		= tiered_free,
	.added		= tiered_added,
	.removing	= tiered_removing,
	.swap_first	= tiered_swap_first,
	.split		= tiered_split,
	.shared		= tiered_shared,
	.statfs		= tiered_statfs,
	.show_options	= tiered_show_options,
	.group		= &tiered_group,
};

static struct mfs_type tieredmfs = {
	.fs.name	= "tieredmfs",
	.fs.owner	= THIS_MODULE,
	.ops		= &tiered_ops,
};
mfs_module(tieredmfs);

MODULE_DESCRIPTION("Memory file system with a fast and a slow tier");
MODULE_LICENSE("GPL");
