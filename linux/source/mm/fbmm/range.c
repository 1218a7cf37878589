// SPDX-License-Identifier: GPL-2.0
/* Memory in a row that is longer than the buddy allocator's largest block. */
#include <linux/cpuset.h>
#include <linux/fbmm.h>
#include <linux/gfp.h>
#include <linux/memory_hotplug.h>
#include <linux/mmzone.h>
#include <linux/pageblock-flags.h>
#include <linux/sched.h>
#include <linux/topology.h>

#include "../internal.h"

struct fbmm_range {
	unsigned long pfn;
	unsigned long nr;
};

/*
 * Whether a largest block is free. Nothing is locked: it may not be so any more when
 * this returns, which alloc_contig_range() finds out. Blocks that are kept for what may
 * not fail, for CMA, or to be taken out of use are left alone.
 */
static bool fbmm_free_block(struct zone *zone, unsigned long pfn)
{
	struct page *page = pfn_to_online_page(pfn);
	unsigned long i;

	if (!page || page_zone(page) != zone || !PageBuddy(page) ||
	    buddy_order_unsafe(page) != MAX_PAGE_ORDER)
		return false;
	for (i = 0; i < MAX_ORDER_NR_PAGES; i += pageblock_nr_pages)
		if (!migratetype_is_mergeable(get_pageblock_migratetype(page + i)))
			return false;
	return true;
}

/* The first range of free blocks in a zone that has @nr pages; else the longest. */
static struct fbmm_range fbmm_find_range(struct zone *zone, unsigned long nr)
{
	const unsigned long end = ALIGN_DOWN(zone_end_pfn(zone), MAX_ORDER_NR_PAGES);
	unsigned long pfn = ALIGN(zone->zone_start_pfn, MAX_ORDER_NR_PAGES);
	struct fbmm_range longest = {}, range = {};

	for (; pfn < end && longest.nr < nr; pfn += MAX_ORDER_NR_PAGES) {
		if (!fbmm_free_block(zone, pfn)) {
			range.nr = 0;
			cond_resched();
			continue;
		}
		if (!range.nr)
			range.pfn = pfn;
		range.nr += MAX_ORDER_NR_PAGES;
		if (range.nr > longest.nr)
			longest = range;
	}
	longest.nr = min(longest.nr, nr);
	return longest;
}

/**
 * fbmm_alloc_range - pages in a row, more than the largest block has
 * @nr: in: how many are wanted; out: how many there are
 *
 * From the nearest node whose free blocks are neighbours; nothing is moved or reclaimed
 * for it, and watermarks are kept. Who has a memory policy gets none: this follows none.
 *
 * Return: the first page, each with one reference; or NULL. May sleep.
 */
struct page *fbmm_alloc_range(unsigned long *nr)
{
	const enum zone_type highest = gfp_zone(GFP_HIGHUSER);
	struct zonelist *zonelist = node_zonelist(numa_mem_id(), GFP_HIGHUSER);
	struct fbmm_range range;
	struct zoneref *z;
	struct zone *zone;

#ifdef CONFIG_NUMA
	if (current->mempolicy)
		return NULL;
#endif
	for_each_zone_zonelist(zone, z, zonelist, highest) {
		if (!cpuset_zone_allowed(zone, GFP_HIGHUSER))
			continue;
		range = fbmm_find_range(zone, *nr);
		if (range.nr <= MAX_ORDER_NR_PAGES ||
		    !zone_watermark_ok(zone, 0, high_wmark_pages(zone) + range.nr, highest, 0))
			continue;
		if (fbmm_take_range(range.pfn, range.pfn + range.nr,
				    GFP_KERNEL | __GFP_NOWARN))
			return NULL;
		*nr = range.nr;
		return pfn_to_page(range.pfn);
	}
	return NULL;
}
EXPORT_SYMBOL_GPL(fbmm_alloc_range);
