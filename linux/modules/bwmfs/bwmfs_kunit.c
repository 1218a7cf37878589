// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of how bwmfs deals pages out to nodes. They need a machine with two. */
#include "bwmfs.c"
#include "mfs_kunit.h"

static struct bw_round *test_round(struct kunit *test, const char *weights)
{
	struct bw_round *round = bw_make_round(weights);

	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(round), "%s", weights);
	return round;
}

static int bw_test_init(struct kunit *test)
{
	if (!node_state(0, N_MEMORY) || !node_state(1, N_MEMORY))
		kunit_skip(test, "needs nodes 0 and 1");
	return 0;
}

static struct bw *test_bw(struct kunit *test, const char *weights)
{
	struct bw *bw = kunit_kzalloc(test, sizeof(*bw), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, bw);
	bw->super.ops = &bw_ops;
	mutex_init(&bw->lock);
	RCU_INIT_POINTER(bw->round, test_round(test, weights));
	return bw;
}

/*
 * Rounds worked out by hand: who has the most credit gives the page, at equality the
 * lower node. 3:2 for instance has (3,2), (1,4), (4,1), (2,3), (5,0).
 */
static void bw_test_rounds(struct kunit *test)
{
	static const struct {
		const char *weights, *nodes;
	} cases[] = {
		{ "1", "0" }, { "0:1", "1" }, { "1:1", "01" }, { "2:1", "010" },
		{ "1:2", "101" }, { "3:1", "0010" }, { "1:3", "1011" },
		{ "3:2", "01010" }, { "2:3", "10101" }, { "5:2", "0100010" },
		{ " 2:2\n", "0101" },
	};
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bw_round *round = test_round(test, cases[i].weights);

		KUNIT_EXPECT_EQ(test, round->length, strlen(cases[i].nodes));
		for (j = 0; cases[i].nodes[j] && j < round->length; j++)
			KUNIT_EXPECT_EQ_MSG(test, round->node[j], cases[i].nodes[j] - '0',
					    "%s, page %u", cases[i].weights, j);
		kfree(round);
	}
}

static void bw_test_refused(struct kunit *test)
{
	static const char * const bad[] = {
		"", "0", "0:0", ":", "3:", ":3", "3,2", "-1", "3:2:x", "1025",
		"1024:1", "4294967296", "0x3", "1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_PTR_EQ_MSG(test, bw_make_round(bad[i]),
					ERR_PTR(-EINVAL), "\"%s\"", bad[i]);
	kfree(test_round(test, "1024"));
	kfree(test_round(test, "512:512"));
	/* Nodes without memory may be named with 0. */
	kfree(test_round(test, "1:1:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0"));
}

/*
 * All pairs of weights up to 24: the round has each node's pages, and after any number
 * of pages no node is a whole page away from its share.
 */
static void bw_test_shares(struct kunit *test)
{
	char text[16];
	int a, b;

	for (a = 0; a <= 24; a++) {
		for (b = !a; b <= 24; b++) {
			struct bw_round *round;
			int i, given = 0;

			snprintf(text, sizeof(text), "%d:%d", a, b);
			round = test_round(test, text);
			KUNIT_ASSERT_EQ(test, round->length, a + b);
			for (i = 0; i < a + b; i++) {
				given += round->node[i] == 0;
				KUNIT_EXPECT_LT_MSG(test, abs(given * (a + b) - a * (i + 1)),
						    a + b, "%s after %d", text, i + 1);
			}
			KUNIT_EXPECT_EQ_MSG(test, given, a, "%s", text);
			kfree(round);
		}
	}
}

/* Real pages are on the node whose turn it is; large ones have turns of their own. */
static void bw_test_pages(struct kunit *test)
{
	static const char turns[] = "0101001010", huge_turns[] = "010";
	struct bw *bw = test_bw(test, "3:2");
	struct page *page[ARRAY_SIZE(turns) + ARRAY_SIZE(huge_turns)];
	int i, nr = 0, huge = 0;
	struct mfs_run run;

	for (i = 0; turns[i]; i++) {
		if (i % 4 == 1) {
			KUNIT_ASSERT_EQ(test, mfs_test_alloc(&bw->super, HPAGE_PMD_NR,
							     PMD_ORDER, &run), 0);
			KUNIT_ASSERT_EQ(test, run.order, PMD_ORDER);
			KUNIT_EXPECT_EQ(test, run.nr, HPAGE_PMD_NR);
			KUNIT_EXPECT_EQ(test, page_to_nid(run.page), huge_turns[huge++] - '0');
			page[nr++] = run.page;
		}
		KUNIT_ASSERT_EQ(test, mfs_test_alloc(&bw->super, 100, 0, &run), 0);
		KUNIT_EXPECT_EQ(test, run.nr, 1);
		KUNIT_EXPECT_EQ(test, page_to_nid(run.page), turns[i] - '0');
		page[nr++] = run.page;
	}
	KUNIT_EXPECT_EQ(test, huge, 3);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&bw->placed[0]), 6 + 2 * 512);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&bw->placed[1]), 4 + 512);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&bw->elsewhere), 0);
	while (nr)
		mfs_test_free(&bw->super, page[--nr]);
	bw_drain(&bw->super);
}

/* New weights begin a round: 2 pages of 3:2, then 1:3 from its first page on. */
static void bw_test_new_weights(struct kunit *test)
{
	struct bw *bw = test_bw(test, "3:2");
	static const char after[] = "10111011";
	int i;

	KUNIT_EXPECT_EQ(test, bw_next_node(bw, false), 0);
	KUNIT_EXPECT_EQ(test, bw_next_node(bw, false), 1);
	KUNIT_EXPECT_EQ(test, bw_next_node(bw, true), 0);
	KUNIT_EXPECT_EQ(test, weights_store(&bw->super.kobj, NULL, "1:3\n", 4), 4);
	for (i = 0; after[i]; i++)
		KUNIT_EXPECT_EQ(test, bw_next_node(bw, false), after[i] - '0');
	KUNIT_EXPECT_EQ(test, bw_next_node(bw, true), 1);
	/* What is refused changes nothing. */
	KUNIT_EXPECT_EQ(test, weights_store(&bw->super.kobj, NULL, "9:x\n", 4), -EINVAL);
	KUNIT_EXPECT_EQ(test, bw_next_node(bw, true), 0);
	bw_drain(&bw->super);
}

/* What weights says can be written to it again, on machines with gaps, too. */
static void bw_test_shown_by_node(struct kunit *test)
{
	char *buf = (char *)get_zeroed_page(GFP_KERNEL);
	struct bw *bw = kunit_kzalloc(test, sizeof(*bw), GFP_KERNEL);
	nodemask_t nodes = NODE_MASK_NONE;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_NOT_NULL(test, bw);
	atomic_long_set(&bw->placed[2], 2);
	node_set(2, nodes);
	bw_show_nodes(buf, &nodes, bw_placed, bw);
	KUNIT_EXPECT_STREQ(test, buf, "0:0:2\n");
	node_set(0, nodes);
	atomic_long_set(&bw->placed[0], 3);
	bw_show_nodes(buf, &nodes, bw_placed, bw);
	KUNIT_EXPECT_STREQ(test, buf, "3:0:2\n");
	node_clear(2, nodes);
	KUNIT_EXPECT_EQ(test, bw_show_nodes(buf, &nodes, bw_placed, bw), 2);
	KUNIT_EXPECT_STREQ(test, buf, "3\n");
	free_page((unsigned long)buf);
}

static struct kunit_case bw_cases[] = {
	KUNIT_CASE(bw_test_rounds),
	KUNIT_CASE(bw_test_refused),
	KUNIT_CASE(bw_test_shares),
	KUNIT_CASE(bw_test_pages),
	KUNIT_CASE(bw_test_new_weights),
	KUNIT_CASE(bw_test_shown_by_node),
	{}
};

static struct kunit_suite bw_suite = {
	.name = "bwmfs",
	.init = bw_test_init,
	.test_cases = bw_cases,
};
kunit_test_suite(bw_suite);
