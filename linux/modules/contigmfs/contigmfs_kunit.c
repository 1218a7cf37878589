// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of the pieces that contigmfs gives, and of its range table. */
#include <linux/sort.h>

#include "contigmfs.c"
#include "mfs_kunit.h"

static struct contig *test_contig(struct kunit *test)
{
	struct contig *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	c->super.ops = &contig_ops;
	return c;
}

/*
 * A hole is filled at once, by the smallest block that has it whole, or by blocks in a
 * row. Worked out by hand; a freshly booted guest has blocks of all orders.
 */
static void contig_test_pieces(struct kunit *test)
{
	static const struct {
		unsigned long wanted, given;
		unsigned int order;
	} cases[] = {
		{ 1, 1, 0 }, { 2, 2, 1 }, { 3, 3, 2 }, { 4, 4, 2 }, { 5, 5, 3 },
		{ 8, 8, 3 }, { 9, 9, 4 }, { 511, 511, 9 }, { 512, 512, 9 },
		{ 513, 513, 10 }, { 1000, 1000, 10 }, { 1024, 1024, 10 },
		{ 1025, 1025, 11 }, { 2048, 2048, 11 }, { 2049, 2049, 12 },
		{ 5000, 5000, 13 }, { CONTIG_MOST, CONTIG_MOST, 14 },
	};
	struct contig *c = test_contig(test);
	unsigned int i, order;
	struct mfs_run run;
	unsigned long j;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		long before[CONTIG_ORDERS];

		for (order = 0; order < CONTIG_ORDERS; order++)
			before[order] = atomic_long_read(&c->pieces[order]);
		KUNIT_ASSERT_EQ(test, mfs_test_alloc(&c->super, cases[i].wanted, 0, &run), 0);
		KUNIT_EXPECT_EQ(test, run.nr, cases[i].given);
		KUNIT_EXPECT_EQ(test, run.order, 0);
		/* Blocks are aligned to their size, and pages are in a row in one zone. */
		KUNIT_EXPECT_EQ(test, page_to_pfn(run.page) %
				min(1UL << cases[i].order, MAX_ORDER_NR_PAGES), 0);
		KUNIT_EXPECT_PTR_EQ(test, page_zone(run.page + run.nr - 1),
				    page_zone(run.page));
		for (order = 0; order < CONTIG_ORDERS; order++)
			KUNIT_EXPECT_EQ(test, atomic_long_read(&c->pieces[order]),
					before[order] + (order == cases[i].order));
		/* Single pages, for files to have and give back one by one */
		for (j = 0; j < run.nr; j++) {
			KUNIT_EXPECT_EQ(test, page_ref_count(run.page + j), 1);
			KUNIT_EXPECT_FALSE(test, PageCompound(run.page + j));
			mfs_test_free(&c->super, run.page + j);
		}
	}
}

/* All largest blocks that are free, also below the watermarks, in the order of their places */
#define TEST_BLOCKS	2048

static int contig_by_place(const void *one, const void *other)
{
	const struct page *a = *(struct page **)one, *b = *(struct page **)other;

	return a < b ? -1 : a > b;
}

static unsigned int contig_take_blocks(struct page **blocks)
{
	unsigned int nr;

	for (nr = 0; nr < TEST_BLOCKS; nr++) {
		blocks[nr] = alloc_pages(GFP_HIGHUSER | __GFP_MEMALLOC | __GFP_NORETRY |
					 __GFP_NOWARN, MAX_PAGE_ORDER);
		if (!blocks[nr])
			break;
	}
	sort(blocks, nr, sizeof(*blocks), contig_by_place, NULL);
	return nr;
}

/* The first of @nr neighbours in one zone; @all if there are none. */
static unsigned int contig_find_neighbours(struct page **blocks, unsigned int all,
					   unsigned int nr)
{
	unsigned int i, row = 0;

	for (i = 0; i < all; i++) {
		row = i && row && blocks[i] == blocks[i - 1] + MAX_ORDER_NR_PAGES &&
		      page_zone(blocks[i]) == page_zone(blocks[i - 1]) ? row + 1 : 1;
		if (row == nr)
			return i + 1 - nr;
	}
	return all;
}

/* Whether the test keeps block @i; its map is of the blocks from @first on. */
static bool contig_kept(const char *map, unsigned int i, unsigned int first)
{
	if (i >= first && i < first + strlen(map))
		return map[i - first] == '-';
	return i % 2;
}

/*
 * Of all largest blocks those are free that are marked, and elsewhere every second one,
 * so that nowhere else are there two in a row. The first range that has what is wanted
 * is taken; where none has, the longest; and where none is longer than a block, a block.
 */
static void contig_test_rows(struct kunit *test)
{
	static const char map[] = "-aa-bbb-cccc-";
	static const struct {
		unsigned long wanted, given;
		char range;		/* 'x': in none of these */
	} cases[] = {
		{ 3000, 3000, 'b' }, { 5000, 4096, 'c' }, { 1500, 1500, 'a' },
		{ 1500, 1024, 'x' },
	};
	struct page **blocks = kunit_kcalloc(test, TEST_BLOCKS, sizeof(*blocks), GFP_KERNEL);
	struct mfs_run runs[ARRAY_SIZE(cases)] = {};
	const unsigned int len = strlen(map);
	struct contig *c = test_contig(test);
	int errs[ARRAY_SIZE(cases)];
	unsigned int nr, first, i;
	unsigned long j;

	KUNIT_ASSERT_NOT_NULL(test, blocks);
	nr = contig_take_blocks(blocks);
	first = contig_find_neighbours(blocks, nr, len);
	for (i = 0; i < nr; i++)
		if (!contig_kept(map, i, first))
			__free_pages(blocks[i], MAX_PAGE_ORDER);
	for (i = 0; first < nr && i < ARRAY_SIZE(cases); i++)
		errs[i] = mfs_test_alloc(&c->super, cases[i].wanted, 0, &runs[i]);
	for (i = 0; i < nr; i++)
		if (contig_kept(map, i, first))
			__free_pages(blocks[i], MAX_PAGE_ORDER);
	/* All is given back before anything is said about it. */
	for (i = 0; first < nr && i < ARRAY_SIZE(cases); i++)
		for (j = 0; !errs[i] && j < runs[i].nr; j++)
			mfs_test_free(&c->super, runs[i].page + j);
	KUNIT_ASSERT_LT_MSG(test, first, nr, "of %u blocks no %u are neighbours", nr, len);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *range = strchr(map, cases[i].range);

		KUNIT_ASSERT_EQ(test, errs[i], 0);
		KUNIT_EXPECT_EQ(test, runs[i].nr, cases[i].given);
		if (range)
			KUNIT_EXPECT_PTR_EQ(test, runs[i].page, blocks[first + (range - map)]);
	}
}

/* What is longer than needed goes back: 511 pages of a block, 200 times, are 400 MB. */
static void contig_test_rest_goes_back(struct kunit *test)
{
	const unsigned long before = si_mem_available();
	struct contig *c = test_contig(test);
	struct mfs_run run;
	unsigned long j;
	int i;

	for (i = 0; i < 200; i++) {
		const unsigned long wanted = i % 2 ? 513 : 1537;

		KUNIT_ASSERT_EQ(test, mfs_test_alloc(&c->super, wanted, 0, &run), 0);
		for (j = 0; j < run.nr; j++)
			mfs_test_free(&c->super, run.page + j);
	}
	KUNIT_EXPECT_GE(test, si_mem_available() + (16 << (20 - PAGE_SHIFT)), before);
}

/* A range ends where either the place in the file or the frame does not go on. */
static void contig_test_ranges(struct kunit *test)
{
	static const unsigned long place[][2] = {
		{ 5, 100 }, { 6, 101 },		/* go on */
		{ 7, 103 },			/* another frame */
		{ 9, 104 },			/* a hole in the file */
		{ 10, 103 }, { 11, 104 },	/* backwards, and on */
		{ 12, 104 },
	};
	struct mfs_inode *mi = kunit_kzalloc(test, sizeof(*mi), GFP_KERNEL);
	struct seq_file seq = { .size = PAGE_SIZE };
	int i;

	KUNIT_ASSERT_NOT_NULL(test, mi);
	seq.buf = kunit_kzalloc(test, seq.size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, seq.buf);
	inode_init_once(&mi->inode);
	init_rwsem(&mi->inode.i_data.invalidate_lock);
	mi->inode.i_mapping = &mi->inode.i_data;
	mi->inode.i_ino = 77;
	xa_init(&mi->folios);
	contig_show_file(&seq, &mi->inode);
	KUNIT_EXPECT_EQ(test, seq.count, 0);
	/* Only where they are matters; nothing is done to these pages. */
	for (i = 0; i < ARRAY_SIZE(place); i++)
		KUNIT_ASSERT_EQ(test, xa_err(xa_store(&mi->folios, place[i][0],
						      pfn_folio(place[i][1]),
						      GFP_KERNEL)), 0);
	contig_show_file(&seq, &mi->inode);
	KUNIT_EXPECT_STREQ(test, seq.buf,
			   "77 5 2 100\n77 7 1 103\n77 9 1 104\n77 10 2 103\n77 12 1 104\n");
	xa_destroy(&mi->folios);
}

static struct kunit_case contig_cases[] = {
	KUNIT_CASE(contig_test_pieces),
	KUNIT_CASE(contig_test_rows),
	KUNIT_CASE(contig_test_rest_goes_back),
	KUNIT_CASE(contig_test_ranges),
	{}
};

static struct kunit_suite contig_suite = {
	.name = "contigmfs",
	.test_cases = contig_cases,
};
kunit_test_suite(contig_suite);
