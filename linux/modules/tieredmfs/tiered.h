/* SPDX-License-Identifier: GPL-2.0 */
/* Between the files of tieredmfs. */
#ifndef _TIERED_H
#define _TIERED_H

#include "mfs.h"

enum { LOCAL, REMOTE, NR_TIERS };
enum { COLD, HOT, NR_HEATS };

/* A folio's tier is that of its node, and it is hot if it is marked active. */
struct tier {
	struct mfs_pool pool;			/* free base pages */
	struct list_head pieces;		/* free ones of 2 MB; pool.lock */
	unsigned long nr_pieces;
	unsigned long missing;			/* to take anew: mfs_pool.missing */
	unsigned long nr;			/* pages of all, free and used */
	/*
	 * First what was last found to be as its list says; last what has not
	 * been looked at for longest, and behind it what is in doubt.
	 */
	struct list_head list[NR_HEATS];
	/* Folios of both lists whose accessed bits are being watched */
	struct list_head watched;
	/* Those that were looked at, until it is known what the window says: unused, used */
	struct list_head found[2];
	unsigned long nr_pages[NR_HEATS];
	/* Since the window was last thought about: pages looked at, and found used */
	unsigned long looked, seen;
	/* How many of those watched look used in a window: tiered_fewer() */
	unsigned long usual;
};

struct tiered {
	struct mfs_super super;
	spinlock_t lock;			/* for the lists */
	struct tier tier[NR_TIERS];
	struct task_struct *thread;

	/* Settings: pages, pages, milliseconds, percent of a processor */
	unsigned long alloc_threshold;
	unsigned long reclaim_threshold;
	unsigned long interval;
	unsigned long share;

	/* The thread's own: nanoseconds, pages in a window, factor of its rests */
	u64 window;
	unsigned long batch;
	unsigned int calm;

	/*
	 * Turns of the hand through what files share: how many, and from when on the next. Pages
	 * of that which are local, in the last turn and seen in this one. Pages for which there
	 * was no room there, likewise; and those that leave the local pool when the turn ends.
	 */
	unsigned long turn;
	u64 turn_due;
	unsigned long shared_local, shared_seen;
	unsigned long room_wanted, room_missed;
	unsigned long leaving;

	/* How much of the thresholds is kept, of TIERED_KEEP_ALL; pages asked for since */
	unsigned int keep;
	atomic_long_t asked;

	/* The window is far off; the last one says nothing; a few hot pages wait for room */
	bool off, waited, waiting;

	atomic_long_t demoted, promoted, failed;
};

#define TIERED_KEEP_ALL	64U
/* What reclaim_threshold is not lowered below */
#define TIERED_KEEP_MIN	64UL

static inline struct tier *tier_of(struct tiered *t, struct folio *folio)
{
	return &t->tier[folio_nid(folio) == t->tier[LOCAL].pool.node ? LOCAL : REMOTE];
}

/* In pages, also where a piece cannot be had for want of one in a row. */
static inline unsigned long tier_free(struct tier *tier)
{
	return READ_ONCE(tier->pool.nr_free) +
	       READ_ONCE(tier->nr_pieces) * HPAGE_PMD_NR;
}

/* Pages that files have */
static inline unsigned long tier_used(struct tier *tier)
{
	const unsigned long missing = READ_ONCE(tier->pool.missing) +
				      READ_ONCE(tier->missing) * HPAGE_PMD_NR;

	return tier->nr - min(tier->nr, missing + tier_free(tier));
}

/* What a threshold of so many pages comes to at the moment */
static inline unsigned long tiered_keeps(struct tiered *t, unsigned long pages)
{
	return mult_frac(pages, (unsigned long)READ_ONCE(t->keep),
			 (unsigned long)TIERED_KEEP_ALL);
}

/*
 * While more are free locally, new pages are local, and hot ones come back. What is below
 * is free for nobody, so nearly nothing is while no pages are asked for.
 */
static inline unsigned long tiered_alloc_above(struct tiered *t)
{
	return tiered_keeps(t, READ_ONCE(t->alloc_threshold));
}

/* While fewer are free locally, cold ones leave: some, also while none are asked for. */
static inline unsigned long tiered_reclaim_below(struct tiered *t)
{
	const unsigned long pages = READ_ONCE(t->reclaim_threshold);

	return max(tiered_keeps(t, pages), min(pages, TIERED_KEEP_MIN));
}

/* Pages in the lists */
static inline unsigned long tier_pages(struct tier *tier)
{
	return READ_ONCE(tier->nr_pages[COLD]) + READ_ONCE(tier->nr_pages[HOT]);
}

static inline unsigned long tiered_pages(struct tiered *t)
{
	return tier_pages(&t->tier[LOCAL]) + tier_pages(&t->tier[REMOTE]);
}

/*
 * How many windows more have found a page unlike its list than like it, less than
 * TIERED_SURE. PG_workingset says that it is any, PG_mappedtodisk that it is two: unmapping a
 * page sets PG_referenced.
 */
static inline unsigned int tiered_doubts(struct folio *folio)
{
	return folio_test_workingset(folio) + folio_test_mappedtodisk(folio);
}

/* Changing a flag takes an atomic operation: fork() does that for every page. */
#define TIERED_FLAG(_flag)							\
static inline void tiered_set_##_flag(struct folio *folio, bool value)		\
{										\
	if (folio_test_##_flag(folio) == value)					\
		return;								\
	if (value)								\
		folio_set_##_flag(folio);					\
	else									\
		folio_clear_##_flag(folio);					\
}

TIERED_FLAG(active)
TIERED_FLAG(workingset)
TIERED_FLAG(mappedtodisk)

/* Which list a page is to be in, before it is, and how doubtful that is. */
static inline void tiered_mark(struct folio *folio, bool hot, unsigned int doubts)
{
	tiered_set_active(folio, hot);
	tiered_set_workingset(folio, doubts);
	tiered_set_mappedtodisk(folio, doubts > 1);
}

/* pieces.c */
int tier_fill(struct tier *tier, unsigned long nr, bool huge);
void tier_drain(struct tier *tier);
struct page *tier_get(struct tier *tier, unsigned int order);
void tier_put(struct tier *tier, struct folio *folio);
void tier_join(struct tier *tier);

/* tiers.c */
void tiered_add(struct tiered *t, struct folio *folio, bool hot, unsigned int doubts);
void tiered_del(struct tiered *t, struct folio *folio);

/* thread.c */
bool tiered_is_short(struct tiered *t);
bool tiered_has_room(struct tiered *t);
int tiered_start(struct tiered *t);

/* shared.c */
void tiered_mark_shared(struct folio *folio, bool before, bool last, bool turn);
void tiered_shared(struct mfs_super *super, struct mfs_visit *visit);
unsigned long tiered_visit(struct tiered *t);

#endif /* _TIERED_H */
