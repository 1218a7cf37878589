// SPDX-License-Identifier: GPL-2.0
/*
 * FolioMap's arithmetic as this kernel's compiler built it. The wide tests are
 * in tools/testing/foliomap; these are their core.
 */
#include <kunit/test.h>
#include <linux/foliomap_arith.h>
#include <linux/prandom.h>

#define SPACES 8

static bool exclusive(const unsigned long *words, unsigned int order,
		unsigned int id, unsigned int mapcount)
{
	unsigned int w;

	if (mapcount > 1u << order)
		return false;
	for (w = 0; w < foliomap_words(order); w++)
		if (!foliomap_word_matches(words[w],
				foliomap_unit_word(id, order, w), mapcount))
			return false;
	return true;
}

static void change(unsigned long *words, unsigned int order, unsigned int id,
		long nr)
{
	unsigned int w;

	for (w = 0; w < foliomap_words(order); w++)
		words[w] += foliomap_unit_word(id, order, w) * nr;
}

static void foliomap_test_random(struct kunit *test)
{
	struct rnd_state rnd;
	unsigned int order, i, step;

	prandom_seed_state(&rnd, 1);
	for (order = 1; order <= FOLIOMAP_MAX_ORDER; order++) {
		unsigned int mappings[SPACES] = {}, mapcount = 0;
		unsigned long words[FOLIOMAP_WORDS] = {};
		unsigned int ids[SPACES];

		/* Distinct in the low bits, anything above. */
		for (i = 0; i < SPACES; i++)
			ids[i] = (prandom_u32_state(&rnd) & FOLIOMAP_MAX_ID &
				  ~(SPACES - 1)) | i;
		for (step = 0; step < 2000; step++) {
			u32 space = prandom_u32_state(&rnd) % SPACES;
			int nr = 1 + prandom_u32_state(&rnd) % (1u << order);

			if (mappings[space])
				nr = -(int)mappings[space];
			mappings[space] += nr;
			mapcount += nr;
			change(words, order, ids[space], nr);
			for (i = 0; i < SPACES; i++)
				KUNIT_ASSERT_EQ(test,
					exclusive(words, order, ids[i], mapcount),
					mappings[i] == mapcount &&
					mapcount <= 1u << order);
		}
	}
}

static void foliomap_test_one_word_is_unsound(struct kunit *test)
{
	static const struct { unsigned int id, nr; } mapping[] = {
		{ 182, 14 }, { 150, 14 }, { 146, 14 }, { 246, 12 },
		{ 144, 12 }, { 247, 2 }, { 16, 2 },
	};
	unsigned long words[FOLIOMAP_WORDS] = {};
	unsigned int i, mapcount = 0;

	for (i = 0; i < ARRAY_SIZE(mapping); i++) {
		change(words, 9, mapping[i].id, mapping[i].nr);
		mapcount += mapping[i].nr;
	}
	KUNIT_EXPECT_FALSE(test, exclusive(words, 9, 0xaa, mapcount));
}

static struct kunit_case foliomap_cases[] = {
	KUNIT_CASE(foliomap_test_random),
	KUNIT_CASE(foliomap_test_one_word_is_unsound),
	{}
};

static struct kunit_suite foliomap_suite = {
	.name = "foliomap",
	.test_cases = foliomap_cases,
};
kunit_test_suite(foliomap_suite);

MODULE_DESCRIPTION("KUnit tests of FolioMap's arithmetic");
MODULE_LICENSE("GPL");
