// SPDX-License-Identifier: GPL-2.0
/*
 * tieredmfs: two pools of memory, a fast local one and a slow remote one, and a
 * thread that keeps what is used in the fast one (FBMM paper, section 5.1, after
 * Transparent Page Placement).
 *
 *	mount -t tieredmfs -o local=1G,remote=4G[,local_node=0,remote_node=1] none DIR
 *
 * Each pool has a list of hot and one of cold pages. New pages are hot, and local
 * while more than alloc_threshold pages are free there. The thread looks at the
 * accessed bits of some pages of each list; while less than reclaim_threshold
 * pages are free locally, the coldest go to the remote pool, and while more than
 * alloc_threshold are, hot remote pages come back. /sys/fs/tieredmfs/MINOR has the
 * settings and counters.
 *
 * A page's pool is that of its node, and it is hot if it is marked active. Pages
 * that several files share after fork() are in no list and stay where they are.
 */
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "mfs.h"

enum { LOCAL, REMOTE, NR_TIERS };
enum { COLD, HOT, NR_HEATS };

struct tier {
	struct mfs_pool pool;
	struct list_head list[NR_HEATS];	/* the most recently used first */
	unsigned long nr[NR_HEATS];
};

struct tiered {
	struct mfs_super super;
	spinlock_t lock;			/* for the lists */
	struct tier tier[NR_TIERS];
	struct task_struct *thread;

	/* Settings: pages, pages, milliseconds, pages of a list at a time */
	unsigned long alloc_threshold;
	unsigned long reclaim_threshold;
	unsigned long interval;
	unsigned long scan;

	atomic_long_t demoted, promoted, failed;
};

struct tiered_options {
	unsigned long pages[NR_TIERS];
	int node[NR_TIERS];
	bool node_given[NR_TIERS];
};

static struct tiered *tiered(struct mfs_super *super)
{
	return container_of(super, struct tiered, super);
}

static struct tiered *tiered_of(struct kobject *kobj)
{
	return tiered(container_of(kobj, struct mfs_super, kobj));
}

static struct tier *tier_of(struct tiered *t, struct folio *folio)
{
	return &t->tier[folio_nid(folio) == t->tier[LOCAL].pool.node ? LOCAL : REMOTE];
}

static unsigned long tier_free(struct tier *tier)
{
	return READ_ONCE(tier->pool.nr_free);
}

/* The lists */

static void tier_add(struct tiered *t, struct folio *folio, bool hot)
{
	struct tier *tier = tier_of(t, folio);

	lockdep_assert_held(&t->lock);
	if (hot)
		folio_set_active(folio);
	else
		folio_clear_active(folio);
	list_add(&folio->lru, &tier->list[hot]);
	tier->nr[hot]++;
}

static void tier_del(struct tiered *t, struct folio *folio)
{
	struct tier *tier = tier_of(t, folio);

	lockdep_assert_held(&t->lock);
	list_del_init(&folio->lru);
	tier->nr[folio_test_active(folio)]--;
}

static void tiered_added(struct mfs_super *super, struct folio *folio)
{
	struct tiered *t = tiered(super);

	spin_lock(&t->lock);
	tier_add(t, folio, folio_test_active(folio));
	spin_unlock(&t->lock);
}

static void tiered_removing(struct mfs_super *super, struct folio *folio)
{
	struct tiered *t = tiered(super);

	spin_lock(&t->lock);
	tier_del(t, folio);
	spin_unlock(&t->lock);
}

/* Pages */

static int tiered_alloc(struct mfs_super *super, struct mfs_run *run)
{
	struct tiered *t = tiered(super);
	const bool local = tier_free(&t->tier[LOCAL]) > READ_ONCE(t->alloc_threshold);

	run->page = mfs_pool_get(&t->tier[local ? LOCAL : REMOTE].pool);
	if (!run->page)
		run->page = mfs_pool_get(&t->tier[local ? REMOTE : LOCAL].pool);
	if (!run->page)
		return -ENOSPC;
	run->nr = 1;
	run->order = 0;
	INIT_LIST_HEAD(&page_folio(run->page)->lru);
	folio_set_active(page_folio(run->page));
	return 0;
}

static void tiered_free(struct mfs_super *super, struct folio *folio)
{
	mfs_pool_put(&tier_of(tiered(super), folio)->pool, folio);
}

/* The thread */

/*
 * The least recently used folio of a list, put to its front, so that the next
 * call gives another. It has a reference and may have left the list.
 */
static struct folio *tiered_take(struct tiered *t, int tier, int heat)
{
	struct list_head *list = &t->tier[tier].list[heat];
	struct folio *folio = NULL;

	spin_lock(&t->lock);
	if (!list_empty(list)) {
		folio = list_last_entry(list, struct folio, lru);
		list_move(&folio->lru, list);
		folio_get(folio);
	}
	spin_unlock(&t->lock);
	return folio;
}

/* A cold page becomes hot when it was used in two rounds, a hot one cold at once. */
static bool tiered_is_hot(struct folio *folio, bool used)
{
	const bool before = folio_test_referenced(folio);

	if (used)
		folio_set_referenced(folio);
	else
		folio_clear_referenced(folio);
	return used && (before || folio_test_active(folio));
}

static void tiered_sort(struct tiered *t, struct folio *folio)
{
	bool hot;

	if (!folio_trylock(folio))
		return;
	if (folio->mapping) {
		hot = tiered_is_hot(folio, fbmm_clear_accessed(folio));
		spin_lock(&t->lock);
		if (!list_empty(&folio->lru) && hot != folio_test_active(folio)) {
			tier_del(t, folio);
			tier_add(t, folio, hot);
		}
		spin_unlock(&t->lock);
	}
	folio_unlock(folio);
}

static void tiered_scan(struct tiered *t)
{
	struct folio *folio;
	int tier, heat;
	unsigned long nr;

	for (tier = 0; tier < NR_TIERS; tier++) {
		for (heat = 0; heat < NR_HEATS; heat++) {
			nr = min(READ_ONCE(t->tier[tier].nr[heat]), READ_ONCE(t->scan));
			while (nr-- && !kthread_should_stop()) {
				folio = tiered_take(t, tier, heat);
				if (!folio)
					break;
				tiered_sort(t, folio);
				folio_put(folio);
				cond_resched();
			}
		}
	}
	fbmm_flush_accessed();
}

/* Move the coldest, or the hottest, folio of a tier to the other. */
static bool tiered_move(struct tiered *t, int from, int heat)
{
	struct mfs_pool *pool = &t->tier[!from].pool;
	struct folio *folio, *target;
	struct page *page;
	int err;

	folio = tiered_take(t, from, heat);
	if (!folio)
		return false;
	page = mfs_pool_get(pool);
	if (!page) {
		folio_put(folio);
		return false;
	}
	target = page_folio(page);
	INIT_LIST_HEAD(&target->lru);
	if (heat == HOT)
		folio_set_active(target);
	err = mfs_migrate(&t->super, folio, target);
	if (err) {
		mfs_pool_put(pool, target);
		folio_put(folio);
		atomic_long_inc(&t->failed);
		return true;
	}
	mfs_pool_put(&t->tier[from].pool, folio);
	atomic_long_inc(from == LOCAL ? &t->demoted : &t->promoted);
	return true;
}

/* Each hot remote page at most once: one that cannot move comes up again. */
static void tiered_balance(struct tiered *t)
{
	struct tier *local = &t->tier[LOCAL];
	unsigned long nr = READ_ONCE(t->tier[REMOTE].nr[HOT]);
	unsigned long cold;

	do {
		cold = READ_ONCE(local->nr[COLD]);
		while (cold-- && tier_free(local) < READ_ONCE(t->reclaim_threshold) &&
		       !kthread_should_stop() && tiered_move(t, LOCAL, COLD))
			cond_resched();
		if (tier_free(local) <= READ_ONCE(t->alloc_threshold))
			break;
		while (nr && tier_free(local) > READ_ONCE(t->alloc_threshold) &&
		       !kthread_should_stop() && tiered_move(t, REMOTE, HOT)) {
			nr--;
			cond_resched();
		}
	} while (nr && !kthread_should_stop() && READ_ONCE(t->tier[REMOTE].nr[HOT]));
}

static int tiered_thread(void *data)
{
	struct tiered *t = data;

	set_freezable();
	while (!kthread_should_stop()) {
		schedule_timeout_interruptible(msecs_to_jiffies(READ_ONCE(t->interval)));
		try_to_freeze();
		tiered_scan(t);
		tiered_balance(t);
	}
	return 0;
}

/* Mounting */

enum { Opt_local, Opt_remote, Opt_local_node, Opt_remote_node };

static const struct fs_parameter_spec tiered_parameters[] = {
	fsparam_string("local", Opt_local),
	fsparam_string("remote", Opt_remote),
	fsparam_u32("local_node", Opt_local_node),
	fsparam_u32("remote_node", Opt_remote_node),
	{}
};

static int tiered_parse(struct fs_context *fc, struct fs_parameter *param)
{
	struct tiered_options *options = fc->fs_private;
	struct fs_parse_result result;
	int tier, opt = fs_parse(fc, tiered_parameters, param, &result);

	if (opt < 0)
		return opt;
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

static int tiered_fill(struct mfs_super *super, struct fs_context *fc)
{
	struct tiered_options *options = fc->fs_private;
	struct tiered *t = tiered(super);
	struct task_struct *thread;
	int tier, err;

	spin_lock_init(&t->lock);
	if (!options->node_given[LOCAL])
		options->node[LOCAL] = first_memory_node;
	if (!options->node_given[REMOTE])
		options->node[REMOTE] = next_memory_node(options->node[LOCAL]);
	for (tier = 0; tier < NR_TIERS; tier++) {
		mfs_pool_init(&t->tier[tier].pool, options->node[tier]);
		INIT_LIST_HEAD(&t->tier[tier].list[COLD]);
		INIT_LIST_HEAD(&t->tier[tier].list[HOT]);
	}
	if (!options->pages[LOCAL] || !options->pages[REMOTE])
		return invalfc(fc, "local and remote are both needed");
	if (options->node[REMOTE] >= MAX_NUMNODES ||
	    options->node[LOCAL] == options->node[REMOTE])
		return invalfc(fc, "two different nodes with memory are needed");

	for (tier = 0; tier < NR_TIERS; tier++) {
		err = mfs_pool_fill(&t->tier[tier].pool, options->pages[tier]);
		if (err)
			return err;
	}
	t->alloc_threshold = options->pages[LOCAL] / 50;
	t->reclaim_threshold = options->pages[LOCAL] / 20;
	t->interval = 100;
	t->scan = 32768;
	thread = kthread_run(tiered_thread, t, "tieredmfs/%u", MINOR(super->sb->s_dev));
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	t->thread = thread;
	return 0;
}

static void tiered_unmount(struct mfs_super *super)
{
	if (tiered(super)->thread)
		kthread_stop(tiered(super)->thread);
}

static void tiered_drain(struct mfs_super *super)
{
	mfs_pool_drain(&tiered(super)->tier[LOCAL].pool);
	mfs_pool_drain(&tiered(super)->tier[REMOTE].pool);
}

static void tiered_statfs(struct mfs_super *super, struct kstatfs *stat)
{
	struct tier *tier = tiered(super)->tier;

	stat->f_blocks = tier[LOCAL].pool.nr + tier[REMOTE].pool.nr;
	stat->f_bfree = tier_free(&tier[LOCAL]) + tier_free(&tier[REMOTE]);
	stat->f_bavail = stat->f_bfree;
}

static void tiered_show_options(struct mfs_super *super, struct seq_file *seq)
{
	const struct tier *tier = tiered(super)->tier;

	seq_printf(seq, ",local=%luK,remote=%luK,local_node=%d,remote_node=%d",
		   tier[LOCAL].pool.nr << (PAGE_SHIFT - 10),
		   tier[REMOTE].pool.nr << (PAGE_SHIFT - 10),
		   tier[LOCAL].pool.node, tier[REMOTE].pool.node);
}

/* sysfs */

#define TIERED_SETTING(_name, _min)						\
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
	if (value < (_min))							\
		return -EINVAL;							\
	WRITE_ONCE(tiered_of(kobj)->_name, value);				\
	return count;								\
}										\
static struct kobj_attribute _name##_attr = __ATTR_RW(_name)

TIERED_SETTING(alloc_threshold, 0);
TIERED_SETTING(reclaim_threshold, 0);
TIERED_SETTING(interval, 1);
TIERED_SETTING(scan, 1);

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
TIERED_COUNTER(local_hot, READ_ONCE(t->tier[LOCAL].nr[HOT]));
TIERED_COUNTER(local_cold, READ_ONCE(t->tier[LOCAL].nr[COLD]));
TIERED_COUNTER(remote_hot, READ_ONCE(t->tier[REMOTE].nr[HOT]));
TIERED_COUNTER(remote_cold, READ_ONCE(t->tier[REMOTE].nr[COLD]));
TIERED_COUNTER(demoted, atomic_long_read(&t->demoted));
TIERED_COUNTER(promoted, atomic_long_read(&t->promoted));
TIERED_COUNTER(failed, atomic_long_read(&t->failed));

static struct attribute *tiered_attrs[] = {
	&alloc_threshold_attr.attr,
	&reclaim_threshold_attr.attr,
	&interval_attr.attr,
	&scan_attr.attr,
	&local_free_attr.attr,
	&remote_free_attr.attr,
	&local_hot_attr.attr,
	&local_cold_attr.attr,
	&remote_hot_attr.attr,
	&remote_cold_attr.attr,
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
