// SPDX-License-Identifier: GPL-2.0
/*
 * What a frame of physical memory is used for, and taking one.
 *
 * The paper's bitmap of frames is what Linux knows anyway. It is read without
 * locks: whoever then takes a frame finds out whether it was still free.
 */
#include <linux/gfp.h>
#include <linux/memory_hotplug.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>
#include <linux/pageblock-flags.h>
#include <linux/sched/mm.h>
#include <linux/vmstat.h>

#include "../internal.h"
#include "internal.h"

static enum dpt_level size_of(unsigned int order)
{
	if (order >= PUD_SHIFT - PAGE_SHIFT)
		return DPT_1G;
	return order >= PMD_SHIFT - PAGE_SHIFT ? DPT_2M : DPT_4K;
}

/* The order of the free block that has the page, or -1. */
static int free_order(struct page *page)
{
	unsigned long pfn = page_to_pfn(page);
	unsigned int order;

	for (order = 0; order < NR_PAGE_ORDERS; order++) {
		struct page *head = page - (pfn & ((1ul << order) - 1));

		if (PageBuddy(head)) {
			unsigned int found = buddy_order_unsafe(head);

			return found >= order && found < NR_PAGE_ORDERS ? found : -1;
		}
		if (page_count(head) > 0)
			break;
	}
	return -1;
}

/*
 * Whether a free page may be taken. The spare is given back for it: in its zone
 * as much is free as before. Another zone keeps what Linux would leave in it for
 * those who need that zone, or must not wait.
 */
static bool may_take(struct page *page, const struct page *spare)
{
	struct zone *zone = page_zone(page);

	if (is_migrate_highatomic(get_pageblock_migratetype(page)))
		return false;
	return (spare && page_zone(spare) == zone) ||
	       zone_watermark_ok(zone, 0, min_wmark_pages(zone), ZONE_NORMAL, 0);
}

/*
 * What is in a frame, and of which size. @fragmented, of a free one, is whether
 * its 2 MB have other than free frames. @spare is as good as free; what is free
 * for others is as good as in use.
 *
 * The frame may be freed, split or made part of a larger page meanwhile. So, as
 * in compaction, flags are asked of the page: a folio's check that it is one.
 */
enum dpt_use dpt_frame_use(u64 pfn, struct page *spare, enum dpt_level *size,
		bool *fragmented)
{
	struct page *page = pfn_to_online_page(pfn);
	int order;

	*size = DPT_4K;
	*fragmented = true;
	if (!page)
		return DPT_UNMOVABLE;
	if (page == spare)
		return DPT_FREE;
	/* What must stay movable, or is a device's */
	if (page_zonenum(page) > ZONE_NORMAL)
		return DPT_UNMOVABLE;
	if (is_migrate_isolate_page(page) || is_migrate_cma_page(page))
		return DPT_UNMOVABLE;
	order = free_order(page);
	if (order >= 0) {
		if (!may_take(page, spare))
			return DPT_UNMOVABLE;
		*fragmented = order < PMD_SHIFT - PAGE_SHIFT;
		return DPT_FREE;
	}
	if (PageTable(page))
		return DPT_TABLE;
	*size = size_of(compound_order(compound_head(page)));
	if (PageLRU(page) && !PageHuge(page))
		return DPT_MOVABLE;
	return DPT_UNMOVABLE;
}

/* Take a frame if it is still free. */
struct page *dpt_frame_take(u64 pfn, gfp_t gfp, struct page **spare)
{
	struct page *page = pfn_to_online_page(pfn);

	if (page && page == *spare) {
		*spare = NULL;
		clear_page(page_address(page));
		dpt_count(DPT_SPARE_FIT);
		return page;
	}
	page = page ? take_free_page(page, gfp | __GFP_ZERO) : NULL;
	if (!page)
		dpt_count(DPT_LOST_RACES);
	return page;
}

static struct folio *new_folio(struct folio *old, unsigned long private)
{
	struct page **spare = (struct page **)private;
	bool large = folio_test_large(old);
	int nid = folio_nid(old);
	struct folio *folio;

	/*
	 * The spare is where the faulting task wants memory. Data stay on the node
	 * that they are on, which others may have chosen, while that has room.
	 */
	if (large || !*spare || page_to_nid(*spare) != nid) {
		folio = __folio_alloc_node(GFP_TRANSHUGE_LIGHT | __GFP_THISNODE,
					   folio_order(old), nid);
		if (folio || large || !*spare)
			return folio;
	}
	folio = page_folio(*spare);
	*spare = NULL;
	return folio;
}

static void put_new_folio(struct folio *folio, unsigned long private)
{
	struct page **spare = (struct page **)private;

	if (folio_test_large(folio) || *spare)
		folio_put(folio);
	else
		*spare = &folio->page;
}

static bool isolate(struct page *page, struct list_head *list)
{
	struct folio *folio = page_folio(page);
	bool isolated;

	if (!folio_try_get(folio))
		return false;
	isolated = page_folio(page) == folio && !folio_test_hugetlb(folio) &&
		   folio_isolate_lru(folio);
	if (isolated) {
		list_add(&folio->lru, list);
		node_stat_mod_folio(folio,
				    NR_ISOLATED_ANON + folio_is_file_lru(folio),
				    folio_nr_pages(folio));
	}
	folio_put(folio);
	return isolated;
}

/*
 * The page that was emptied, allocated anew; not if its block is to be taken out
 * of use meanwhile. From then on, whoever isolates the block finds the page in
 * use.
 */
static struct page *take_own(struct page *page, gfp_t gfp)
{
	struct zone *zone = page_zone(page);
	unsigned long flags;
	bool isolated;

	page = take_own_page(page, gfp);
	if (!page)
		return NULL;
	spin_lock_irqsave(&zone->lock, flags);
	isolated = is_migrate_isolate_page(page);
	spin_unlock_irqrestore(&zone->lock, flags);
	if (!isolated)
		return page;
	__free_page(page);
	return NULL;
}

/* Move the folio that has the page, and take the page. */
static struct page *move(struct page *page, gfp_t gfp, struct page **spare,
		enum migrate_mode mode)
{
	enum migrate_reason reason;
	unsigned int noreclaim;
	struct page *taken;
	LIST_HEAD(list);
	bool large;
	int left;

	if (!isolate(page, &list))
		return NULL;
	large = folio_test_large(page_folio(page));
	/*
	 * A small page stays this function's own, rather than to go through a list
	 * of a CPU, where somebody else gets it. A large folio may be split
	 * meanwhile, and its pages go different ways.
	 */
	reason = large ? MR_CONTIG_RANGE : MR_KEPT;
	noreclaim = memalloc_noreclaim_save();
	left = migrate_pages(&list, new_folio, put_new_folio, (unsigned long)spare,
			     mode, reason, NULL);
	memalloc_noreclaim_restore(noreclaim);
	if (left) {
		putback_movable_pages(&list);
		return NULL;
	}
	if (!large)
		return take_own(page, gfp | __GFP_ZERO);
	taken = take_free_page(page, gfp | __GFP_ZERO);
	if (!taken) {
		/* It was freed here, to this CPU's list if not to the buddy allocator. */
		preempt_disable();
		drain_local_pages(page_zone(page));
		preempt_enable();
		taken = take_free_page(page, gfp | __GFP_ZERO);
	}
	return taken;
}

/*
 * Move the data in a frame elsewhere and take it (collided page displacement).
 * A small page goes where Linux would have put the table, if that is on the node
 * that it is on. As in compaction, which every allocation may start, no lock of a
 * page is waited for.
 *
 * A large folio for which there is no room is split: then it is small.
 */
struct page *dpt_frame_displace(u64 pfn, gfp_t gfp, struct page **spare,
		enum migrate_mode mode)
{
	struct page *page = pfn_to_online_page(pfn);
	struct page *taken;
	bool large;

	if (!page)
		return NULL;
	large = PageCompound(page);
	taken = move(page, gfp, spare, mode);
	if (!taken && large && !PageCompound(page)) {
		if (!*spare)
			*spare = alloc_page(gfp);
		taken = move(page, gfp, spare, mode);
	}
	dpt_count(taken ? DPT_CPD_MOVES : DPT_CPD_FAILED);
	return taken;
}
