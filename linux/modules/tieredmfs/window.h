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
 * Whether those hot remote pages that wait for room are few. Where many more pages count as
 * hot than there is room for, most of those that are local are hot, too, and to look for
 * others there has pages that are used alike change places.
 */
static inline int tiered_few_wait(unsigned long local_hot, unsigned long remote_hot)
{
	return remote_hot < local_hot / 8;
}

/*
 * How many pages of a window with so many of all are local. As many as are local would find
 * what is in the wrong list as fast here as there. But while a few hot remote pages wait for
 * room, it takes cold local ones to go on, and no more hot ones: half of it then.
 */
static inline unsigned long tiered_local_batch(unsigned long all, unsigned long local,
					       unsigned long batch, int waiting)
{
	if (waiting && local < all / 2)
		return batch / 2;
	return all ? (local * batch + all - 1) / all : 0;
}

/*
 * Whether fewer than half as many pages of a tier look used in a window as usual: 1, or 0, or
 * -1 where hardly any do usually, or none were looked at. Where it is so of both tiers, those
 * who use the pages waited, and the window says nothing of the pages: hot ones would look
 * unused and, looked at again at once, be cold after a few such windows. Where another
 * part of the memory is used from now on, some of it is remote, and as many as before are used
 * there. What is usual follows, so that nothing counts as waiting for ever.
 *
 * @usual is TIERED_USUAL times the average of 1,024 pages that look used.
 */
#define TIERED_USUAL	16

static inline int tiered_fewer(unsigned long *usual, unsigned long pages,
			       unsigned long used)
{
	const unsigned long before = *usual / TIERED_USUAL;
	const unsigned long now = pages ? used * 1024 / pages : before;

	*usual += now - before;
	return pages && before / 2 ? now < before / 2 : -1;
}

static inline int tiered_waited(int fewer_local, int fewer_remote)
{
	return fewer_local && fewer_remote && (fewer_local > 0 || fewer_remote > 0);
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
