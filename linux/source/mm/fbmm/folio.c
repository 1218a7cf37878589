// SPDX-License-Identifier: GPL-2.0
/* What memory file systems in modules ask of the kernel about their folios. */
#include <linux/fbmm.h>
#include <linux/memcontrol.h>
#include <linux/mmu_notifier.h>
#include <linux/rmap.h>
#include <linux/rwsem.h>
#include <linux/sched/mm.h>
#include <linux/vmstat.h>

#include <asm/tlbflush.h>

#include "../internal.h"

/**
 * fbmm_charge - charge a folio to the active memory cgroup, or to current's
 * @folio: not charged; in no list of the kernel's
 * @gfp: GFP_KERNEL; with __GFP_NORETRY nobody is killed to make room
 *
 * From now on it counts as a file's, until fbmm_uncharge_batch().
 *
 * Return: 0, or -ENOMEM if the cgroup's limit does not allow it.
 */
int fbmm_charge(struct folio *folio, gfp_t gfp)
{
	int err = mem_cgroup_charge(folio, NULL, gfp);

	if (!err)
		lruvec_stat_mod_folio(folio, NR_FBMM_PAGES, folio_nr_pages(folio));
	return err;
}
EXPORT_SYMBOL_GPL(fbmm_charge);

/**
 * fbmm_full_memcg - whose limit keeps fbmm_charge() from charging a page
 *
 * Return: the memory cgroup, with a reference, or NULL if none is full by now.
 */
struct mem_cgroup *fbmm_full_memcg(void)
{
	struct mem_cgroup *own = get_mem_cgroup_from_mm(NULL), *memcg;

	for (memcg = own; memcg; memcg = parent_mem_cgroup(memcg)) {
		if (page_counter_read(&memcg->memory) >= READ_ONCE(memcg->memory.max)) {
			css_get(&memcg->css);	/* its child keeps it until here */
			break;
		}
	}
	mem_cgroup_put(own);
	return memcg;
}
EXPORT_SYMBOL_GPL(fbmm_full_memcg);

/**
 * fbmm_charge_room - how many pages fbmm_charge() could charge at once
 *
 * What the kernel could reclaim in a memory cgroup is not counted.
 */
unsigned long fbmm_charge_room(void)
{
	struct mem_cgroup *own = get_mem_cgroup_from_mm(NULL), *memcg;
	unsigned long room = PAGE_COUNTER_MAX;

	for (memcg = own; memcg; memcg = parent_mem_cgroup(memcg)) {
		const unsigned long max = READ_ONCE(memcg->memory.max);
		const unsigned long used = page_counter_read(&memcg->memory);

		room = min(room, max > used ? max - used : 0);
	}
	mem_cgroup_put(own);
	return room;
}
EXPORT_SYMBOL_GPL(fbmm_charge_room);

/**
 * fbmm_charge_root - charge what follows to the root, whose limit nobody meets
 *
 * For those that hold what a memory cgroup's reclaim needs.
 *
 * Return: for set_active_memcg() afterwards.
 */
struct mem_cgroup *fbmm_charge_root(void)
{
	return set_active_memcg(root_mem_cgroup);
}
EXPORT_SYMBOL_GPL(fbmm_charge_root);

static LIST_HEAD(fbmm_reclaimers);
static DECLARE_RWSEM(fbmm_reclaim_lock);

/**
 * fbmm_add_reclaimer - have memory swapped out for memory cgroups that are full
 * @reclaimer: its function says whether it made room; called with none of the locks that
 *	->fault() and ->fallocate() take, by which ever process needs memory. The gfp
 *	says what it may wait for.
 */
void fbmm_add_reclaimer(struct fbmm_reclaimer *reclaimer)
{
	down_write(&fbmm_reclaim_lock);
	list_add_tail(&reclaimer->list, &fbmm_reclaimers);
	up_write(&fbmm_reclaim_lock);
}
EXPORT_SYMBOL_GPL(fbmm_add_reclaimer);

/* It is not called any more when this returns. */
void fbmm_del_reclaimer(struct fbmm_reclaimer *reclaimer)
{
	down_write(&fbmm_reclaim_lock);
	list_del(&reclaimer->list);
	up_write(&fbmm_reclaim_lock);
}
EXPORT_SYMBOL_GPL(fbmm_del_reclaimer);

bool __fbmm_reclaim(struct mem_cgroup *memcg, gfp_t gfp)
{
	struct fbmm_reclaimer *reclaimer;
	bool done = false;

	/* Going round the files of all mounts is much for a cgroup that has no page there. */
	mem_cgroup_flush_stats(memcg);
	if (!memcg_page_state(memcg, NR_FBMM_PAGES))
		return false;
	gfp = current_gfp_context(gfp);
	if (down_read_killable(&fbmm_reclaim_lock))
		return false;
	list_for_each_entry(reclaimer, &fbmm_reclaimers, list)
		done |= reclaimer->reclaim(reclaimer, memcg, gfp);
	up_read(&fbmm_reclaim_lock);
	return done;
}

/* Count folios no more; those in a row that count together, together. */
static void fbmm_uncount(struct folio_batch *folios)
{
	struct lruvec *lruvec = NULL;
	unsigned int i;
	long nr = 0;

	rcu_read_lock();
	for (i = 0; i < folio_batch_count(folios); i++) {
		struct folio *folio = folios->folios[i];
		struct lruvec *next = folio_lruvec(folio);

		if (next != lruvec && nr)
			mod_lruvec_state(lruvec, NR_FBMM_PAGES, -nr);
		if (next != lruvec)
			nr = 0;
		lruvec = next;
		nr += folio_nr_pages(folio);
	}
	if (nr)
		mod_lruvec_state(lruvec, NR_FBMM_PAGES, -nr);
	rcu_read_unlock();
}

/**
 * fbmm_uncharge_batch - folios are in no file any more
 * @folios: not mapped; charged, all of them. Those that nobody has a reference to
 *	but the caller are not charged afterwards and come first, then the others, whose
 *	charge ends when they are freed.
 *
 * Return: how many are not charged any more.
 */
unsigned int fbmm_uncharge_batch(struct folio_batch *folios)
{
	const unsigned int nr = folio_batch_count(folios);
	unsigned int i, kept = 0;

	fbmm_uncount(folios);
	for (i = 0; i + kept < nr;) {
		if (likely(folio_ref_count(folios->folios[i]) == 1)) {
			i++;
			continue;
		}
		kept++;
		swap(folios->folios[i], folios->folios[nr - kept]);
	}
	folios->nr = i;
	mem_cgroup_uncharge_folios(folios);
	folios->nr = nr;
	return i;
}
EXPORT_SYMBOL_GPL(fbmm_uncharge_batch);

/**
 * fbmm_migrate_charge - let a folio's charge go over to another
 * @folio: not mapped
 * @target: of the same size, not charged
 */
void fbmm_migrate_charge(struct folio *folio, struct folio *target)
{
	const long nr = folio_nr_pages(folio);

	lruvec_stat_mod_folio(folio, NR_FBMM_PAGES, -nr);
	mem_cgroup_migrate(folio, target);
	lruvec_stat_mod_folio(target, NR_FBMM_PAGES, nr);
}
EXPORT_SYMBOL_GPL(fbmm_migrate_charge);

/* What the pages of a large folio take over from it */
#define FBMM_SPLIT_FLAGS	(BIT(PG_uptodate) | BIT(PG_swapbacked) |	\
				 BIT(PG_active) | BIT(PG_workingset) | BIT(PG_referenced))

/**
 * fbmm_split - make base pages of a large folio, where they are
 * @folio: locked, not mapped; one reference, the caller's
 *
 * Each page has one reference afterwards, and the folio's charge is divided. Who
 * looks at pages by their number finds no reference to take meanwhile.
 *
 * Return: whether it was done; not if somebody has a reference.
 */
bool fbmm_split(struct folio *folio)
{
	const unsigned long flags = READ_ONCE(fbmm_flags(folio)) & FBMM_SPLIT_FLAGS;
	const unsigned int order = folio_order(folio);
	struct page *page = folio_page(folio, 0);
	unsigned int i;

	VM_WARN_ON_ONCE_FOLIO(folio_mapped(folio), folio);
	if (!folio_ref_freeze(folio, 1))
		return false;
	fbmm_flags(page + 1) &= ~PAGE_FLAGS_SECOND;
	for (i = 1; i < 1U << order; i++) {
		fbmm_flags(page + i) |= flags;
		clear_compound_head(page + i);
		INIT_LIST_HEAD(&page[i].lru);
		page[i].mapping = NULL;
		page_folio(page + i)->index = 0;
		set_page_private(page + i, 0);
	}
	__ClearPageHead(page);
	page_ref_unfreeze(page, 1);
	fbmm_split_page(page, order);
	return true;
}
EXPORT_SYMBOL_GPL(fbmm_split);

static bool fbmm_clear_accessed_one(struct folio *folio,
				    struct vm_area_struct *vma,
				    unsigned long addr, void *accessed)
{
	DEFINE_FOLIO_VMA_WALK(pvmw, folio, vma, addr, 0);
	bool young = false;

	while (page_vma_mapped_walk(&pvmw)) {
		if (pvmw.pte)
			young |= fbmm_pte_young(vma, pvmw.address, pvmw.pte);
		else if (IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE))
			young |= fbmm_pmd_young(vma, pvmw.address, pvmw.pmd);
	}
	if (young)
		*(bool *)accessed = true;
	return true;
}

/**
 * fbmm_clear_accessed - whether a folio was used since this was last asked
 * @folio: a locked folio of a file, its mapping and index set
 *
 * The accessed bits of all its page table entries are cleared. A processor that
 * has an entry in its TLB does not set the bit again before fbmm_flush_accessed().
 */
bool fbmm_clear_accessed(struct folio *folio)
{
	bool accessed = false;
	struct rmap_walk_control rwc = {
		.rmap_one = fbmm_clear_accessed_one,
		.arg = &accessed,
	};

	if (folio_mapped(folio) && folio->mapping)
		rmap_walk(folio, &rwc);
	return accessed;
}
EXPORT_SYMBOL_GPL(fbmm_clear_accessed);

/**
 * fbmm_flush_accessed - let processors note accesses again
 *
 * To be called once for many folios: it flushes all TLBs.
 */
void fbmm_flush_accessed(void)
{
	flush_tlb_all();
}
EXPORT_SYMBOL_GPL(fbmm_flush_accessed);
