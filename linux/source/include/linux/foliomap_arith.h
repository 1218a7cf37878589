/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The arithmetic of FolioMap: is a folio mapped by one address space alone?
 *
 * After "Every Mapping Counts in Large Amounts: Folio Accounting"
 * (Hildenbrand, Schulz, Amit; USENIX ATC 2024), section 3. Every address
 * space has an id. Mapping a page of a folio adds a unit, derived from the id
 * and the folio's order, to the folio's aggregator; unmapping subtracts it.
 * With at most nr_pages mappings, the aggregator equals the number of mappings
 * times an address space's unit if and only if that address space made all of
 * them (Eq. 1).
 *
 * The unit is the id's binary representation, read in a base above nr_pages:
 * a digit of the aggregator then counts the mappings by ids with that bit set,
 * and cannot overflow into the next. The paper's base is nr_pages + 1. This is
 * the next power of two, 2 * nr_pages (section 3, "Accounting Optimizations"),
 * with as many whole digits in a word as fit, so that words need no carry
 * between them and an update touches only the words in which a unit has bits.
 *
 * While there are more than nr_pages mappings digits do overflow. That is
 * harmless: addition modulo 2^64 is undone by subtraction, and more mappings
 * than pages are never exclusive (pigeonhole), so the value is not looked at.
 *
 * Kept free of other kernel headers for tools/testing/foliomap.
 */
#ifndef _LINUX_FOLIOMAP_ARITH_H
#define _LINUX_FOLIOMAP_ARITH_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#endif

#define FOLIOMAP_ID_BITS	22
#define FOLIOMAP_MAX_ID		((1u << FOLIOMAP_ID_BITS) - 1)
#define FOLIOMAP_MAX_ORDER	9
#define FOLIOMAP_WORDS		4

/* Digits, one for each bit of an id, in one word of the aggregator. */
static inline unsigned int foliomap_digits_per_word(unsigned int order)
{
	return 64 / (order + 1);
}

/* Words of the aggregator that folios of an order use. */
static inline unsigned int foliomap_words(unsigned int order)
{
	const unsigned int digits = foliomap_digits_per_word(order);

	return (FOLIOMAP_ID_BITS + digits - 1) / digits;
}

/* One word, of foliomap_words(), of what one mapping by address space @id adds. */
static inline unsigned long foliomap_unit_word(unsigned int id,
		unsigned int order, unsigned int word)
{
	const unsigned int digits = foliomap_digits_per_word(order);
	unsigned int bits = id >> (word * digits);
	unsigned long unit = 0;
	unsigned int i;

	for (i = 0; i < digits && bits; i++, bits >>= 1)
		if (bits & 1)
			unit |= 1ul << (i * (order + 1));
	return unit;
}

/* Eq. 1 for one word. Exclusive means that it holds for every word. */
static inline bool foliomap_word_matches(unsigned long aggregator,
		unsigned long unit, unsigned int mapcount)
{
	return aggregator == unit * mapcount;
}

#endif /* _LINUX_FOLIOMAP_ARITH_H */
