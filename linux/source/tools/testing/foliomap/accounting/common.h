/* SPDX-License-Identifier: GPL-2.0 */
/* What the two tests of mm/foliomap.c in user space have in common. */
#ifndef _FOLIOMAP_COMMON_H
#define _FOLIOMAP_COMMON_H

#include <linux/foliomap.h>
#include <linux/mm.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define MAX_PAGES		(1u << FOLIOMAP_MAX_ORDER)

#define FAIL(fmt, ...) do {						\
	printf("not ok - %s: " fmt "\n", __func__, ##__VA_ARGS__);	\
	exit(1);							\
} while (0)

/*
 * Ids of one word, of two in large folios, of all words, and ids that run out; in
 * the order in which they are given out. Then ids that differ in one bit, in any
 * word: neighbours differ in the first alone, and what is wrong in the others
 * would not be noticed.
 */
static const struct ids {
	const char *are;
	unsigned int first, last;
	bool apart;
} id_ranges[] = {
	{ "from 1", 1, FOLIOMAP_MAX_ID, false },
	{ "from 60", 60, FOLIOMAP_MAX_ID, false },
	{ "from 4190000", 4190000, FOLIOMAP_MAX_ID, false },
	{ "from 1 to 8", 1, 8, false },
	{ "one bit apart", 1, FOLIOMAP_MAX_ID, true },
};

static const struct ids *ids;

/* xorshift64* (Vigna 2016), of which the upper half is used. */
static inline unsigned int draw(u64 *state, unsigned int below)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return ((*state * 0x2545f4914f6cdd1dull >> 32) * below) >> 32;
}

/* A new folio, as prep_compound_head() leaves it, but without its maker's reference. */
static inline void folio_make(struct folio *folio, unsigned int order)
{
	/* What the pages were before, all of it. */
	memset(folio, 0xa5, sizeof(*folio));
	folio->_flags_1 = order;
	folio->_folio_nr_pages = 1u << order;
	atomic_set(&folio->page._refcount, 0);
	atomic_set(&folio->_large_mapcount, -1);
	atomic_set(&folio->_entire_mapcount, -1);
	foliomap_prep(folio, order);
}

/* Nothing may be left of mappings that are gone. */
static inline void folio_check_unmapped(const struct folio *folio)
{
	const unsigned long words[] = {
		folio->_as_aggregator_0, folio->_as_aggregator_1,
		folio->_as_aggregator_2, folio->_as_aggregator_3,
	};
	unsigned int word;

	if (folio_large_mapcount(folio))
		FAIL("order %u: %d mappings", folio_order(folio), folio_large_mapcount(folio));
	for (word = 0; word < foliomap_words(folio_order(folio)); word++)
		if (words[word])
			FAIL("order %u: %#lx in word %u", folio_order(folio), words[word], word);
}

static inline void ids_start(unsigned int range)
{
	ids = &id_ranges[range];
	foliomap_first_id = ids->first;
	foliomap_last_id = ids->last;
}

/* All address spaces are gone: the first id is free again. */
static inline void ids_end(void)
{
	struct mm_struct mm;

	if (foliomap_mm_init(&mm) || mm.foliomap.id != ids->first)
		FAIL("ids from %u on do not come back", ids->first);
	foliomap_mm_destroy(&mm);
}

/* An id a bit from one of @nr ids in use, or, without any, some id. */
static inline unsigned int id_apart(const unsigned int *used, unsigned int nr, u64 *random)
{
	unsigned int id, i;

	do {
		if (nr)
			id = used[draw(random, nr)] ^ 1u << draw(random, FOLIOMAP_ID_BITS);
		else
			id = draw(random, FOLIOMAP_MAX_ID);
		for (i = 0; i < nr && used[i] != id; i++)
			;
	} while (!id || id == foliomap_last_id || i < nr);
	return id;
}

/* An address space beside others that have the @nr ids in @used. */
static inline void mm_make(struct mm_struct *mm, const unsigned int *used,
		unsigned int nr, u64 *random)
{
	if (ids->apart)
		foliomap_set_id(mm, id_apart(used, nr, random));
	else if (foliomap_mm_init(mm))
		FAIL("no id");
}

static inline void mm_end(struct mm_struct *mm)
{
	if (!ids->apart)
		foliomap_mm_destroy(mm);
}

/* Whether a test finds what is wrong in @run: in a process of its own, it says so. */
static inline bool finds(void (*run)(void))
{
	const pid_t child = fork();
	int status;

	if (child < 0)
		FAIL("no process");
	if (!child) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(2);
		run();
		_exit(0);
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 1;
}

static inline bool shares_id(const struct mm_struct *mm)
{
	return mm->foliomap.id == foliomap_last_id;
}

#endif
