/*
 * Inside of the processor that walks a distributed page table: what its walk by
 * hash, its comparison with the tree, and its way to memory know of each other.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef I386_TCG_DPT_WALK_H
#define I386_TCG_DPT_WALK_H

#include "dpt.h"

#define CPUS            64
/* Page sizes */
#define SIZES           3
/* Of an entry, or of a table's place: the physical address */
#define ADDRESS         0x000ffffffffff000ull
#define MAX_ENTRIES     32

typedef struct CacheEntry {
    uint64_t space, group, used;
} CacheEntry;

/* What one processor did; only its own thread changes it. */
typedef struct Counts {
    uint64_t walks, checks, retries, absent, other_pages;
    /* Of retries, those where nothing changed, and the hash led to a page or to a wrong one */
    uint64_t retries_present, mistranslated;
    uint64_t leaves[SIZES];
    uint64_t cache_hits[SIZES], cache_misses[SIZES];
    uint64_t metadata_reads, exceptions;
    uint64_t clock;
    CacheEntry cache[SIZES][MAX_ENTRIES];
    /* The page that was walked last */
    uint64_t last_space, last_page;
} Counts;

/* A word of guest memory */
uint64_t dpt_load(CPUState *cs, hwaddr addr);

Counts *dpt_counts(CPUState *cs);
void dpt_print_counts(void);
void dpt_count_page(Counts *c, uint64_t space, uint64_t addr);
void dpt_count_leaf(Counts *c, DptLeaf leaf);

/* The walk by hash and metadata */
DptLeaf dpt_by_hash(CPUState *cs, Counts *c, uint64_t space, uint64_t addr);

#endif
