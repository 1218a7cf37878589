// SPDX-License-Identifier: GPL-2.0
/*
 * bwmfs: memory from all NUMA nodes in given proportions, to use the bandwidth of
 * all of them (FBMM paper, section 5.2).
 *
 *	mount -t bwmfs -o weights=3:2[,huge][,size=512M[,swap=FILE]] none DIR
 *
 * gives node 0 three of five pages and node 1 two. The pages of a mount are dealt
 * out in a fixed order of nodes, so the proportion is exact after every round,
 * whoever takes the pages. /sys/fs/bwmfs/MINOR/weights changes the weights for the
 * pages that follow; placed says how many pages each node gave.
 */
#include <linux/gfp.h>
#include <linux/nodemask.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "mfs.h"

#define BW_MAX_ROUND	1024	/* the sum of the weights */

/* Which node gives the next page: a round, dealt out again and again. */
struct bw_round {
	struct rcu_head rcu;
	unsigned int weights[MAX_NUMNODES];
	int credit[MAX_NUMNODES];	/* while it is made */
	unsigned int length;
	unsigned short node[BW_MAX_ROUND];
};

struct bw {
	struct mfs_super super;
	struct bw_round __rcu *round;
	struct mutex lock;		/* for changing the round */
	/* Places in the round: for base pages and for huge ones */
	atomic_long_t next[2];
	atomic_long_t placed[MAX_NUMNODES];
	atomic_long_t elsewhere;
};

struct bw_options {
	struct bw_round *round;
	bool huge;
};

static struct bw *bw(struct mfs_super *super)
{
	return container_of(super, struct bw, super);
}

static struct bw *bw_of(struct kobject *kobj)
{
	return bw(container_of(kobj, struct mfs_super, kobj));
}

/*
 * Spread each node's turns over the round: every node gains its weight, the one
 * that has most gives the page and pays a round.
 */
static void bw_deal(struct bw_round *round)
{
	int *credit = round->credit;
	unsigned int i;
	int node, best;

	for (i = 0; i < round->length; i++) {
		best = -1;
		for_each_node(node) {
			credit[node] += round->weights[node];
			if (round->weights[node] &&
			    (best < 0 || credit[node] > credit[best]))
				best = node;
		}
		credit[best] -= round->length;
		round->node[i] = best;
	}
}

/* "3:2"; nodes that are not named have the weight 0. Changes the text. */
static int bw_read_weights(struct bw_round *round, char *text)
{
	unsigned int weight;
	int node = 0;
	char *word;

	text = strim(text);
	while ((word = strsep(&text, ":"))) {
		if (kstrtouint(word, 10, &weight) || weight > BW_MAX_ROUND)
			return -EINVAL;
		if (weight && (node >= MAX_NUMNODES || !node_state(node, N_MEMORY)))
			return -EINVAL;
		if (weight)
			round->weights[node] = weight;
		round->length += weight;
		if (round->length > BW_MAX_ROUND)
			return -EINVAL;
		node++;
	}
	return round->length ? 0 : -EINVAL;
}

static struct bw_round *bw_make_round(const char *weights)
{
	struct bw_round *round = kzalloc(sizeof(*round), GFP_KERNEL);
	char *copy = kstrdup(weights, GFP_KERNEL);
	int err = -ENOMEM;

	if (round && copy)
		err = bw_read_weights(round, copy);
	kfree(copy);
	if (err) {
		kfree(round);
		return ERR_PTR(err);
	}
	bw_deal(round);
	return round;
}

/* Mounting */

enum { Opt_weights, Opt_huge };

static const struct fs_parameter_spec bw_parameters[] = {
	fsparam_string("weights", Opt_weights),
	fsparam_flag("huge", Opt_huge),
	{}
};

static int bw_parse(struct fs_context *fc, struct fs_parameter *param)
{
	struct bw_options *options = fc->fs_private;
	struct fs_parse_result result;
	int opt = fs_parse(fc, bw_parameters, param, &result);
	struct bw_round *round;

	switch (opt) {
	case Opt_weights:
		round = bw_make_round(param->string);
		if (round == ERR_PTR(-EINVAL))
			return invalfc(fc, "weights=%s: expected a weight for each node with memory, such as 3:2, not all 0, %u together at most",
				       param->string, BW_MAX_ROUND);
		if (IS_ERR(round))
			return PTR_ERR(round);
		kfree(options->round);
		options->round = round;
		return 0;
	case Opt_huge:
		options->huge = true;
		return 0;
	default:
		return opt;
	}
}

static void bw_free_options(struct fs_context *fc)
{
	struct bw_options *options = fc->fs_private;

	kfree(options->round);
}

static int bw_fill(struct mfs_super *super, struct fs_context *fc)
{
	struct bw_options *options = fc->fs_private;

	mutex_init(&bw(super)->lock);
	if (!options->round)
		return invalfc(fc, "weights is missing");
	if (options->huge && !has_transparent_hugepage())
		return invalfc(fc, "huge: this machine has no huge pages");
	RCU_INIT_POINTER(bw(super)->round, options->round);
	options->round = NULL;
	super->max_order = options->huge ? PMD_ORDER : 0;
	return 0;
}

static void bw_drain(struct mfs_super *super)
{
	kfree(rcu_dereference_protected(bw(super)->round, true));
}

static void bw_show_options(struct mfs_super *super, struct seq_file *seq)
{
	if (super->max_order)
		seq_puts(seq, ",huge");
}

/* Pages */

static int bw_next_node(struct bw *bw, bool huge)
{
	const unsigned long turn = atomic_long_fetch_inc(&bw->next[huge]);
	struct bw_round *round;
	int node;

	rcu_read_lock();
	round = rcu_dereference(bw->round);
	node = round->node[turn % round->length];
	rcu_read_unlock();
	return node;
}

static struct page *bw_alloc_pages(struct bw *bw, unsigned int order)
{
	const int node = bw_next_node(bw, order);
	gfp_t gfp = GFP_HIGHUSER;
	struct folio *folio;

	if (order)
		gfp |= __GFP_NORETRY;
	folio = __folio_alloc_node(gfp | __GFP_THISNODE | __GFP_NOWARN, order, node);
	if (!folio && !order)	/* the node is full: better there than not at all */
		folio = __folio_alloc_node(gfp, 0, node);
	if (!folio)
		return NULL;
	atomic_long_add(1L << order, &bw->placed[folio_nid(folio)]);
	if (folio_nid(folio) != node)
		atomic_long_inc(&bw->elsewhere);
	return folio_page(folio, 0);
}

static int bw_alloc(struct mfs_super *super, struct mfs_run *run)
{
	run->page = bw_alloc_pages(bw(super), run->order);
	if (!run->page && run->order) {
		run->page = bw_alloc_pages(bw(super), 0);
		run->order = 0;
	}
	run->nr = 1UL << run->order;
	return run->page ? 0 : -ENOMEM;
}

/* sysfs */

/*
 * A value a node, up to the last that has memory: places in the text are nodes' numbers,
 * as in the option, also where nodes between have none.
 */
static ssize_t bw_show_nodes(char *buf, const nodemask_t *nodes,
			     long (*value)(struct bw *bw, int node), struct bw *bw)
{
	const int end = find_last_bit(nodes->bits, MAX_NUMNODES) + 1;
	ssize_t len = 0;
	int node;

	for (node = 0; node < end; node++)
		len += sysfs_emit_at(buf, len, "%s%ld", node ? ":" : "", value(bw, node));
	return len + sysfs_emit_at(buf, len, "\n");
}

static long bw_weight(struct bw *bw, int node)
{
	return rcu_dereference(bw->round)->weights[node];
}

static ssize_t weights_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	ssize_t len;

	rcu_read_lock();
	len = bw_show_nodes(buf, &node_states[N_MEMORY], bw_weight, bw_of(kobj));
	rcu_read_unlock();
	return len;
}

static ssize_t weights_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	struct bw_round *round = bw_make_round(buf);
	struct bw *bw = bw_of(kobj);

	if (IS_ERR(round))
		return PTR_ERR(round);
	mutex_lock(&bw->lock);
	round = rcu_replace_pointer(bw->round, round, lockdep_is_held(&bw->lock));
	/* The first of the pages that follow is the first of a round. */
	atomic_long_set(&bw->next[0], 0);
	atomic_long_set(&bw->next[1], 0);
	mutex_unlock(&bw->lock);
	kfree_rcu(round, rcu);
	return count;
}
static struct kobj_attribute weights_attr = __ATTR_RW(weights);

static long bw_placed(struct bw *bw, int node)
{
	return atomic_long_read(&bw->placed[node]);
}

static ssize_t placed_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	return bw_show_nodes(buf, &node_states[N_MEMORY], bw_placed, bw_of(kobj));
}
static struct kobj_attribute placed_attr = __ATTR_RO(placed);

static ssize_t elsewhere_show(struct kobject *kobj, struct kobj_attribute *attr,
			      char *buf)
{
	return sysfs_emit(buf, "%ld\n", atomic_long_read(&bw_of(kobj)->elsewhere));
}
static struct kobj_attribute elsewhere_attr = __ATTR_RO(elsewhere);

static struct attribute *bw_attrs[] = {
	&weights_attr.attr,
	&placed_attr.attr,
	&elsewhere_attr.attr,
	NULL
};

static const struct attribute_group bw_group = {
	.attrs = bw_attrs,
};

static const struct mfs_ops bw_ops = {
	.super_size	= sizeof(struct bw),
	.options_size	= sizeof(struct bw_options),
	.parse		= bw_parse,
	.free_options	= bw_free_options,
	.fill		= bw_fill,
	.drain		= bw_drain,
	.alloc		= bw_alloc,
	.show_options	= bw_show_options,
	.group		= &bw_group,
};

static struct mfs_type bwmfs = {
	.fs.name	= "bwmfs",
	.fs.owner	= THIS_MODULE,
	.ops		= &bw_ops,
};
mfs_module(bwmfs);

MODULE_DESCRIPTION("Memory file system that spreads pages over nodes by weight");
MODULE_LICENSE("GPL");
