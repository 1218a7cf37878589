/* SPDX-License-Identifier: GPL-2.0 */
/* Between swap.c, slots and bringing pages back, and swapout.c, the thread. */
#ifndef _MFS_SWAP_H
#define _MFS_SWAP_H

#include <linux/idr.h>
#include <linux/refcount.h>
#include <linux/wait.h>

#include "internal.h"

#define MFS_SWAP_BATCH	32	/* pages unmapped, and then written, at a time */

/* Of pages and slots together, how many are left to bring others back */
#define MFS_SWAP_KEPT	32UL

/* A folio of the cache that is also in its slot */
#define MFS_WRITTEN	XA_MARK_0

/* Which pages the thread takes: its turns of the hand, in this order */
enum mfs_turn {
	MFS_FIRST,	/* of which the manager says so */
	MFS_UNUSED,	/* all may look used */
	MFS_AGAIN,	/* if there are many processors, still */
	MFS_ANY,
	NR_MFS_TURNS
};

/* Who has no room in a memory cgroup, and waits. */
struct mfs_wanted {
	struct list_head list;
	struct mem_cgroup *memcg;
	unsigned long pages;	/* that have gone */
	bool done;
};

struct mfs_swap {
	struct mfs_super *super;
	struct fbmm_reclaimer reclaimer;
	struct file *file;
	struct task_struct *thread;

	/* Slots: how many, which are in use, by how many files and the thread */
	unsigned long nr;
	struct ida slots;
	refcount_t *users;
	struct xarray cache;

	/* For the list that follows */
	spinlock_t lock;
	struct list_head wanted;

	/* The thread begins below the one, and works until there is the other. */
	unsigned long low, high;
	wait_queue_head_t wake;
	/* Who needs a page waits here until there is one, or two rounds did not do. */
	wait_queue_head_t wait;
	atomic_t waiting;
	unsigned long rounds;
	/* The thread's own: whose pages, NULL for all, and which */
	struct mem_cgroup *memcg;
	enum mfs_turn turn;
	long until;		/* for a memory cgroup: of swapouts */
	/* The last round found nothing. */
	bool idle;
	/* Writing failed, and no slot has become free since. */
	bool failed;
	bool said;

	atomic_long_t swapped, swapouts, swapins;
};

/* swap.c */
int mfs_swap_io(struct mfs_swap *swap, unsigned long slot, struct folio *folio,
		unsigned int direction);

/* swapout.c */
int mfs_swap_thread(void *data);
bool mfs_swap_reclaim(struct fbmm_reclaimer *reclaimer, struct mem_cgroup *memcg,
		      gfp_t gfp);

#endif /* _MFS_SWAP_H */
