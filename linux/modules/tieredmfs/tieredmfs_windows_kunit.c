// SPDX-License-Identifier: GPL-2.0
/*
 * Of the KUnit tests of tieredmfs, which have this file in them: how long a window is, what
 * the thresholds come to, where to look, and what is left out.
 */

/*
 * 1,000 local pages of which 20 stay free, of 2,000: 980 and half of 980 are to look
 * used, or 183 fewer or more.
 */
static void tiered_test_window(struct kunit *test)
{
	static const struct {
		unsigned long looked[NR_TIERS], seen[NR_TIERS];
		u64 window, after;		/* µs */
		bool off, off_after;
	} cases[] = {
		/* Of fewer than a quarter nothing is concluded. */
		{ { 249, 250 }, { 249, 250 }, 1000, 1000, false, false },
		{ { 249, 250 }, { 0, 0 }, 1000, 1000, true, true },
		/* 1,470 when all is looked at: 980 local pages, 1,020 remote */
		{ { 490, 510 }, { 360, 375 }, 1000, 1000, true, false },
		{ { 980, 1020 }, { 900, 753 }, 1000, 1000, true, false },
		{ { 980, 1020 }, { 900, 754 }, 1000, 875, true, false },	/* too many */
		{ { 980, 1020 }, { 980, 307 }, 1000, 1000, true, false },
		{ { 980, 1020 }, { 266, 1020 }, 1000, 1125, true, false },
		{ { 980, 1020 }, { 900, 835 }, 1000, 875, true, false },
		/* Half way to all, and more */
		{ { 980, 1020 }, { 900, 836 }, 1000, 875, false, true },
		/* Half of it, and less */
		{ { 980, 1020 }, { 700, 35 }, 1000, 1125, true, false },
		{ { 980, 1020 }, { 700, 34 }, 1000, 1125, false, true },
		/* Twice as many local ones: 900 and 753 of all, 901 and 753 */
		{ { 1960, 1020 }, { 1800, 753 }, 1000, 1000, true, false },
		{ { 1960, 1020 }, { 1802, 753 }, 1000, 875, true, false },
		/* None local: of them it is not known. */
		{ { 0, 510 }, { 0, 510 }, 1000, 1125, true, false },
		/* Between 0.1 ms and the interval of 500 ms; what cannot change is not off. */
		{ { 980, 1020 }, { 980, 1020 }, 100, 100, false, false },
		{ { 980, 1020 }, { 980, 1020 }, 104, 100, false, true },
		{ { 980, 1020 }, { 0, 0 }, 500000, 500000, true, false },
		{ { 980, 1020 }, { 0, 0 }, 480000, 500000, false, true },
	};
	struct tiered *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	int i, tier;

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->tier[LOCAL].nr = 1000;
	t->tier[LOCAL].nr_pages[HOT] = 300;
	t->tier[LOCAL].nr_pages[COLD] = 680;
	t->tier[REMOTE].nr_pages[HOT] = 20;
	t->tier[REMOTE].nr_pages[COLD] = 1000;
	t->keep = TIERED_KEEP_ALL;
	t->alloc_threshold = 20;
	t->interval = 500;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const bool enough = cases[i].looked[LOCAL] + cases[i].looked[REMOTE] >= 500;

		for (tier = 0; tier < NR_TIERS; tier++) {
			t->tier[tier].looked = cases[i].looked[tier];
			t->tier[tier].seen = cases[i].seen[tier];
		}
		t->off = cases[i].off;
		t->window = cases[i].window * NSEC_PER_USEC;
		KUNIT_EXPECT_EQ_MSG(test, tiered_adapt_window(t), cases[i].off_after, "%d", i);
		KUNIT_EXPECT_EQ_MSG(test, t->window, cases[i].after * NSEC_PER_USEC, "%d", i);
		for (tier = 0; tier < NR_TIERS; tier++)
			KUNIT_EXPECT_EQ(test, t->tier[tier].looked,
					enough ? 0 : cases[i].looked[tier]);
	}
	/* Nearly all local: half of the rest is to look unused. Nothing, if all is. */
	KUNIT_EXPECT_EQ(test, tiered_target(2000, 1900), 1950);
	KUNIT_EXPECT_EQ(test, tiered_target(2000, 100), 150);
	KUNIT_EXPECT_EQ(test, tiered_target(2000, 2000), 2000);
	KUNIT_EXPECT_EQ(test, tiered_target(2000, 3000), 2000);
	KUNIT_EXPECT_EQ(test, tiered_target(2000, 0), 0);
	/* A threshold above all local memory is no room. */
	t->alloc_threshold = 5000;
	t->tier[LOCAL].looked = 980;
	t->tier[LOCAL].seen = 1;
	t->tier[REMOTE].looked = 1020;
	t->window = NSEC_PER_MSEC;
	KUNIT_EXPECT_FALSE(test, tiered_adapt_window(t));
	KUNIT_EXPECT_EQ(test, t->window, 875 * NSEC_PER_USEC);
}

/* Thresholds of 640 and 1,600: less while few pages are asked for, all when many are. */
static void tiered_test_keep(struct kunit *test)
{
	struct tiered *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	int round;

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->alloc_threshold = 640;
	t->reclaim_threshold = 1600;
	t->keep = 64;
	KUNIT_EXPECT_EQ(test, tiered_alloc_above(t), 640);
	KUNIT_EXPECT_EQ(test, tiered_reclaim_below(t), 1600);
	for (round = 0; round < 32; round++) {
		/* No more than half of what is kept, which is at least 330 */
		atomic_long_set(&t->asked, 165);
		tiered_adapt_keep(t);
		KUNIT_EXPECT_EQ(test, atomic_long_read(&t->asked), 0);
	}
	KUNIT_EXPECT_EQ(test, tiered_alloc_above(t), 320);
	KUNIT_EXPECT_EQ(test, tiered_reclaim_below(t), 800);
	for (; round < 100; round++)
		tiered_adapt_keep(t);
	/* A 64th of 640 is kept from hot pages; a 64th of 1,600 would be less than 64. */
	KUNIT_EXPECT_EQ(test, tiered_alloc_above(t), 10);
	KUNIT_EXPECT_EQ(test, tiered_reclaim_below(t), 64);
	for (round = 0; round < 6; round++) {
		atomic_long_set(&t->asked, tiered_alloc_above(t) / 2 + 1);
		tiered_adapt_keep(t);
	}
	KUNIT_EXPECT_EQ(test, tiered_alloc_above(t), 640);
	atomic_long_set(&t->asked, 100000);
	tiered_adapt_keep(t);
	KUNIT_EXPECT_EQ(test, tiered_alloc_above(t), 640);
	/* Of few pages none is kept; the other is small already. One page asked for is more. */
	t->keep = 1;
	t->alloc_threshold = 10;
	t->reclaim_threshold = 20;
	KUNIT_EXPECT_EQ(test, tiered_alloc_above(t), 0);
	KUNIT_EXPECT_EQ(test, tiered_reclaim_below(t), 20);
	tiered_adapt_keep(t);
	KUNIT_EXPECT_EQ(test, tiered_alloc_above(t), 0);
	for (round = 0; round < 3; round++) {
		atomic_long_set(&t->asked, 1);
		tiered_adapt_keep(t);
	}
	KUNIT_EXPECT_EQ(test, tiered_alloc_above(t), 1);	/* 10 * 8 / 64 */
	KUNIT_EXPECT_EQ(test, tiered_reclaim_below(t), 20);
}

/*
 * 40 local pages, hot ones, and 160 remote ones, 20 in a window: 4 and 16 of them, or 10 and 10
 * while a hot remote page that is not in doubt, but not five, is left after pages were moved.
 */
static void tiered_test_where_to_look(struct kunit *test)
{
	struct tiered *t = test_tiered(test, 40, 160, false);
	struct folio *folio[200];
	int i;

	t->batch = 20;
	t->window = NSEC_PER_SEC;
	for (i = 0; i < 200; i++) {
		folio[i] = page_folio(tier_get(&t->tier[i >= 40], 0));
		tiered_mark(folio[i], i < 40, 0);
		tiered_added(&t->super, folio[i]);
	}
	tiered_watch(t);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&t->tier[LOCAL].watched), 4);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&t->tier[REMOTE].watched), 16);
	tiered_look_at_all(t);		/* in no file: they go back as they were */
	tiered_balance(t);
	KUNIT_EXPECT_FALSE(test, t->waiting);
	for (i = 2; i >= 0; i -= 2) {
		spin_lock(&t->lock);
		tiered_del(t, folio[40]);
		tiered_add(t, folio[40], true, i);
		spin_unlock(&t->lock);
		tiered_balance(t);
		KUNIT_EXPECT_EQ(test, t->waiting, i == 0);
	}
	t->batch = 20;
	tiered_watch(t);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&t->tier[LOCAL].watched), 10);
	/* Of the one hot page and of 159 cold ones, rounded up */
	KUNIT_EXPECT_EQ(test, list_count_nodes(&t->tier[REMOTE].watched), 11);
	tiered_look_at_all(t);
	for (i = 41; i < 45; i++) {
		spin_lock(&t->lock);
		tiered_del(t, folio[i]);
		tiered_add(t, folio[i], true, 0);
		spin_unlock(&t->lock);
		tiered_balance(t);
		KUNIT_EXPECT_EQ(test, t->waiting, i < 44);
	}
	/* No fewer than by their number */
	KUNIT_EXPECT_EQ(test, tiered_local_batch(200, 120, 20, true), 12);
	KUNIT_EXPECT_EQ(test, tiered_local_batch(200, 120, 20, false), 12);
	KUNIT_EXPECT_EQ(test, tiered_local_batch(200, 0, 20, false), 0);
	/* Few are looked at, too. */
	KUNIT_EXPECT_EQ(test, tiered_local_batch(200, 1, 20, false), 1);
	KUNIT_EXPECT_EQ(test, tiered_local_batch(0, 0, 20, true), 0);
	for (i = 0; i < 200; i++) {
		tiered_removing(&t->super, folio[i]);
		mfs_test_free(&t->super, folio_page(folio[i], 0));
	}
	tiered_drain(&t->super);
}

/* Half of what is usual is enough; nothing is usual at first, and what is changes. */
static void tiered_test_waited(struct kunit *test)
{
	static const struct { int local, remote; bool waited; } cases[] = {
		{ 1, 1, true }, { 1, -1, true }, { -1, 1, true },
		{ 1, 0, false }, { 0, 1, false }, { 0, 0, false },
		{ 0, -1, false }, { -1, 0, false }, { -1, -1, false },
	};
	unsigned long usual = 0, before;
	int i, fewer;

	KUNIT_EXPECT_EQ(test, tiered_fewer(&usual, 100, 0), -1);
	/* One in two, for long: no window is unlike the others. */
	for (i = 0; i < 200; i++)
		KUNIT_ASSERT_LT(test, tiered_fewer(&usual, 300, 150), 1);
	KUNIT_EXPECT_EQ(test, tiered_fewer(&usual, 0, 0), -1);
	before = usual;
	/* One in four is half of it. */
	KUNIT_EXPECT_EQ(test, tiered_fewer(&usual, 4000, 1001), 0);
	usual = before;
	KUNIT_EXPECT_EQ(test, tiered_fewer(&usual, 4000, 995), 1);
	usual = before;
	KUNIT_EXPECT_EQ(test, tiered_fewer(&usual, 4000, 4000), 0);
	usual = before;
	/*
	 * One in eight from now on. The average is (1/2 - 1/8) (15/16)^n + 1/8 after n windows,
	 * which is 1/4 for n = 17: so many have fewer than usual, but for rounding.
	 */
	for (fewer = 0; tiered_fewer(&usual, 800, 100) > 0; fewer++)
		KUNIT_ASSERT_LT(test, fewer, 100);
	KUNIT_EXPECT_GE(test, fewer, 15);
	KUNIT_EXPECT_LE(test, fewer, 19);
	for (i = 0; i < 200; i++)
		KUNIT_ASSERT_EQ(test, tiered_fewer(&usual, 800, 100), 0);
	/* None: (15/16)^n / 8 is two of 1,024 for n = 65. */
	for (fewer = 0; tiered_fewer(&usual, 800, 0) > 0; fewer++)
		KUNIT_ASSERT_LT(test, fewer, 100);
	KUNIT_EXPECT_GE(test, fewer, 60);
	KUNIT_EXPECT_LE(test, fewer, 75);
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, tiered_waited(cases[i].local, cases[i].remote),
				    cases[i].waited, "%d", i);
}

/*
 * Who waits loses nothing: four pages that are hot, or one window short of cold, are as they
 * were, and next in turn, after a window in which none was used but half are usually. Where
 * none is usually, they are judged.
 */
static void tiered_test_waiting(struct kunit *test)
{
	struct address_space *mapping = kunit_kzalloc(test, sizeof(*mapping), GFP_KERNEL);
	struct tiered *t = test_tiered(test, 4, 4, false);
	struct tier *local = &t->tier[LOCAL];
	struct folio *folio[4];
	int i;

	KUNIT_ASSERT_NOT_NULL(test, mapping);
	t->window = NSEC_PER_MSEC;
	for (i = 0; i < 4; i++) {
		folio[i] = page_folio(tier_get(local, 0));
		tiered_mark(folio[i], true, i < 2 ? 0 : 2);
		tiered_added(&t->super, folio[i]);
		folio[i]->mapping = mapping;	/* mapped by nobody: not used */
		list_move(&folio[i]->lru, &local->watched);
	}
	local->usual = 512 * TIERED_USUAL;
	KUNIT_EXPECT_EQ(test, tiered_look_at_all(t), 0);
	KUNIT_EXPECT_TRUE(test, t->waited);
	KUNIT_EXPECT_EQ(test, local->usual, 480 * TIERED_USUAL);
	KUNIT_EXPECT_EQ(test, local->looked, 0);
	KUNIT_EXPECT_EQ(test, local->nr_pages[HOT], 4);
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_TRUE(test, folio_test_active(folio[i]));
		KUNIT_EXPECT_EQ(test, tiered_doubts(folio[i]), i < 2 ? 0 : 2);
		KUNIT_EXPECT_GE(test, test_place(&local->list[HOT], folio[i]), 0);
		list_move(&folio[i]->lru, &local->watched);
	}
	local->usual = 0;
	KUNIT_EXPECT_EQ(test, tiered_look_at_all(t), 2);
	KUNIT_EXPECT_FALSE(test, t->waited);
	KUNIT_EXPECT_EQ(test, local->looked, 2);
	KUNIT_EXPECT_EQ(test, local->seen, 0);
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, folio_test_active(folio[i]), i < 2);
		KUNIT_EXPECT_EQ(test, tiered_doubts(folio[i]), i < 2 ? 1 : 0);
	}
	KUNIT_EXPECT_TRUE(test, list_empty(&local->found[false]));
	KUNIT_EXPECT_TRUE(test, list_empty(&local->found[true]));
	for (i = 0; i < 4; i++) {
		folio[i]->mapping = NULL;
		tiered_removing(&t->super, folio[i]);
		mfs_test_free(&t->super, folio_page(folio[i], 0));
	}
	tiered_drain(&t->super);
}
