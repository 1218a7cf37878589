/* SPDX-License-Identifier: GPL-2.0 */
/* What versions of Linux spell differently, for the shim and for memory file systems. */
#ifndef _LINUX_FBMM_VERSION_H
#define _LINUX_FBMM_VERSION_H

#include <linux/dcache.h>
#include <linux/folio_batch.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>

/* A page's flags, or a folio's, as a word */
#define fbmm_flags(_page)		((_page)->flags.f)

#define fbmm_data_flags(_mm)						\
	(vma_flags_to_legacy(VMA_DATA_DEFAULT_FLAGS) | (_mm)->def_flags)
#define fbmm_max_map_count()		get_sysctl_max_map_count()
#define fbmm_set_pmd(_vmf, _folio, _page)	do_set_pmd(_vmf, _folio, _page)
#define fbmm_zero_pfn(_addr)		zero_pfn(_addr)

/* Clear the accessed bit of a page table entry; whether it was set */
#define fbmm_pte_young(_vma, _addr, _pte)				\
	test_and_clear_young_ptes_notify(_vma, _addr, _pte, 1)
#define fbmm_pmd_young(_vma, _addr, _pmd)				\
	pmdp_test_and_clear_young_notify(_vma, _addr, _pmd)

/* Take free pages in a row, each with one reference; returns 0 or an error. */
#define fbmm_take_range(_start, _end, _gfp)				\
	alloc_contig_range(_start, _end, ACR_FLAGS_NONE, _gfp)

/* A file's name is there from now on, until it is unlinked. */
static inline void fbmm_name(struct dentry *dentry, struct inode *inode)
{
	d_make_persistent(dentry, inode);
}

#define fbmm_kill_super			kill_anon_super
#define fbmm_drop_inode			inode_just_drop

/*
 * Divide what was one folio, its references and its charge: a head that is none any more.
 * split_page() divides the charge of the kernel's own pages only, and the first tail has
 * had the number of pages in that place.
 */
static inline void fbmm_split_page(struct page *page, unsigned int order)
{
#ifdef CONFIG_MEMCG
	const unsigned long charge = page->memcg_data;
	unsigned int i;

	folio_split_memcg_refs(page_folio(page), order, 0);
	for (i = 0; i < 1U << order; i++)
		page[i].memcg_data = 0;
	split_page(page, order);
	for (i = 0; i < 1U << order; i++)
		page[i].memcg_data = charge;
#else
	split_page(page, order);
#endif
}

/* A page table's entries, with the lock of the level above held */
#define fbmm_pte_nolock(_mm, _pmd, _addr, _ptl)				\
({									\
	pmd_t __table;							\
									\
	pte_offset_map_rw_nolock(_mm, _pmd, _addr, &__table, _ptl);	\
})

#endif /* _LINUX_FBMM_VERSION_H */
