/* SPDX-License-Identifier: GPL-2.0 */
/* The smallest free id of a range, as lib/idr.c gives it, by looking at each. */
#ifndef _SHIM_LINUX_IDR_H
#define _SHIM_LINUX_IDR_H

#include <errno.h>
#include <linux/foliomap_arith.h>
#include <linux/types.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define GFP_KERNEL	0

struct ida {
	pthread_mutex_t lock;
	bool taken[FOLIOMAP_MAX_ID + 1];
};

#define DEFINE_IDA(name)	struct ida name = { PTHREAD_MUTEX_INITIALIZER, { 0 } }

static inline int ida_alloc_range(struct ida *ida, unsigned int first,
		unsigned int last, int gfp)
{
	unsigned int id;

	(void)gfp;
	pthread_mutex_lock(&ida->lock);
	for (id = first; id <= last && ida->taken[id]; id++)
		;
	if (id <= last)
		ida->taken[id] = true;
	pthread_mutex_unlock(&ida->lock);
	return id <= last ? (int)id : -ENOSPC;
}

static inline void ida_free(struct ida *ida, unsigned int id)
{
	pthread_mutex_lock(&ida->lock);
	if (!ida->taken[id]) {
		printf("not ok - id %u is freed twice\n", id);
		exit(1);
	}
	ida->taken[id] = false;
	pthread_mutex_unlock(&ida->lock);
}

#endif
