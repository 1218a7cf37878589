// SPDX-License-Identifier: GPL-2.0
/* MAP_POPULATE and mlock(): mapping the pages of a file at once. */
#include <linux/fbmm.h>
#include <linux/falloc.h>
#include <linux/huge_mm.h>
#include <linux/pgalloc.h>
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

/**
 * fbmm_map_zero - map the page of zeros that all share, for reading
 * @vmf: what ->fault() was given; the file has a hole there
 *
 * What is written there goes to ->pfn_mkwrite(), which has to unmap it.
 *
 * Return: what ->fault() is to return.
 */
vm_fault_t fbmm_map_zero(struct vm_fault *vmf)
{
	struct mm_struct *mm = vmf->vma->vm_mm;
	pte_t entry = pfn_pte(fbmm_zero_pfn(vmf->address), vmf->vma->vm_page_prot);
	spinlock_t *ptl;
	pte_t *pte;

	if (pmd_none(*vmf->pmd) && vmf->prealloc_pte)
		pmd_install(mm, vmf->pmd, &vmf->prealloc_pte);
	pte = pte_offset_map_lock(mm, vmf->pmd, vmf->address, &ptl);
	if (!pte)
		return VM_FAULT_NOPAGE;
	if (pte_none(ptep_get(pte)))
		set_pte_at(mm, vmf->address, pte, pte_mkspecial(pte_wrprotect(entry)));
	pte_unmap_unlock(pte, ptl);
	return VM_FAULT_NOPAGE;
}
EXPORT_SYMBOL_GPL(fbmm_map_zero);

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
