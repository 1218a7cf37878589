// SPDX-License-Identifier: GPL-2.0
/*
 * What a cuckoo hash table of page table entries would move, for a measurement:
 * Figure 3 (right) of the paper, whose authors moved entries in Linux as often as
 * their simulated ME-HPT does.
 *
 * Lines of eight entries are moved in a table that nobody reads, as often as is
 * asked for, while the lock of the page table is held. Each is one step of cuckoo
 * hashing: the line in hand goes where its hash says, and what was there is taken
 * in hand. Works with and without dpt=on.
 */
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/vmalloc.h>

#include "internal.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "dpt."

#define LINES	65536

struct cuckoo_line {
	u64 entry[8];
};

DEFINE_STATIC_KEY_FALSE(dpt_cuckoo_key);

static DEFINE_SPINLOCK(lock);
static struct cuckoo_line *line, hand;
static unsigned long moved;
/* Lines that are moved for 1000 pages, and what is left of a line */
static unsigned int rate, rest;

static void move(void)
{
	/* As in the paper's configuration, four ways, each with a hash of its own */
	u64 way = moved++ % 4;

	swap(hand, line[dpt_hash(hand.entry[0], way) % LINES]);
}

void __dpt_cuckoo_mapped(unsigned int pages)
{
	u64 due;

	spin_lock(&lock);
	due = (u64)pages * rate + rest;
	for (; due >= 1000; due -= 1000)
		move();
	rest = due;
	spin_unlock(&lock);
}

static int set_rate(const char *value, const struct kernel_param *kp)
{
	struct cuckoo_line *room;
	unsigned int new;
	int error, i;

	error = kstrtouint(value, 0, &new);
	if (error)
		return error;
	if (new > 100000)
		return -EINVAL;
	/* No memory is there yet for a parameter at boot. */
	if (system_state < SYSTEM_RUNNING)
		return -EBUSY;
	/* Who sets a parameter waits for others who do. */
	if (new && !line) {
		room = vzalloc(array_size(LINES, sizeof(*room)));
		if (!room)
			return -ENOMEM;
		for (i = 0; i < LINES; i++)
			room[i].entry[0] = i;
		hand.entry[0] = LINES;
		line = room;
	}
	spin_lock(&lock);
	rate = new;
	rest = 0;
	spin_unlock(&lock);
	if (new)
		static_branch_enable(&dpt_cuckoo_key);
	else
		static_branch_disable(&dpt_cuckoo_key);
	return 0;
}

static const struct kernel_param_ops rate_ops = {
	.set = set_rate,
	.get = param_get_uint,
};

module_param_cb(cuckoo_rate, &rate_ops, &rate, 0644);
module_param_named(cuckoo_moved, moved, ulong, 0444);
