// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of tieredmfs: which pool a page is from, when one counts as hot, how long
 * a window is, when pages move, and what becomes of pieces of 2 MB. They need a machine
 * with two nodes; the thread does not run.
 */
#include "tiers.c"
#include "pieces.c"
#include "thread.c"
#include "shared.c"
#include "mfs_kunit.h"

static int tiered_test_init(struct kunit *test)
{
	if (!node_state(0, N_MEMORY) || !node_state(1, N_MEMORY))
		kunit_skip(test, "needs nodes 0 and 1");
	return 0;
}

static struct tiered *test_tiered(struct kunit *test, unsigned long local,
				  unsigned long remote, bool huge)
{
	struct tiered *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	int tier;

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->super.ops = &tiered_ops;
	t->super.max_order = huge ? PMD_ORDER : 0;
	t->keep = TIERED_KEEP_ALL;
	spin_lock_init(&t->lock);
	for (tier = 0; tier < NR_TIERS; tier++) {
		tiered_init_tier(&t->tier[tier], tier);
		KUNIT_ASSERT_EQ(test, tier_fill(&t->tier[tier], tier ? remote : local,
						huge), 0);
	}
	return t;
}

/*
 * Local while more than the threshold is free there, then remote, then what is left of
 * the local pool, then nothing: 8 local pages and 3 remote ones, with a threshold of 2.
 */
static void tiered_test_which_tier(struct kunit *test)
{
	static const char nodes[] = "00000011100";
	struct tiered *t = test_tiered(test, 8, 3, false);
	struct page *page[ARRAY_SIZE(nodes)];
	struct mfs_run run;
	int i;

	t->alloc_threshold = 2;
	for (i = 0; nodes[i]; i++) {
		KUNIT_ASSERT_EQ(test, mfs_test_alloc(&t->super, 100, 0, &run), 0);
		KUNIT_EXPECT_EQ(test, run.nr, 1);
		KUNIT_EXPECT_EQ_MSG(test, page_to_nid(run.page), nodes[i] - '0', "page %d", i);
		/* New ones are hot, as far as is known. */
		KUNIT_EXPECT_TRUE(test, folio_test_active(page_folio(run.page)));
		KUNIT_EXPECT_EQ(test, tiered_doubts(page_folio(run.page)), 2);
		page[i] = run.page;
	}
	KUNIT_EXPECT_EQ(test, mfs_test_alloc(&t->super, 1, 0, &run), -ENOSPC);
	/* Back to where each is from: two local, and that is not above the threshold. */
	mfs_test_free(&t->super, page[0]);
	mfs_test_free(&t->super, page[1]);
	mfs_test_free(&t->super, page[6]);
	KUNIT_EXPECT_EQ(test, tier_free(&t->tier[LOCAL]), 2);
	KUNIT_EXPECT_EQ(test, tier_free(&t->tier[REMOTE]), 1);
	page[6] = mfs_test_page(&t->super);
	KUNIT_EXPECT_EQ(test, page_to_nid(page[6]), 1);
	mfs_test_free(&t->super, page[2]);
	page[2] = mfs_test_page(&t->super);
	KUNIT_EXPECT_EQ(test, page_to_nid(page[2]), 0);
	for (i = 2; nodes[i]; i++)
		mfs_test_free(&t->super, page[i]);
	tiered_drain(&t->super);
}

static long test_place(struct list_head *list, struct folio *folio)
{
	struct folio *other;
	long place = 0;

	list_for_each_entry(other, list, lru) {
		if (other == folio)
			return place;
		place++;
	}
	return -1;
}

/*
 * A page changes list when three more windows say so than do not, and no sooner. The twin
 * walks on a line from -3 to 3 without 0, a step a window: right of the middle a page is
 * hot, one that crosses it goes to the end, and at an end nothing is in doubt. It knows
 * nothing of marks; what it does not say of places is what the comment on struct tier does.
 */
static void tiered_test_hot_and_cold(struct kunit *test)
{
	struct tiered *t = test_tiered(test, 4, 4, false);
	unsigned long looked = 0, seen = 0;
	struct folio *folio[8];
	int line[8];
	u64 state = 1;
	int i, step;

	for (i = 0; i < 8; i++) {
		folio[i] = page_folio(tier_get(&t->tier[i / 4], 0));
		tiered_mark(folio[i], true, 0);
		tiered_added(&t->super, folio[i]);
		line[i] = 3;
	}
	for (step = 0; step < 8000; step++) {
		const u32 random = mfs_test_random(&state);
		const bool used = random & 1;
		struct list_head *list;
		unsigned long nr = 0;
		int before;

		i = random >> 8 & 7;
		before = line[i];
		if (abs(before) == 3) {
			looked++;
			seen += used;
		}
		line[i] = clamp(before + (used ? 1 : -1), -3, 3);
		if (!line[i])
			line[i] = used ? 3 : -3;
		spin_lock(&t->lock);
		KUNIT_EXPECT_EQ(test, tiered_judge(t, folio[i], used),
				(before > 0) != (line[i] > 0));
		spin_unlock(&t->lock);
		KUNIT_EXPECT_EQ(test, folio_test_active(folio[i]), line[i] > 0);
		list = &t->tier[i / 4].list[line[i] > 0];
		/* First what is as its list says, last what is in doubt */
		if (abs(line[i]) == 3)
			KUNIT_EXPECT_EQ(test, test_place(list, folio[i]), 0);
		else
			KUNIT_EXPECT_PTR_EQ(test, list->prev, &folio[i]->lru);
		for (i = 0; i < 8; i++)
			nr += i < 4 && line[i] > 0;
		KUNIT_ASSERT_EQ(test, t->tier[LOCAL].nr_pages[HOT], nr);
		KUNIT_ASSERT_EQ(test, t->tier[LOCAL].nr_pages[COLD], 4 - nr);
		KUNIT_ASSERT_EQ(test, tiered_pages(t), 8);
	}
	/* A page in doubt says nothing of the others. */
	KUNIT_EXPECT_EQ(test, t->tier[LOCAL].looked + t->tier[REMOTE].looked, looked);
	KUNIT_EXPECT_EQ(test, t->tier[LOCAL].seen + t->tier[REMOTE].seen, seen);
	for (i = 0; i < 8; i++) {
		tiered_removing(&t->super, folio[i]);
		mfs_test_free(&t->super, folio_page(folio[i], 0));
	}
	tiered_drain(&t->super);
}

/* Demotion below reclaim_threshold or without a piece; promotion above alloc_threshold. */
static void tiered_test_when_to_move(struct kunit *test)
{
	static const struct {
		unsigned long pages, pieces;
		bool huge, is_short, has_room;
	} cases[] = {
		{ 0, 0, false, true, false },
		{ 20, 0, false, true, false },
		{ 21, 0, false, true, true },
		{ 49, 0, false, true, true },
		{ 50, 0, false, false, true },
		{ 50, 0, true, true, true },	/* in base pages only */
		{ 0, 1, true, false, true },	/* 512 pages */
	};
	struct tiered *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->keep = TIERED_KEEP_ALL;
	t->alloc_threshold = 20;
	t->reclaim_threshold = 50;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		t->tier[LOCAL].pool.nr_free = cases[i].pages;
		t->tier[LOCAL].nr_pieces = cases[i].pieces;
		t->super.max_order = cases[i].huge * PMD_ORDER;
		KUNIT_EXPECT_EQ_MSG(test, tiered_is_short(t), cases[i].is_short, "%d", i);
		KUNIT_EXPECT_EQ_MSG(test, tiered_has_room(t), cases[i].has_room, "%d", i);
		/* 10 remote pages: all free or missing, or one in use */
		t->tier[REMOTE].nr = 10;
		t->tier[REMOTE].pool.missing = 3;
		t->tier[REMOTE].pool.nr_free = 7;
		KUNIT_EXPECT_EQ_MSG(test, tiered_is_idle(t), !cases[i].is_short, "%d", i);
		t->tier[REMOTE].pool.nr_free = 6;
		KUNIT_EXPECT_FALSE(test, tiered_is_idle(t));
	}
}

/* Which folio moves: the first that is not in doubt, and each once before any again. */
static void tiered_test_who_moves(struct kunit *test)
{
	struct tiered *t = test_tiered(test, 4, 4, false);
	struct folio *folio[3], *taken;
	int i;

	KUNIT_EXPECT_NULL(test, tiered_take(t, LOCAL, COLD));
	for (i = 0; i < 3; i++) {
		folio[i] = page_folio(tier_get(&t->tier[LOCAL], 0));
		tiered_mark(folio[i], true, 0);
		tiered_added(&t->super, folio[i]);
	}
	spin_lock(&t->lock);
	for (i = 0; i < 6; i++)		/* all in doubt, and so hot */
		KUNIT_EXPECT_FALSE(test, tiered_judge(t, folio[i % 3], false));
	spin_unlock(&t->lock);
	KUNIT_EXPECT_NULL(test, tiered_take(t, LOCAL, COLD));
	KUNIT_EXPECT_NULL(test, tiered_take(t, LOCAL, HOT));
	spin_lock(&t->lock);
	KUNIT_EXPECT_TRUE(test, tiered_judge(t, folio[1], false));
	KUNIT_EXPECT_TRUE(test, tiered_judge(t, folio[2], false));
	spin_unlock(&t->lock);
	for (i = 0; i < 4; i++) {
		taken = tiered_take(t, LOCAL, COLD);
		KUNIT_ASSERT_NOT_NULL(test, taken);
		KUNIT_EXPECT_PTR_EQ(test, taken, folio[2 - i % 2]);
		folio_put(taken);
	}
	/* In no file: it stays, counts as failed, and the page for it goes back. */
	KUNIT_EXPECT_EQ(test, tiered_move(t, LOCAL), 1);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&t->failed), 1);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&t->demoted), 0);
	KUNIT_EXPECT_EQ(test, tier_free(&t->tier[REMOTE]), 4);
	KUNIT_EXPECT_EQ(test, tiered_move(t, REMOTE), 0);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, folio_ref_count(folio[i]), 1);
		tiered_removing(&t->super, folio[i]);
		mfs_test_free(&t->super, folio_page(folio[i], 0));
	}
	tiered_drain(&t->super);
}

/* A folio in doubt that is locked when it is looked at keeps no other from moving. */
static void tiered_test_locked(struct kunit *test)
{
	struct tiered *t = test_tiered(test, 4, 4, false);
	struct folio *folio[2], *taken;
	int i;

	for (i = 0; i < 2; i++) {
		folio[i] = page_folio(tier_get(&t->tier[LOCAL], 0));
		tiered_mark(folio[i], false, i == 0);
		tiered_added(&t->super, folio[i]);
	}
	list_move(&folio[0]->lru, &t->tier[LOCAL].watched);
	folio_lock(folio[0]);
	KUNIT_EXPECT_EQ(test, tiered_look_at_all(t), 0);
	folio_unlock(folio[0]);
	KUNIT_EXPECT_TRUE(test, list_empty(&t->tier[LOCAL].watched));
	taken = tiered_take(t, LOCAL, COLD);
	KUNIT_EXPECT_PTR_EQ(test, taken, folio[1]);
	if (taken)
		folio_put(taken);
	for (i = 0; i < 2; i++) {
		tiered_removing(&t->super, folio[i]);
		mfs_test_free(&t->super, folio_page(folio[i], 0));
	}
	tiered_drain(&t->super);
}

/*
 * 2 pieces and 3 base pages: the fourth base page takes a piece apart, and the 516th
 * the other. When all are back, one piece is joined and the pages of one stay.
 */
static void tiered_test_pieces(struct kunit *test)
{
	const unsigned long all = 2 * 512 + 3;
	struct page **page = kunit_kcalloc(test, all, sizeof(*page), GFP_KERNEL);
	struct tiered *t = test_tiered(test, all, 4, true);
	struct tier *tier = &t->tier[LOCAL];
	struct page *piece;
	unsigned long i;

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_EQ(test, tier->nr_pieces, 2);
	KUNIT_EXPECT_EQ(test, tier->pool.nr_free, 3);
	for (i = 0; i < all; i++) {
		page[i] = tier_get(tier, 0);
		KUNIT_ASSERT_NOT_NULL(test, page[i]);
		KUNIT_ASSERT_FALSE(test, PageCompound(page[i]));
		KUNIT_ASSERT_EQ(test, page_to_nid(page[i]), 0);
		KUNIT_ASSERT_EQ(test, tier->nr_pieces, i < 3 ? 2 : i < 515 ? 1 : 0);
		KUNIT_ASSERT_EQ(test, tier_free(tier), all - i - 1);
	}
	KUNIT_EXPECT_NULL(test, tier_get(tier, 0));
	KUNIT_EXPECT_NULL(test, tier_get(tier, PMD_ORDER));
	for (i = 0; i < 1023; i++)
		tier_put(tier, page_folio(page[i]));
	/* Not with less than two pieces' worth */
	tier_join(tier);
	KUNIT_EXPECT_EQ(test, tier->nr_pieces, 0);
	for (; i < all; i++)
		tier_put(tier, page_folio(page[i]));
	for (i = 0; i < all && !tier->nr_pieces; i++)
		tier_join(tier);	/* it looks at 32 pages each time */
	KUNIT_EXPECT_EQ(test, tier->nr_pieces, 1);
	KUNIT_EXPECT_EQ(test, tier->pool.nr_free, 515);
	tier_join(tier);
	KUNIT_EXPECT_EQ(test, tier->nr_pieces, 1);
	/* One that is in use when it comes back is owed by the kernel, and not free. */
	piece = tier_get(tier, PMD_ORDER);
	KUNIT_ASSERT_NOT_NULL(test, piece);
	get_page(piece);
	tier_put(tier, page_folio(piece));
	KUNIT_EXPECT_EQ(test, tier->nr_pieces, 0);
	KUNIT_EXPECT_EQ(test, tier->missing, 1);
	put_page(piece);
	piece = tier_get(tier, PMD_ORDER);
	KUNIT_ASSERT_NOT_NULL(test, piece);
	KUNIT_EXPECT_EQ(test, compound_order(piece), PMD_ORDER);
	KUNIT_EXPECT_EQ(test, tier->missing, 0);
	tier_put(tier, page_folio(piece));
	KUNIT_EXPECT_EQ(test, tier_free(tier), all);
	tiered_drain(&t->super);
}

/*
 * A piece that becomes base pages where it is: not while somebody has it; then each page
 * by itself has what was known of the piece, and goes back to the pool.
 */
static void tiered_test_split(struct kunit *test)
{
	const unsigned long all = 512 + 3;
	struct tiered *t = test_tiered(test, all, 4, true);
	struct tier *tier = &t->tier[LOCAL];
	struct page *piece = tier_get(tier, PMD_ORDER);
	struct folio *folio;
	unsigned long i;

	KUNIT_ASSERT_NOT_NULL(test, piece);
	folio = page_folio(piece);
	tiered_mark(folio, true, 1);
	folio_get(folio);
	folio_lock(folio);
	KUNIT_EXPECT_FALSE(test, fbmm_split(folio));
	KUNIT_EXPECT_EQ(test, folio_order(folio), PMD_ORDER);
	folio_put(folio);
	KUNIT_ASSERT_TRUE(test, fbmm_split(folio));
	folio_unlock(folio);
	tiered_split(&t->super, piece, PMD_ORDER);
	for (i = 0; i < 512; i++) {
		KUNIT_EXPECT_FALSE(test, PageCompound(piece + i));
		KUNIT_EXPECT_EQ(test, page_ref_count(piece + i), 1);
		KUNIT_EXPECT_FALSE(test, folio_test_locked(page_folio(piece + i)));
		KUNIT_EXPECT_TRUE(test, folio_test_active(page_folio(piece + i)));
		KUNIT_EXPECT_EQ(test, tiered_doubts(page_folio(piece + i)), 1);
		tier_put(tier, page_folio(piece + i));
		KUNIT_ASSERT_EQ(test, tier_free(tier), 3 + i + 1);
	}
	KUNIT_EXPECT_EQ(test, tier->nr_pieces, 0);
	KUNIT_EXPECT_EQ(test, tier->pool.missing, 0);
	tiered_drain(&t->super);
}

/* What is swapped out before all else: what is remote and cold. */
static void tiered_test_swap_first(struct kunit *test)
{
	struct tiered *t = test_tiered(test, 4, 4, false);
	int tier, heat;

	for (tier = 0; tier < NR_TIERS; tier++) {
		for (heat = 0; heat < NR_HEATS; heat++) {
			struct page *page = tier_get(&t->tier[tier], 0);

			KUNIT_ASSERT_NOT_NULL(test, page);
			tiered_mark(page_folio(page), heat == HOT, 0);
			KUNIT_EXPECT_EQ(test, tiered_swap_first(&t->super, page_folio(page)),
					tier == REMOTE && heat == COLD);
			mfs_test_free(&t->super, page);
		}
	}
	tiered_drain(&t->super);
}

/*
 * When what several files have is to move: by the first two of three turns, in each of
 * which two files answer. It is in use here, so that it stays, and counts as failed.
 */
static void tiered_test_shared(struct kunit *test)
{
	static const struct {
		const char *used;	/* by turn and file */
		bool moves_up, moves_down;
	} cases[] = {
		{ "------", false, true },
		{ "x-x---", true, false },
		{ "-x-x--", true, false },
		{ "x--x--", true, false },
		{ "xxxx--", true, false },
		{ "xx----", false, false },
		{ "--xx--", false, false },
		{ "----xx", false, true },	/* too late: that is the third turn's */
	};
	struct tiered *t = test_tiered(test, 64, 64, false);
	struct mfs_visit visit = {};
	int i, tier, step;

	for (i = 0; i < ARRAY_SIZE(cases) * 2; i++) {
		const char *used = cases[i / 2].used;
		bool moves;

		tier = i % 2;
		visit.folio = page_folio(tier_get(&t->tier[tier], 0));
		folio_get(visit.folio);
		tiered_mark_shared(visit.folio, false, false, true);
		t->turn = 0;
		atomic_long_set(&t->failed, 0);
		for (step = 0; step < 6; step++) {
			const bool third = step == 4;

			/* Room both ways in the third turn only, when both are known */
			t->reclaim_threshold = third && tier == LOCAL ? 1000 : 0;
			t->alloc_threshold = third && tier == REMOTE ? 0 : 1000;
			visit.used = used[step] == 'x';
			tiered_shared(&t->super, &visit);
			t->turn += step % 2;
		}
		if (tier == LOCAL)
			moves = cases[i / 2].moves_down;
		else
			moves = cases[i / 2].moves_up;
		KUNIT_EXPECT_EQ_MSG(test, atomic_long_read(&t->failed), moves,
				    "%s, tier %d", used, tier);
		folio_put(visit.folio);
		mfs_test_free(&t->super, folio_page(visit.folio, 0));
	}
	KUNIT_EXPECT_EQ(test, tier_free(&t->tier[LOCAL]), 64);
	KUNIT_EXPECT_EQ(test, tier_free(&t->tier[REMOTE]), 64);
	/* Room that was wanted for it is not, once nothing is shared. */
	t->room_wanted = 100;
	KUNIT_EXPECT_TRUE(test, tiered_is_short(t));
	KUNIT_EXPECT_EQ(test, tiered_visit(t), 0);
	KUNIT_EXPECT_FALSE(test, tiered_is_short(t));
	tiered_drain(&t->super);
}

#include "tieredmfs_windows_kunit.c"

static struct kunit_case tiered_cases[] = {
	KUNIT_CASE(tiered_test_which_tier),
	KUNIT_CASE(tiered_test_hot_and_cold),
	KUNIT_CASE(tiered_test_window),
	KUNIT_CASE(tiered_test_keep),
	KUNIT_CASE(tiered_test_when_to_move),
	KUNIT_CASE(tiered_test_who_moves),
	KUNIT_CASE(tiered_test_locked),
	KUNIT_CASE(tiered_test_where_to_look),
	KUNIT_CASE(tiered_test_waited),
	KUNIT_CASE(tiered_test_waiting),
	KUNIT_CASE(tiered_test_pieces),
	KUNIT_CASE(tiered_test_split),
	KUNIT_CASE(tiered_test_swap_first),
	KUNIT_CASE(tiered_test_shared),
	{}
};

static struct kunit_suite tiered_suite = {
	.name = "tieredmfs",
	.init = tiered_test_init,
	.test_cases = tiered_cases,
};
kunit_test_suite(tiered_suite);
