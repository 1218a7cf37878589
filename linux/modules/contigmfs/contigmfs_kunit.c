// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of the pieces that contigmfs gives, and of its range table. */
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
 * A hole is filled at once, up to 4 MB, by the smallest block that has it whole.
 * Worked out by hand; a freshly booted guest has blocks of all orders.
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
		{ 1025, 1024, 10 }, { 100000, 1024, 10 },
	};
	struct contig *c = test_contig(test);
	unsigned int i, order;
	struct mfs_run run;
	unsigned long j;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		long before[NR_PAGE_ORDERS];

		for (order = 0; order < NR_PAGE_ORDERS; order++)
			before[order] = atomic_long_read(&c->pieces[order]);
		KUNIT_ASSERT_EQ(test, mfs_test_alloc(&c->super, cases[i].wanted, 0, &run), 0);
		KUNIT_EXPECT_EQ(test, run.nr, cases[i].given);
		KUNIT_EXPECT_EQ(test, run.order, 0);
		/* Blocks are aligned to their size. */
		KUNIT_EXPECT_EQ(test, page_to_pfn(run.page) % (1UL << cases[i].order), 0);
		for (order = 0; order < NR_PAGE_ORDERS; order++)
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

/* What is longer than needed goes back: 511 of 1,024 pages, 200 times, are 400 MB. */
static void contig_test_rest_goes_back(struct kunit *test)
{
	const unsigned long before = si_mem_available();
	struct contig *c = test_contig(test);
	struct mfs_run run;
	unsigned long j;
	int i;

	for (i = 0; i < 200; i++) {
		KUNIT_ASSERT_EQ(test, mfs_test_alloc(&c->super, 513, 0, &run), 0);
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
	KUNIT_CASE(contig_test_rest_goes_back),
	KUNIT_CASE(contig_test_ranges),
	{}
};

static struct kunit_suite contig_suite = {
	.name = "contigmfs",
	.test_cases = contig_cases,
};
kunit_test_suite(contig_suite);
