// SPDX-License-Identifier: GPL-2.0
/*
 * Exact folio accounting.
 *
 * After "Every Mapping Counts in Large Amounts: Folio Accounting"
 * (Hildenbrand, Schulz, Amit; USENIX ATC 2024). For every large folio the
 * kernel keeps the number of its mappings and an aggregator, from which it can
 * tell whether a given address space made all of them; the arithmetic is in
 * linux/foliomap_arith.h. In return the map counts in the single pages of a
 * large folio, and the number of its pages that are mapped, are no longer
 * maintained. Small folios are counted as before. So are hugetlb folios, which
 * are never mapped in part.
 *
 * An address space has an id from when it is made until it is destroyed. All
 * its page table entries are gone by then, so no aggregator contains it. The
 * smallest free id is given out first: an update touches only words of the
 * aggregator in which the id has bits, and small ids have them in the first.
 *
 * PID_MAX_LIMIT is just above the number of ids, but an address space can
 * outlive its last task, so they may run out. Address spaces that are made then
 * have the last id in common, until they end. Nothing is ever exclusive to any
 * of them, so that they copy what they need not have; the others are answered
 * exactly, as their ids are still their own.
 */
#include <linux/foliomap.h>
#include <linux/mm.h>
#include <kunit/visibility.h>

#include "foliomap.h"

unsigned int foliomap_first_id __ro_after_init = 1;
unsigned int foliomap_last_id __ro_after_init = FOLIOMAP_MAX_ID;

DEFINE_STATIC_KEY_FALSE(foliomap_key);
EXPORT_SYMBOL_IF_KUNIT(foliomap_key);

/* foliomap_digits_per_word() and foliomap_words(), without the divisions. */
#define DIGITS(order)	(64 / ((order) + 1))
#define WORDS(order)	DIV_ROUND_UP(FOLIOMAP_ID_BITS, DIGITS(order))
static const u8 words_of[FOLIOMAP_MAX_ORDER + 1] = {
	0, WORDS(1), WORDS(2), WORDS(3), WORDS(4),
	WORDS(5), WORDS(6), WORDS(7), WORDS(8), WORDS(9),
};

/**
 * foliomap_set_id - tell a new address space its id, and what follows from it
 * @mm: The address space.
 * @id: Its id.
 */
void foliomap_set_id(struct mm_struct *mm, unsigned int id)
{
	unsigned int order;

	mm->foliomap.id = id;
	mm->foliomap.one_word_order = 0;
	for (order = 1; order <= FOLIOMAP_MAX_ORDER; order++) {
		if (!((u64)id >> DIGITS(order)))
			mm->foliomap.one_word_order = order;
		mm->foliomap.unit[order - 1] = foliomap_unit_word(id, order, 0);
	}
}

/*
 * One word of what a mapping adds to an aggregator. The first is kept in
 * mm_struct for each order. The others have bits for large ids only, and are
 * computed then: that takes few instructions beside those of a batch of pages.
 */
static unsigned long unit_word(struct mm_struct *mm, unsigned int order,
		unsigned int word)
{
	if (!word)
		return mm->foliomap.unit[order - 1];
	if (order <= mm->foliomap.one_word_order)
		return 0;
	return foliomap_unit_word(mm->foliomap.id, order, word);
}

/*
 * The words are where tail pages have room, so that tracking costs no memory:
 * the first beside the map count, the last used by folios of 256 pages on only.
 * Folios too large for an aggregator, which only drivers map, have no words.
 */
#define IN_TAIL_PAGE(word, nr)						\
	static_assert(offsetof(struct folio, word) / sizeof(struct page) <= (nr) && \
		      offsetof(struct folio, word) % sizeof(struct page) +	\
		      sizeof(long) <= offsetof(struct page, _mapcount))
IN_TAIL_PAGE(_as_aggregator_0, 1);
IN_TAIL_PAGE(_as_aggregator_1, 3);
IN_TAIL_PAGE(_as_aggregator_2, 3);
IN_TAIL_PAGE(_as_aggregator_3, 3);
static_assert(WORDS(1) == 1);

static const u16 word_offsets[FOLIOMAP_WORDS] = {
	offsetof(struct folio, _as_aggregator_0),
	offsetof(struct folio, _as_aggregator_1),
	offsetof(struct folio, _as_aggregator_2),
	offsetof(struct folio, _as_aggregator_3),
};

static unsigned long *aggregator_word(struct folio *folio, unsigned int word)
{
	return (void *)folio + word_offsets[word];
}

static unsigned int aggregator_words(unsigned int order)
{
	return order <= FOLIOMAP_MAX_ORDER ? words_of[order] : 0;
}

static int foliomap_read_begin(struct folio *folio)
{
	int seq;

	while ((seq = atomic_read_acquire(&folio->_foliomap_seq)) & 1)
		cpu_relax();
	return seq;
}

static bool foliomap_read_retry(struct folio *folio, int seq)
{
	/* What was read before this, was read before the number changed. */
	smp_rmb();
	return atomic_read(&folio->_foliomap_seq) != seq;
}

/**
 * foliomap_prep - make a new large folio's aggregator empty
 * @folio: The folio, not yet visible to others.
 * @order: Its order.
 */
void foliomap_prep(struct folio *folio, unsigned int order)
{
	unsigned int word;

	atomic_set(&folio->_foliomap_seq, 0);
	for (word = 0; word < aggregator_words(order); word++)
		*aggregator_word(folio, word) = 0;
}

/**
 * foliomap_set_new - account the first mappings of a new folio
 * @folio: The folio; nobody else can map it yet.
 * @mm: The address space it is mapped into.
 * @nr: How many page table entries map it.
 */
void foliomap_set_new(struct folio *folio, struct mm_struct *mm, int nr)
{
	const unsigned int order = folio_order(folio);
	unsigned int word;

	/* The count starts at -1. */
	atomic_set(&folio->_large_mapcount, nr - 1);
	for (word = 0; word < aggregator_words(order); word++)
		*aggregator_word(folio, word) = unit_word(mm, order, word) * nr;
}

/* foliomap_change() where a unit may have bits in several words, or none. */
void foliomap_change_words(struct folio *folio, struct mm_struct *mm,
		unsigned int order, int nr)
{
	unsigned int word;

	for (word = 0; word < aggregator_words(order); word++) {
		unsigned long *sum = aggregator_word(folio, word);

		WRITE_ONCE(*sum, *sum + unit_word(mm, order, word) * nr);
	}
}

/**
 * foliomap_add - account page table entries that map parts of a large folio
 * @folio: The folio.
 * @mm: The address space that maps it.
 * @nr: How many entries. One that maps the entire folio counts as one.
 *
 * The caller holds the page table lock.
 *
 * Return: the number of mappings of the folio after this.
 */
int foliomap_add(struct folio *folio, struct mm_struct *mm, int nr)
{
	return foliomap_change(folio, mm, nr);
}

/**
 * foliomap_remove - the reverse of foliomap_add()
 * @folio: The folio.
 * @mm: The address space that no longer maps it.
 * @nr: How many entries.
 *
 * Return: the number of mappings that are left.
 */
int foliomap_remove(struct folio *folio, struct mm_struct *mm, int nr)
{
	return foliomap_change(folio, mm, -nr);
}

/* Inside a read section: Eq. 1. */
static bool all_mappings_by(struct folio *folio, struct mm_struct *mm,
		unsigned int mapcount)
{
	const unsigned int order = folio_order(folio);
	unsigned int word;

	if (!mapcount)
		return true;
	if (order > FOLIOMAP_MAX_ORDER)
		return mapcount == 1;
	if (unlikely(mm->foliomap.id == foliomap_last_id))
		return false;
	/* More mappings than one address space can have of an anon folio. */
	if (mapcount > 1u << order)
		return false;
	for (word = 0; word < words_of[order]; word++)
		if (!foliomap_word_matches(READ_ONCE(*aggregator_word(folio, word)),
					   unit_word(mm, order, word), mapcount))
			return false;
	return true;
}

/**
 * foliomap_mapped_shared - whether others than @mm map a large folio
 * @folio: The folio.
 * @mm: The address space that asks.
 *
 * Exact for anonymous folios, except while one is remapped from a PMD to PTEs:
 * it then has one mapping more than pages and counts as shared. The same is
 * said of a file folio that one address space maps more often than it has
 * pages, and of all folios when @mm shares its id.
 */
bool foliomap_mapped_shared(struct folio *folio, struct mm_struct *mm)
{
	bool exclusive;
	int seq;

	do {
		seq = foliomap_read_begin(folio);
		exclusive = all_mappings_by(folio, mm,
					    folio_large_mapcount(folio));
	} while (foliomap_read_retry(folio, seq));
	return !exclusive;
}
EXPORT_SYMBOL_IF_KUNIT(foliomap_mapped_shared);

/**
 * foliomap_can_reuse - whether a write to an anonymous folio needs no copy
 * @folio: The folio, mapped by @mm.
 * @mm: The address space that writes to it.
 *
 * The caller holds the page table lock of an entry that maps the folio.
 *
 * Every mapping holds a reference, taken before the mapping is accounted and
 * dropped after it no longer is. If there are as many references as mappings
 * while the latter do not change, nobody else holds one: no pin, no swap cache,
 * nobody about to map the folio.
 *
 * Return: whether all mappings are by @mm and there are no other references.
 */
bool foliomap_can_reuse(struct folio *folio, struct mm_struct *mm)
{
	bool can_reuse;
	int seq;

	do {
		int mapcount;

		seq = foliomap_read_begin(folio);
		mapcount = folio_large_mapcount(folio);
		can_reuse = folio_ref_count(folio) == mapcount &&
			    all_mappings_by(folio, mm, mapcount);
	} while (foliomap_read_retry(folio, seq));
	return can_reuse;
}
