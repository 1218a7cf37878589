// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of basicmfs's one decision, which page comes next, and of its pool. */
#include "basicmfs.c"
#include "mfs_kunit.h"

#define TEST_PAGES	8

static struct basic *test_basic(struct kunit *test)
{
	struct basic *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, b);
	b->super.ops = &basic_ops;
	mfs_pool_init(&b->pool, NUMA_NO_NODE);
	KUNIT_ASSERT_EQ(test, mfs_pool_fill(&b->pool, TEST_PAGES), 0);
	return b;
}

static void test_take_all(struct kunit *test, struct basic *b, struct page **page)
{
	int i;

	for (i = 0; i < TEST_PAGES; i++) {
		page[i] = mfs_test_page(&b->super);
		KUNIT_ASSERT_NOT_NULL(test, page[i]);
	}
}

static void test_expect_stat(struct kunit *test, struct basic *b,
			     unsigned long all, unsigned long spare, unsigned long now)
{
	struct kstatfs stat = {};

	basic_statfs(&b->super, &stat);
	KUNIT_EXPECT_EQ(test, stat.f_blocks, all);
	KUNIT_EXPECT_EQ(test, stat.f_bfree, spare);
	KUNIT_EXPECT_EQ(test, stat.f_bavail, now);
}

/* As many pages as were set aside, each once, of order 0 however much is wanted. */
static void basic_test_all_and_no_more(struct kunit *test)
{
	struct basic *b = test_basic(test);
	struct page *page[TEST_PAGES];
	struct mfs_run run;
	int i, j;

	test_expect_stat(test, b, 8, 8, 8);
	for (i = 0; i < TEST_PAGES; i++) {
		KUNIT_ASSERT_EQ(test, mfs_test_alloc(&b->super, 100, PMD_ORDER, &run), 0);
		KUNIT_EXPECT_EQ(test, run.nr, 1);
		KUNIT_EXPECT_EQ(test, run.order, 0);
		KUNIT_EXPECT_EQ(test, page_ref_count(run.page), 1);
		page[i] = run.page;
		for (j = 0; j < i; j++)
			KUNIT_EXPECT_PTR_NE(test, page[i], page[j]);
	}
	test_expect_stat(test, b, 8, 0, 0);
	KUNIT_EXPECT_EQ(test, mfs_test_alloc(&b->super, 1, 0, &run), -ENOSPC);
	for (i = 0; i < TEST_PAGES; i++)
		mfs_test_free(&b->super, page[i]);
	test_expect_stat(test, b, 8, 8, 8);
	basic_drain(&b->super);
}

/* What came back last is given first: it is the likeliest to be in a cache. */
static void basic_test_last_in_first_out(struct kunit *test)
{
	static const int order[] = { 3, 0, 7, 5 };
	struct basic *b = test_basic(test);
	struct page *page[TEST_PAGES];
	int i;

	test_take_all(test, b, page);
	for (i = 0; i < ARRAY_SIZE(order); i++)
		mfs_test_free(&b->super, page[order[i]]);
	for (i = ARRAY_SIZE(order) - 1; i >= 0; i--)
		KUNIT_EXPECT_PTR_EQ(test, mfs_test_page(&b->super), page[order[i]]);
	KUNIT_EXPECT_NULL(test, mfs_test_page(&b->super));
	for (i = 0; i < TEST_PAGES; i++)
		mfs_test_free(&b->super, page[i]);
	basic_drain(&b->super);
}

/* A page that somebody still has is never given again: another takes its place. */
static void basic_test_page_in_use(struct kunit *test)
{
	struct basic *b = test_basic(test);
	struct page *page[TEST_PAGES], *again;
	int i;

	test_take_all(test, b, page);
	get_page(page[2]);
	mfs_test_free(&b->super, page[2]);
	KUNIT_EXPECT_EQ(test, page_ref_count(page[2]), 1);	/* the pipe's, say */
	test_expect_stat(test, b, 8, 1, 0);
	again = mfs_test_page(&b->super);
	KUNIT_ASSERT_NOT_NULL(test, again);
	KUNIT_EXPECT_PTR_NE(test, again, page[2]);
	KUNIT_EXPECT_EQ(test, page_ref_count(again), 1);
	test_expect_stat(test, b, 8, 0, 0);
	KUNIT_EXPECT_NULL(test, mfs_test_page(&b->super));
	put_page(page[2]);
	page[2] = again;
	for (i = 0; i < TEST_PAGES; i++)
		mfs_test_free(&b->super, page[i]);
	test_expect_stat(test, b, 8, 8, 8);
	basic_drain(&b->super);
}

/* A row is taken whole or not at all. */
static void basic_test_row(struct kunit *test)
{
	struct page *row = alloc_pages(GFP_KERNEL, 2), *page;
	struct mfs_pool pool = {};
	int i;

	KUNIT_ASSERT_NOT_NULL(test, row);
	split_page(row, 2);
	mfs_pool_init(&pool, NUMA_NO_NODE);
	mfs_pool_add(&pool, row, 4);
	page = mfs_pool_get(&pool);
	spin_lock(&pool.lock);
	KUNIT_EXPECT_FALSE(test, mfs_pool_take_row(&pool, row, 4));
	KUNIT_EXPECT_EQ(test, pool.nr_free, 3);
	spin_unlock(&pool.lock);
	mfs_pool_put(&pool, page_folio(page));
	spin_lock(&pool.lock);
	KUNIT_EXPECT_TRUE(test, mfs_pool_take_row(&pool, row, 4));
	KUNIT_EXPECT_EQ(test, pool.nr_free, 0);
	KUNIT_EXPECT_EQ(test, pool.nr, 0);
	spin_unlock(&pool.lock);
	mfs_pool_drain(&pool);
	for (i = 0; i < 4; i++)
		__free_page(row + i);
}

static struct kunit_case basic_cases[] = {
	KUNIT_CASE(basic_test_all_and_no_more),
	KUNIT_CASE(basic_test_last_in_first_out),
	KUNIT_CASE(basic_test_page_in_use),
	KUNIT_CASE(basic_test_row),
	{}
};

static struct kunit_suite basic_suite = {
	.name = "basicmfs",
	.test_cases = basic_cases,
};
kunit_test_suite(basic_suite);
