// SPDX-License-Identifier: GPL-2.0
/*
 * The arithmetic of the distributed page table as this kernel's compiler built
 * it, against CityHash's own test and a program that shares no code.
 */
#include <kunit/test.h>
#include <linux/dpt_arith.h>

#include "vectors.h"

/* CityHash's own test, length 8: bytes 64 to 71 of its data, and its seed */
static void dpt_test_published(struct kunit *test)
{
	const u64 k0 = 0xc3a5c85c97cb3127ull;
	u64 a = 9, b = 777, key = 0;
	int i;

	for (i = 0; i < 72; i++) {
		a += b;
		b += a;
		a = (a ^ (a >> 41)) * k0;
		b = (b ^ (b >> 41)) * k0 + i;
		if (i >= 64)
			key |= (u64)(u8)(b >> 37) << (8 * (i - 64));
	}
	KUNIT_EXPECT_EQ(test, dpt_hash(key, 1234567), 0x69d008c20f87419full);
}

static void dpt_test_vectors(struct kunit *test)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(vectors); i++) {
		u64 seed = dpt_seed(vectors[i].key, vectors[i].level);
		u64 base = dpt_base_frame(vectors[i].tag, seed, vectors[i].frames);
		u8 metadata = dpt_metadata(vectors[i].stride, vectors[i].step);

		KUNIT_EXPECT_EQ(test, base, vectors[i].base);
		KUNIT_EXPECT_EQ(test, dpt_frame(base, metadata, vectors[i].frames),
				vectors[i].frame);
		KUNIT_EXPECT_TRUE(test, dpt_metadata_valid(metadata));
	}
	KUNIT_EXPECT_FALSE(test, dpt_metadata_valid(DPT_INVALID));
}

/* Frames are numbered without the holes between ranges. */
static void dpt_test_ranges(struct kunit *test)
{
	static const struct dpt_range ranges[] = { { 1, 158 }, { 256, 1000 }, { 1 << 20, 7 } };
	u64 frame = 0, i;
	int range;

	for (range = 0; range < ARRAY_SIZE(ranges); range++)
		for (i = 0; i < ranges[range].frames; i++)
			KUNIT_EXPECT_EQ(test, dpt_pfn(frame++, ranges),
					ranges[range].start + i);
}

/* What names an exceptional table is that table's alone, and is not empty or gone. */
static void dpt_test_exceptions(struct kunit *test)
{
	u64 pages;

	KUNIT_EXPECT_EQ(test, sizeof(struct dpt_exception) * DPT_EXCEPTIONS_A_LINE, 64);
	KUNIT_EXPECT_NE(test, dpt_exception_key(0, DPT_4K), dpt_exception_key(0, DPT_2M));
	KUNIT_EXPECT_NE(test, dpt_exception_key(1, DPT_4K), dpt_exception_key(0, DPT_1G));
	KUNIT_EXPECT_TRUE(test, dpt_exception_key(0, DPT_4K) & DPT_EXCEPTION);
	KUNIT_EXPECT_FALSE(test, DPT_EXCEPTION_GONE & DPT_EXCEPTION);
	KUNIT_EXPECT_NE(test, dpt_exception_key(3, DPT_4K) | DPT_EXCEPTION_HIDDEN,
			dpt_exception_key(3, DPT_4K));
	KUNIT_EXPECT_FALSE(test, dpt_metadata_valid(DPT_ELSEWHERE));
	KUNIT_EXPECT_NE(test, DPT_ELSEWHERE, DPT_INVALID);
	for (pages = 1; pages <= DPT_EXCEPTION_PAGES; pages *= 2)
		KUNIT_EXPECT_LT(test, dpt_exception_page(77, 5, pages), pages);
	KUNIT_EXPECT_LT(test, dpt_exception_line(77, 5), DPT_EXCEPTION_LINES);
}

/* No two metadata of a line share a bit. */
static void dpt_test_line(struct kunit *test)
{
	struct dpt_line line = {};
	u64 tag;

	KUNIT_EXPECT_EQ(test, sizeof(line), 64);
	for (tag = 0; tag < 1 << DPT_GROUP_SHIFT; tag++) {
		u64 *word = &line.word[dpt_line_word(tag)];
		u64 bits = (u64)DPT_INVALID << dpt_line_shift(tag);

		KUNIT_ASSERT_LT(test, dpt_line_word(tag), DPT_LINE_WORDS - 1);
		KUNIT_ASSERT_LE(test, dpt_line_shift(tag) + DPT_METADATA_BITS, 64);
		KUNIT_EXPECT_EQ(test, *word & bits, 0);
		*word |= bits;
	}
}

static struct kunit_case dpt_cases[] = {
	KUNIT_CASE(dpt_test_published),
	KUNIT_CASE(dpt_test_vectors),
	KUNIT_CASE(dpt_test_line),
	KUNIT_CASE(dpt_test_ranges),
	KUNIT_CASE(dpt_test_exceptions),
	{}
};

static struct kunit_suite dpt_suite = {
	.name = "dpt",
	.test_cases = dpt_cases,
};
kunit_test_suite(dpt_suite);

MODULE_DESCRIPTION("KUnit tests of the distributed page table's arithmetic");
MODULE_LICENSE("GPL");
