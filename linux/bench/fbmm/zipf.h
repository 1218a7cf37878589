/* SPDX-License-Identifier: GPL-2.0 */
/* Items that follow a zipfian distribution, as YCSB draws them. */
#ifndef _ZIPF_H
#define _ZIPF_H

#include <math.h>
#include <stdint.h>

#define THETA		0.99

static uint64_t state = 88172645463325252ull;

static inline double next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 11) * 0x1p-53;
}

/* Ranks by Gray et al., "Quickly generating billion-record synthetic databases". */
static struct {
	double ranks, zeta, eta, alpha;
} zipf;

/* @zeta is the sum of 1 / rank^THETA over all ranks. */
static inline void zipf_init(double ranks, double zeta)
{
	const double zeta2 = 1 + pow(0.5, THETA);

	zipf.ranks = ranks;
	zipf.zeta = zeta;
	zipf.alpha = 1 / (1 - THETA);
	zipf.eta = (1 - pow(2.0 / ranks, 1 - THETA)) / (1 - zeta2 / zeta);
}

static inline uint64_t next_rank(void)
{
	const double u = next_random(), uz = u * zipf.zeta;

	if (uz < 1)
		return 0;
	if (uz < 1 + pow(0.5, THETA))
		return 1;
	return zipf.ranks * pow(zipf.eta * u - zipf.eta + 1, zipf.alpha);
}

/* FNV-1a, as YCSB scatters ranks: neighbouring ones are no neighbours in memory. */
static inline uint64_t next_item(uint64_t items)
{
	uint64_t rank = next_rank(), hash = 0xcbf29ce484222325ull;
	int i;

	for (i = 0; i < 8; i++, rank >>= 8)
		hash = (hash ^ (rank & 0xff)) * 0x100000001b3ull;
	return hash % items;
}

#endif /* _ZIPF_H */
