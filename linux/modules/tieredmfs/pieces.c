// SPDX-License-Identifier: GPL-2.0
/*
 * The memory of a tier: base pages and, with the option huge, pieces of 2 MB.
 *
 * A piece is a folio. Where base pages are wanted and none are free, a piece is
 * taken apart. When all of its pages are free again, the thread joins them.
 * Neither can be done to a folio from outside of mm/, so it goes through the page
 * allocator, which gives back what it has just got; should somebody else have been
 * faster, others come in their place when they are needed.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/page_ref.h>

#include "tiered.h"

#define TIER_GFP	(GFP_HIGHUSER | __GFP_THISNODE | __GFP_NORETRY | __GFP_NOWARN)

/* How many pages a look for something to join starts from, and how much is joined */
#define TIER_TRIES	32
#define TIER_JOINS	32

static struct folio *tier_new_piece(struct tier *tier)
{
	return __folio_alloc_node(TIER_GFP, PMD_ORDER, tier->pool.node);
}

static void tier_add_piece(struct tier *tier, struct folio *folio)
{
	spin_lock(&tier->pool.lock);
	list_add(&folio->lru, &tier->pieces);
	tier->nr_pieces++;
	spin_unlock(&tier->pool.lock);
}

/* A piece is gone: the kernel owes it. */
static void tier_lose_piece(struct tier *tier)
{
	spin_lock(&tier->pool.lock);
	tier->missing++;
	spin_unlock(&tier->pool.lock);
}

static struct folio *tier_take_piece(struct tier *tier)
{
	struct folio *folio;

	for (;;) {
		spin_lock(&tier->pool.lock);
		folio = list_first_entry_or_null(&tier->pieces, struct folio, lru);
		if (folio) {
			list_del(&folio->lru);
			tier->nr_pieces--;
		}
		spin_unlock(&tier->pool.lock);
		if (!folio || !mfs_poisoned(folio_page(folio, 0), HPAGE_PMD_NR))
			return folio;
		tier_lose_piece(tier);
		mfs_put(folio);
	}
}

static bool tier_claim_piece(struct tier *tier)
{
	bool missing;

	spin_lock(&tier->pool.lock);
	missing = tier->missing;
	if (missing)
		tier->missing--;
	spin_unlock(&tier->pool.lock);
	return missing;
}

static struct folio *tier_replace_piece(struct tier *tier)
{
	struct folio *folio;

	if (!tier_claim_piece(tier))
		return NULL;
	folio = tier_new_piece(tier);
	if (!folio)
		tier_lose_piece(tier);
	return folio;
}

/* Make base pages of a piece; false if there is none. */
static bool tier_take_apart(struct tier *tier)
{
	struct folio *folio = tier_take_piece(tier);
	struct page *pages;

	if (folio)
		folio_put(folio);
	else if (!tier_claim_piece(tier))
		return false;
	pages = alloc_pages_node(tier->pool.node, TIER_GFP, PMD_ORDER);
	if (!pages) {	/* one by one */
		spin_lock(&tier->pool.lock);
		tier->pool.nr += HPAGE_PMD_NR;
		tier->pool.missing += HPAGE_PMD_NR;
		spin_unlock(&tier->pool.lock);
		return true;
	}
	split_page(pages, PMD_ORDER);
	mfs_pool_add(&tier->pool, pages, HPAGE_PMD_NR);
	return true;
}

/**
 * tier_get - a folio for a file
 * @tier: where from
 * @order: 0 or PMD_ORDER
 *
 * Return: a page with one reference, or NULL. May sleep.
 */
struct page *tier_get(struct tier *tier, unsigned int order)
{
	struct folio *folio;
	struct page *page;

	if (order) {
		folio = tier_take_piece(tier) ?: tier_replace_piece(tier);
		return folio ? folio_page(folio, 0) : NULL;
	}
	do {
		page = mfs_pool_get(&tier->pool);
	} while (!page && tier_take_apart(tier));
	return page;
}

/* Take a folio back. One that somebody still has is not used again. */
void tier_put(struct tier *tier, struct folio *folio)
{
	if (!folio_test_large(folio)) {
		mfs_pool_put(&tier->pool, folio);
		return;
	}
	if (!mfs_busy(folio) &&
	    !mfs_poisoned(folio_page(folio, 0), HPAGE_PMD_NR)) {
		mfs_clear_flags(folio);
		tier_add_piece(tier, folio);
		return;
	}
	folio_clear_active(folio);
	tier_lose_piece(tier);
	mfs_put(folio);
}

/* The opposite of split_page(): false if somebody looks at one of the pages. */
static bool tier_unsplit(struct page *block)
{
	unsigned int i;

	for (i = 1; i < HPAGE_PMD_NR; i++)
		if (!page_ref_freeze(block + i, 1))
			break;
	if (i == HPAGE_PMD_NR)
		return true;
	while (--i)
		page_ref_unfreeze(block + i, 1);
	return false;
}

/* A row of free base pages that were a piece; out of the pool, and one page again. */
static struct page *tier_find_row(struct tier *tier)
{
	struct mfs_pool *pool = &tier->pool;
	struct page *row = NULL, *page;
	int tries;

	spin_lock(&pool->lock);
	for (tries = 0; !row && tries < TIER_TRIES; tries++) {
		if (pool->nr_free < 2 * HPAGE_PMD_NR)
			break;
		page = list_last_entry(&pool->free, struct page, lru);
		list_move(&page->lru, &pool->free);
		row = pfn_to_page(ALIGN_DOWN(page_to_pfn(page), HPAGE_PMD_NR));
		if (!mfs_pool_take_row(pool, row, HPAGE_PMD_NR))
			row = NULL;
	}
	spin_unlock(&pool->lock);
	if (row && !tier_unsplit(row)) {
		mfs_pool_add(pool, row, HPAGE_PMD_NR);
		row = NULL;
	}
	return row;
}

/*
 * Put pieces together that were taken apart. One piece's worth of free pages stays
 * as it is, for those who want base pages next.
 */
void tier_join(struct tier *tier)
{
	struct folio *folio;
	struct page *row;
	int joined;

	for (joined = 0; joined < TIER_JOINS; joined++) {
		row = tier_find_row(tier);
		if (!row)
			break;
		__free_pages(row, PMD_ORDER);
		folio = tier_new_piece(tier);
		if (folio)
			tier_add_piece(tier, folio);
		else
			tier_lose_piece(tier);
		cond_resched();
	}
}

/**
 * tier_fill - take a tier's memory from the kernel
 * @tier: its pool is initialized
 * @nr: how many pages
 * @huge: in pieces, as far as they go
 *
 * Return: 0, -ENOMEM, or -EINTR if killed; tier_drain() is to be called anyway.
 */
int tier_fill(struct tier *tier, unsigned long nr, bool huge)
{
	unsigned long pieces = huge ? nr / HPAGE_PMD_NR : 0;
	struct folio *folio;

	if (nr > totalram_pages())
		return -ENOMEM;
	tier->nr = nr;
	nr -= pieces * HPAGE_PMD_NR;
	for (; pieces; pieces--) {
		if (fatal_signal_pending(current))
			return -EINTR;
		folio = tier_new_piece(tier);
		if (!folio)
			return -ENOMEM;
		tier_add_piece(tier, folio);
		cond_resched();
	}
	return mfs_pool_fill(&tier->pool, nr);
}

void tier_drain(struct tier *tier)
{
	struct folio *folio;

	while ((folio = tier_take_piece(tier)))
		folio_put(folio);
	tier->missing = 0;
	mfs_pool_drain(&tier->pool);
}
