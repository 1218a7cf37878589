/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The aggregator as the paper defines it: one number of 256 bits in the base
 * nr_pages + 1. Written for clarity; the twin the kernel's layout is tested
 * against.
 */
#ifndef _PAPER_BASE_H
#define _PAPER_BASE_H

#include <stdint.h>
#include <string.h>

struct big {
	uint64_t word[4];	/* least significant first */
};

static inline void big_add(struct big *a, const struct big *b)
{
	__uint128_t carry = 0;
	int i;

	for (i = 0; i < 4; i++) {
		carry += (__uint128_t)a->word[i] + b->word[i];
		a->word[i] = (uint64_t)carry;
		carry >>= 64;
	}
}

static inline void big_sub(struct big *a, const struct big *b)
{
	uint64_t borrow = 0;
	int i;

	for (i = 0; i < 4; i++) {
		__uint128_t d = (__uint128_t)a->word[i] - b->word[i] - borrow;

		a->word[i] = (uint64_t)d;
		borrow = (d >> 64) != 0;
	}
}

static inline void big_mul(struct big *a, uint64_t factor)
{
	__uint128_t carry = 0;
	int i;

	for (i = 0; i < 4; i++) {
		carry += (__uint128_t)a->word[i] * factor;
		a->word[i] = (uint64_t)carry;
		carry >>= 64;
	}
}

static inline int big_bits(const struct big *a)
{
	int i;

	for (i = 3; i >= 0; i--)
		if (a->word[i])
			return i * 64 + 64 - __builtin_clzll(a->word[i]);
	return 0;
}

/* Figure 1, as_id_unit(): the id's binary digits in base nr_pages + 1. */
static inline struct big paper_unit(unsigned int id, unsigned int order)
{
	const struct big one = { { 1 } };
	struct big unit = { { 0 } };
	int bit;

	for (bit = 31; bit >= 0; bit--) {
		big_mul(&unit, (1u << order) + 1);
		if (id & (1u << bit))
			big_add(&unit, &one);
	}
	return unit;
}

/* Figure 1, is_folio_mapped_exclusively(). */
static inline bool paper_exclusive(const struct big *aggregator,
		unsigned int id, unsigned int order, unsigned int mapcount)
{
	struct big product = paper_unit(id, order);

	if (mapcount > 1u << order)
		return false;
	big_mul(&product, mapcount);
	return !memcmp(&product, aggregator, sizeof(product));
}

#endif /* _PAPER_BASE_H */
