// SPDX-License-Identifier: GPL-2.0
/* MAP_POPULATE and mlock(): mapping the pages of a file at once. */
#include <linux/fbmm.h>
#include <linux/falloc.h>
#include <linux/huge_mm.h>
#include <linux/mmu_notifier.h>
#include <linux/page_table_check.h>
#include <linux/pgalloc.h>
#include <linux/rmap.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/userfaultfd_k.h>

#include "../internal.h"
#include "internal.h"

/* Without a distributed page table all places are the same. */
#ifndef pte_alloc_one_at
static inline pgtable_t pte_alloc_one_at(struct mm_struct *mm, pmd_t *pmd)
{
	return pte_alloc_one(mm);
}
#endif

/*
 * So much is filled before it is mapped: a file system can give pages in a row,
 * and the OOM killer, which goes by what is mapped, finds who has the memory. More for
 * those who have so much mapped already.
 */
#define FBMM_FILL	SZ_8M
#define FBMM_FILL_MOST	SZ_64M

static unsigned long fbmm_fill(struct mm_struct *mm)
{
	return rounddown_pow_of_two(clamp(get_mm_rss(mm) << PAGE_SHIFT,
					  (unsigned long)FBMM_FILL,
					  (unsigned long)FBMM_FILL_MOST));
}

/**
 * fbmm_map_folio - map pages of a folio where nothing is mapped
 * @vmf: what ->map_pages() or ->fault() was given
 * @folio: a folio of the file, which does not lose it meanwhile
 * @page: its first page to map
 * @nr: how many to map, not beyond the page table that @vmf is for
 * @addr: where to map them
 *
 * The pages become writable if @vmf is for writing.
 *
 * Return: how many pages are mapped that were not.
 */
unsigned int fbmm_map_folio(struct vm_fault *vmf, struct folio *folio,
			    struct page *page, unsigned int nr,
			    unsigned long addr)
{
	struct mm_struct *mm = vmf->vma->vm_mm;
	unsigned int i, run, mapped = 0;
	pte_t *pte;

	if (pmd_none(*vmf->pmd)) {
		if (nr == HPAGE_PMD_NR && folio_test_pmd_mappable(folio)) {
			folio_get(folio);
			if (!fbmm_set_pmd(vmf, folio, page))
				return nr;
			folio_put(folio);
		}
		if (vmf->prealloc_pte)
			pmd_install(mm, vmf->pmd, &vmf->prealloc_pte);
	}
	pte = pte_offset_map_lock(mm, vmf->pmd, addr, &vmf->ptl);
	if (!pte)
		return 0;
	for (i = 0; i < nr; i += run) {
		run = 1;
		if (!pte_none(ptep_get(pte + i)))
			continue;
		while (i + run < nr && pte_none(ptep_get(pte + i + run)))
			run++;
		vmf->pte = pte + i;
		folio_ref_add(folio, run);
		set_pte_range(vmf, folio, page + i, run, addr + i * PAGE_SIZE);
		mapped += run;
	}
	add_mm_counter(mm, mm_counter_file(folio), mapped);
	vmf->pte = NULL;
	pte_unmap_unlock(pte, vmf->ptl);
	return mapped;
}
EXPORT_SYMBOL_GPL(fbmm_map_folio);

/* Where the part of the mapping begins that a page table has */
static unsigned long fbmm_table_start(struct vm_fault *vmf)
{
	return max(vmf->address & PMD_MASK, vmf->vma->vm_start);
}

/**
 * fbmm_map_zero - map the page of zeros that all share, for reading
 * @vmf: what ->fault() was given; the file has a hole there
 * @all: whether in all of the page table that is in the mapping: there, too
 *
 * What is written there goes to ->pfn_mkwrite(), which has to unmap it.
 *
 * Return: what ->fault() is to return.
 */
vm_fault_t fbmm_map_zero(struct vm_fault *vmf, bool all)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long addr = all ? fbmm_table_start(vmf) : vmf->address;
	const unsigned long end = all ? pmd_addr_end(addr, vma->vm_end) : addr + PAGE_SIZE;
	struct mm_struct *mm = vma->vm_mm;
	pte_t *pte, *first, entry;
	spinlock_t *ptl;

	if (pmd_none(*vmf->pmd) && vmf->prealloc_pte)
		pmd_install(mm, vmf->pmd, &vmf->prealloc_pte);
	first = pte_offset_map_lock(mm, vmf->pmd, addr, &ptl);
	if (!first)
		return VM_FAULT_NOPAGE;
	for (pte = first; addr < end; pte++, addr += PAGE_SIZE) {
		if (!pte_none(ptep_get(pte)))
			continue;
		entry = pfn_pte(fbmm_zero_pfn(addr), vma->vm_page_prot);
		set_pte_at(mm, addr, pte, pte_mkspecial(pte_wrprotect(entry)));
	}
	pte_unmap_unlock(first, ptl);
	return VM_FAULT_NOPAGE;
}
EXPORT_SYMBOL_GPL(fbmm_map_zero);

static bool fbmm_only_zeros(pte_t *pte)
{
	unsigned int i;

	for (i = 0; i < PTRS_PER_PTE; i++, pte++) {
		const pte_t entry = ptep_get(pte);

		if (!pte_none(entry) && !(pte_present(entry) && pte_special(entry)))
			return false;
	}
	return true;
}

/**
 * fbmm_drop_zeros - take away a page table that maps nothing but zeros
 * @vmf: what ->pfn_mkwrite() was given
 *
 * A large folio can be mapped as a whole then. As collapse_pte_mapped_thp() does it.
 *
 * Return: whether the page table is gone; not if it maps something, or reaches beyond
 * the mapping.
 */
bool fbmm_drop_zeros(struct vm_fault *vmf)
{
	const unsigned long start = vmf->address & PMD_MASK;
	struct vm_area_struct *vma = vmf->vma;
	struct mm_struct *mm = vma->vm_mm;
	struct mmu_notifier_range range;
	spinlock_t *pml, *ptl;
	bool done = false;
	pmd_t table;
	pte_t *first;

	if (start < vma->vm_start || start + PMD_SIZE > vma->vm_end)
		return false;
	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, mm, start, start + PMD_SIZE);
	mmu_notifier_invalidate_range_start(&range);
	pml = pmd_lock(mm, vmf->pmd);
	first = fbmm_pte_nolock(mm, vmf->pmd, start, &ptl);
	if (first) {
		if (ptl != pml)
			spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
		done = fbmm_only_zeros(first);
		if (done) {
			table = pmdp_collapse_flush(vma, start, vmf->pmd);
			pmdp_get_lockless_sync();
		}
		if (ptl != pml)
			spin_unlock(ptl);
		pte_unmap(first);
	}
	spin_unlock(pml);
	mmu_notifier_invalidate_range_end(&range);
	if (!done)
		return false;
	mm_dec_nr_ptes(mm);
	page_table_check_pte_clear_range(mm, start, table);
	pte_free_defer(mm, pmd_pgtable(table));
	return true;
}
EXPORT_SYMBOL_GPL(fbmm_drop_zeros);

/* The page that is mapped for reading makes way for @folio; the page table is locked. */
static void fbmm_map_copy(struct vm_fault *vmf, pte_t *pte, struct folio *folio)
{
	struct vm_area_struct *vma = vmf->vma;
	struct folio *old = page_folio(vmf->page);
	pte_t entry = mk_pte(folio_page(folio, 0), vma->vm_page_prot);

	entry = maybe_mkwrite(pte_mkdirty(pte_sw_mkyoung(entry)), vma);
	ptep_clear_flush(vma, vmf->address, pte);
	folio_get(folio);
	folio_add_file_rmap_pte(folio, folio_page(folio, 0), vma);
	set_pte_at(vma->vm_mm, vmf->address, pte, entry);
	update_mmu_cache_range(vmf, vma, vmf->address, pte, 1);
	folio_remove_rmap_pte(old, vmf->page, vma);
	folio_put(old);
}

static bool fbmm_writable(pte_t *pte)
{
	const pte_t entry = ptep_get(pte);

	return pte_present(entry) && pte_write(entry);
}

/* What can be written near a page says what probably will be. */
static enum fbmm_writes fbmm_writes_near(struct vm_fault *vmf, pte_t *pte)
{
	const struct vm_area_struct *vma = vmf->vma;
	const unsigned long start = ALIGN_DOWN(vmf->address, FBMM_AROUND);
	unsigned long addr = max(start, vma->vm_start);

	/* Who wants to know of each write is told of each. */
	if (vma_soft_dirty_enabled(vmf->vma))
		return FBMM_WRITES_HERE;
	if (vmf->address & ~PMD_MASK && vmf->address > vma->vm_start &&
	    fbmm_writable(pte - 1))
		return FBMM_WRITES_UPWARDS;
	pte -= (vmf->address - addr) / PAGE_SIZE;
	for (; addr < min(start + FBMM_AROUND, vma->vm_end); addr += PAGE_SIZE, pte++)
		if (addr != vmf->address && fbmm_writable(pte))
			return FBMM_WRITES_AROUND;
	return FBMM_WRITES_HERE;
}

/**
 * fbmm_map_written - map a page for writing where one is mapped for reading
 * @vmf: what ->page_mkwrite() was given
 * @folio: the base page: what is mapped, or a copy that takes its place in the file,
 *	which does not lose it meanwhile
 * @writes: which pages near this one will probably be written, too
 *
 * So a write after fork() takes one fault, as wp_page_copy() does.
 *
 * Return: whether that was done; if not, the old page may still be mapped.
 */
bool fbmm_map_written(struct vm_fault *vmf, struct folio *folio, enum fbmm_writes *writes)
{
	struct vm_area_struct *vma = vmf->vma;
	const bool copy = folio != page_folio(vmf->page);
	struct mmu_notifier_range range;
	bool same = false;
	spinlock_t *ptl;
	pte_t *pte, entry;

	/* A fault that maps a page is not done with it yet. */
	if (!pte_present(vmf->orig_pte) || userfaultfd_wp(vma))
		return false;
	if (copy) {
		mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, vma->vm_mm,
					vmf->address, vmf->address + PAGE_SIZE);
		mmu_notifier_invalidate_range_start(&range);
	}
	pte = pte_offset_map_lock(vma->vm_mm, vmf->pmd, vmf->address, &ptl);
	if (pte && pte_same(ptep_get(pte), vmf->orig_pte)) {
		same = true;
		*writes = fbmm_writes_near(vmf, pte);
		if (copy) {
			fbmm_map_copy(vmf, pte, folio);
		} else {
			entry = maybe_mkwrite(pte_mkdirty(pte_mkyoung(vmf->orig_pte)), vma);
			if (ptep_set_access_flags(vma, vmf->address, pte, entry, 1))
				update_mmu_cache_range(vmf, vma, vmf->address, pte, 1);
		}
	}
	if (pte)
		pte_unmap_unlock(pte, ptl);
	if (copy)
		mmu_notifier_invalidate_range_end(&range);
	return same;
}
EXPORT_SYMBOL_GPL(fbmm_map_written);

/**
 * fbmm_allow_writes - let the pages near a fault's be written
 * @vmf: what ->page_mkwrite() was given, and fbmm_map_written() was called for
 * @addr: where they are
 * @folios: base pages that the file does not lose meanwhile, NULL for one that is skipped
 * @nr: how many, in a row, not beyond the page table and the mapping
 *
 * Those that are mapped elsewhere, or not, stay as they are.
 */
void fbmm_allow_writes(struct vm_fault *vmf, unsigned long addr, struct folio **folios,
		       unsigned int nr)
{
	struct vm_area_struct *vma = vmf->vma;
	pte_t *first, *pte, entry;
	spinlock_t *ptl;
	unsigned int i;

	first = pte_offset_map_lock(vma->vm_mm, vmf->pmd, addr, &ptl);
	if (!first)
		return;
	for (i = 0, pte = first; i < nr; i++, pte++, addr += PAGE_SIZE) {
		entry = ptep_get(pte);
		if (!folios[i] || !pte_present(entry) || pte_write(entry) ||
		    pte_pfn(entry) != folio_pfn(folios[i]))
			continue;
		ptep_set_access_flags(vma, addr, pte, pte_mkwrite(entry, vma), 1);
	}
	pte_unmap_unlock(first, ptl);
}
EXPORT_SYMBOL_GPL(fbmm_allow_writes);

/* Whether all is mapped in the part of a page table, writable if it is to be. */
static bool fbmm_mapped(struct mm_struct *mm, pmd_t *pmd, unsigned long start,
			unsigned long end, bool write)
{
	bool all = true;
	spinlock_t *ptl;
	pte_t *pte, *first;

	if (pmd_trans_huge(pmdp_get_lockless(pmd)))
		return !write || pmd_write(pmdp_get_lockless(pmd));
	first = pte_offset_map_lock(mm, pmd, start, &ptl);
	if (!first)
		return false;
	for (pte = first; all && start < end; pte++, start += PAGE_SIZE)
		all = pte_present(ptep_get(pte)) &&
		      (!write || pte_write(ptep_get(pte)));
	pte_unmap_unlock(first, ptl);
	return all;
}

static bool fbmm_map_table(struct vm_area_struct *vma, unsigned long start,
			   unsigned long end)
{
	const bool write = vma->vm_flags & VM_WRITE;
	const pgoff_t pgoff = linear_page_index(vma, start);
	struct mm_struct *mm = vma->vm_mm;
	struct vm_fault vmf = {
		.vma = vma,
		.address = start,
		.real_address = start,
		.pgoff = pgoff,
		.gfp_mask = GFP_KERNEL,
		.flags = write ? FAULT_FLAG_WRITE : 0,
	};
	p4d_t *p4d = p4d_alloc(mm, pgd_offset(mm, start), start);

	if (!p4d)
		return false;
	vmf.pud = pud_alloc(mm, p4d, start);
	if (!vmf.pud)
		return false;
	vmf.pmd = pmd_alloc(mm, vmf.pud, start);
	if (!vmf.pmd)
		return false;
	if (pmd_none(*vmf.pmd)) {
		vmf.prealloc_pte = pte_alloc_one_at(mm, vmf.pmd);
		if (!vmf.prealloc_pte)
			return false;
	}
	rcu_read_lock();
	vma->vm_ops->map_pages(&vmf, pgoff,
			       pgoff + ((end - start) >> PAGE_SHIFT) - 1);
	rcu_read_unlock();
	if (vmf.prealloc_pte)
		pte_free(mm, vmf.prealloc_pte);
	return !pmd_none(pmdp_get_lockless(vmf.pmd)) &&
	       fbmm_mapped(mm, vmf.pmd, start, end, write);
}

/**
 * fbmm_nr_locked - how much of a file is locked
 * @mapping: the file's
 *
 * Return: pages, those that several mappings have several times.
 */
unsigned long fbmm_nr_locked(struct address_space *mapping)
{
	struct vm_area_struct *vma;
	unsigned long nr = 0;

	i_mmap_lock_read(mapping);
	vma_interval_tree_foreach(vma, &mapping->i_mmap, 0, ULONG_MAX)
		if (READ_ONCE(vma->vm_flags) & VM_LOCKED)
			nr += vma_pages(vma);
	i_mmap_unlock_read(mapping);
	return nr;
}
EXPORT_SYMBOL_GPL(fbmm_nr_locked);

/**
 * fbmm_populate - MAP_POPULATE and mlock(): fill a mapping's holes, map its pages
 * @vma: a mapping of the shim's
 * @start: where to begin
 * @end: where to end
 *
 * Return: 0 if all is mapped; 1 if page faults have to map the rest; or an
 * error, -ENOMEM if the file system has no more memory.
 */
int fbmm_populate(struct vm_area_struct *vma, unsigned long start,
		  unsigned long end)
{
	const bool map = vma->vm_ops->map_pages && !userfaultfd_armed(vma);
	struct file *file = vma->vm_file;
	unsigned long filled = start;
	unsigned long next;
	bool all = map;
	int err;

	for (; start < end; start = next) {
		if (start == filled) {
			filled = min(ALIGN(start + 1, fbmm_fill(vma->vm_mm)), end);
			err = file->f_op->fallocate(file, FALLOC_FL_KEEP_SIZE,
				(loff_t)linear_page_index(vma, start) << PAGE_SHIFT,
				filled - start);
			if (err)
				return fbmm_error(err);
		}
		if (fatal_signal_pending(current))
			return -EINTR;
		next = pmd_addr_end(start, filled);
		if (map && !fbmm_map_table(vma, start, next))
			all = false;
		cond_resched();
	}
	return all ? 0 : 1;
}
