// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of FolioMap's arithmetic. The truth is a plain table of how many
 * mappings each address space has; both the kernel's layout and the paper's
 * number must answer as the table does.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../../include/linux/foliomap_arith.h"
#include "paper_base.h"

#define MAX_SPACES 16
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static unsigned long checks;

#define CHECK(cond, fmt, ...) do {					\
	checks++;							\
	if (!(cond)) {							\
		printf("not ok - %s:%d: " fmt "\n", __func__, __LINE__, \
		       ##__VA_ARGS__);					\
		exit(1);						\
	}								\
} while (0)

/* A folio, three times: as a table, in the kernel's layout, in the paper's. */
struct model {
	unsigned int order;
	unsigned int mapcount;
	unsigned int spaces;
	unsigned int id[MAX_SPACES];
	unsigned int mappings[MAX_SPACES];
	unsigned long words[FOLIOMAP_WORDS];
	struct big big;
};

static void model_init(struct model *m, unsigned int order)
{
	memset(m, 0, sizeof(*m));
	m->order = order;
}

/* Add (or, negative, remove) mappings by one address space in one batch. */
static void model_change(struct model *m, unsigned int space, int nr)
{
	struct big unit = paper_unit(m->id[space], m->order);
	unsigned int w;

	m->mapcount += nr;
	m->mappings[space] += nr;
	for (w = 0; w < foliomap_words(m->order); w++)
		m->words[w] += foliomap_unit_word(m->id[space], m->order, w) *
			       (unsigned long)(long)nr;
	big_mul(&unit, abs(nr));
	if (nr > 0)
		big_add(&m->big, &unit);
	else
		big_sub(&m->big, &unit);
}

static bool kernel_exclusive(const struct model *m, unsigned int id)
{
	unsigned int w;

	if (m->mapcount > 1u << m->order)
		return false;
	for (w = 0; w < foliomap_words(m->order); w++)
		if (!foliomap_word_matches(m->words[w],
					   foliomap_unit_word(id, m->order, w),
					   m->mapcount))
			return false;
	return true;
}

static void model_check(const struct model *m)
{
	unsigned int i;

	for (i = 0; i < m->spaces; i++) {
		bool truth = m->mappings[i] == m->mapcount &&
			     m->mapcount <= 1u << m->order;

		CHECK(kernel_exclusive(m, m->id[i]) == truth,
		      "order %u, id %#x: kernel layout disagrees with the table",
		      m->order, m->id[i]);
		CHECK(paper_exclusive(&m->big, m->id[i], m->order, m->mapcount) == truth,
		      "order %u, id %#x: paper's base disagrees with the table",
		      m->order, m->id[i]);
	}
}

/* Every way to give up to nr_pages + 2 mappings to the ids 1 to 7. */
static void enumerate(struct model *m, unsigned int space, unsigned int left)
{
	unsigned int nr;

	if (space == m->spaces) {
		model_check(m);
		return;
	}
	for (nr = 0; nr <= left; nr++) {
		if (nr)
			model_change(m, space, nr);
		enumerate(m, space + 1, left - nr);
		if (nr)
			model_change(m, space, -(int)nr);
	}
}

static void test_exhaustive(void)
{
	unsigned int order, i;

	for (order = 1; order <= 3; order++) {
		struct model m;

		model_init(&m, order);
		m.spaces = 7;
		for (i = 0; i < m.spaces; i++)
			m.id[i] = i + 1;
		enumerate(&m, 0, (1u << order) + 2);
	}
}

/* All pairs of ids, each with one mapping: no two units may add up to a third. */
static void test_all_pairs(void)
{
	unsigned int order, a, b, id;

	for (order = 1; order <= FOLIOMAP_MAX_ORDER; order++) {
		for (a = 1; a < 64; a++) {
			for (b = a + 1; b < 64; b++) {
				struct model m;

				model_init(&m, order);
				m.spaces = 2;
				m.id[0] = a;
				m.id[1] = b;
				model_change(&m, 0, 1);
				model_change(&m, 1, 1);
				for (id = 0; id < 64; id++)
					CHECK(!kernel_exclusive(&m, id),
					      "order %u: %u and %u look like %u",
					      order, a, b, id);
			}
		}
	}
}

/* Random batches over random ids, far past nr_pages and back to nothing. */
static void test_random(void)
{
	unsigned int order, round, i, step;

	for (order = 1; order <= FOLIOMAP_MAX_ORDER; order++) {
		for (round = 0; round < 200; round++) {
			struct model m;

			model_init(&m, order);
			m.spaces = 2 + rand() % (MAX_SPACES - 2);
			for (i = 0; i < m.spaces; i++) {
				unsigned int j;
again:
				m.id[i] = 1 + rand() % FOLIOMAP_MAX_ID;
				/* Ids that differ in one bit are the hard ones. */
				if (i && rand() % 2)
					m.id[i] = m.id[0] ^ (1u << (rand() % FOLIOMAP_ID_BITS));
				for (j = 0; j < i; j++)
					if (m.id[j] == m.id[i])
						goto again;
			}
			for (step = 0; step < 60; step++) {
				i = rand() % m.spaces;
				if (m.mappings[i] && rand() % 2)
					model_change(&m, i, -(int)(1 + rand() % m.mappings[i]));
				else
					model_change(&m, i, 1 + rand() % (1u << order));
				model_check(&m);
			}
			/* One address space after the other goes; the last is alone. */
			for (i = 0; i < m.spaces; i++) {
				model_check(&m);
				if (m.mappings[i])
					model_change(&m, i, -(int)m.mappings[i]);
			}
			model_check(&m);
			for (i = 0; i < FOLIOMAP_WORDS; i++)
				CHECK(!m.words[i], "order %u: a rest of %#lx in word %u",
				      order, m.words[i], i);
		}
	}
}

/* The largest aggregator that is ever compared must fit: Eq. 2 and our words. */
static void test_sizes(void)
{
	/* Eq. 2 for 22 bits of id. The paper states the last one. */
	static const int bits[] = { 35, 52, 70, 90, 111, 133, 155, 177, 199 };
	unsigned int order, w;

	for (order = 1; order <= FOLIOMAP_MAX_ORDER; order++) {
		const unsigned int nr_pages = 1u << order;
		struct big full = paper_unit(FOLIOMAP_MAX_ID, order);
		unsigned long all = 0;

		big_mul(&full, nr_pages);
		CHECK(big_bits(&full) == bits[order - 1], "order %u: %d bits",
		      order, big_bits(&full));

		CHECK(foliomap_words(order) <= FOLIOMAP_WORDS, "order %u", order);
		/* A folio of order 1 has room for one word, below 8 for three. */
		CHECK(order != 1 || foliomap_words(order) == 1, "order 1");
		CHECK(order > 7 || foliomap_words(order) <= 3, "order %u", order);
		for (w = 0; w < foliomap_words(order); w++) {
			unsigned long unit = foliomap_unit_word(FOLIOMAP_MAX_ID, order, w);

			CHECK(unit * nr_pages / nr_pages == unit,
			      "order %u: word %u overflows", order, w);
			all += __builtin_popcountl(unit);
		}
		CHECK(all == FOLIOMAP_ID_BITS, "order %u: %lu digits", order, all);
	}
}

/*
 * The negative control. A scheme that keeps the paper's number modulo 2^64,
 * with 8 bits of id and 512 pages, calls this folio exclusive to 0xaa although
 * seven address spaces map it. Ours must not.
 */
static void test_one_word_is_unsound(void)
{
	static const struct { unsigned int id, nr; } mapping[] = {
		{ 182, 14 }, { 150, 14 }, { 146, 14 }, { 246, 12 },
		{ 144, 12 }, { 247, 2 }, { 16, 2 },
	};
	uint64_t truncated = 0;
	struct model m;
	unsigned int i;

	model_init(&m, 9);
	m.spaces = ARRAY_SIZE(mapping);
	for (i = 0; i < m.spaces; i++) {
		m.id[i] = mapping[i].id;
		model_change(&m, i, mapping[i].nr);
		truncated += paper_unit(mapping[i].id, 9).word[0] * mapping[i].nr;
	}
	CHECK(m.mapcount == 70, "%u mappings", m.mapcount);
	CHECK(truncated == paper_unit(0xaa, 9).word[0] * 70,
	      "the counterexample does not collide: this test tests nothing");
	CHECK(!kernel_exclusive(&m, 0xaa), "fooled by the counterexample");
	CHECK(!paper_exclusive(&m.big, 0xaa, 9, m.mapcount), "the paper's base is fooled");
	model_check(&m);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "exhaustive_small_orders", test_exhaustive },
		{ "all_pairs", test_all_pairs },
		{ "random_with_wrap_around", test_random },
		{ "sizes", test_sizes },
		{ "one_word_is_unsound", test_one_word_is_unsound },
	};
	unsigned int i;

	srand(1);
	printf("TAP version 13\n1..%zu\n", ARRAY_SIZE(tests));
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		unsigned long before = checks;

		tests[i].run();
		printf("ok %u %s # %lu checks\n", i + 1, tests[i].name, checks - before);
	}
	return 0;
}
