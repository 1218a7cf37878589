/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How long a window of tieredmfs is. Plain C: linux/bench/fbmm/tiering.c tries it outside
 * of a kernel.
 */
#ifndef _TIERED_WINDOW_H
#define _TIERED_WINDOW_H

/*
 * How many pages are to look used. As many as are to be local would do if a window told
 * hot from cold; but it says of a page in use, too, by chance that it is not. Where the
 * bit of a page is set in four of five windows, they tell most about how often it is
 * used (1.6 uses expected in a window maximize x^2 / (e^x - 1), the information in the
 * bit about the rate). That is to be so for the pages that are just local, or just not.
 * So more are to look used: half as many again, and not more than half of those that
 * are to be remote, or nothing would ever look unused.
 */
static inline unsigned long tiered_target(unsigned long all, unsigned long room)
{
	if (room >= all)
		return all;
	return room + (room < all - room ? room : all - room) / 2;
}

/*
 * The window after one in which so many of all pages look used. It changes when that is
 * off by more than an eighth, which chance is not. Steps are small, since neighbours in
 * a list are often alike: those looked at lately need not stand for all.
 */
static inline unsigned long long tiered_next_window(unsigned long long window,
						    unsigned long used,
						    unsigned long target)
{
	if (used > target + target / 8)
		return window - window / 8;
	if (used < target - target / 8)
		return window + window / 8;
	return window;
}

/* Whether it is far off. */
static inline int tiered_far_off(unsigned long all, unsigned long used,
				 unsigned long target)
{
	return used > (target + all) / 2 || used < target / 2;
}

/*
 * How many windows more must find a page unlike its list than like it, until it changes
 * list. Two follow a change sooner, and tell more pages wrong that are used about as
 * often as decides.
 */
#define TIERED_SURE	3

/*
 * The thread rests longer when fewer pages than one in so many changed list. What is in the
 * wrong one after a change is found more slowly the less there is left of it, so that
 * must be few.
 */
#define TIERED_FEW	256

#endif /* _TIERED_WINDOW_H */
