/* SPDX-License-Identifier: GPL-2.0 */
/* What versions of Linux spell differently, for the shim and for memory file systems. */
#ifndef _LINUX_FBMM_VERSION_H
#define _LINUX_FBMM_VERSION_H

#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/pagevec.h>

/* A page's flags, or a folio's, as a word */
#define fbmm_flags(_page)		((_page)->flags)

#define fbmm_data_flags(_mm)		(VM_DATA_DEFAULT_FLAGS | (_mm)->def_flags)
#define fbmm_max_map_count()		sysctl_max_map_count
#define fbmm_zero_pfn(_addr)		my_zero_pfn(_addr)

static inline vm_fault_t fbmm_set_pmd(struct vm_fault *vmf, struct folio *folio,
				      struct page *page)
{
	return do_set_pmd(vmf, page);
}

/* Clear the accessed bit of a page table entry; whether it was set */
#define fbmm_pte_young(_vma, _addr, _pte)	ptep_clear_young_notify(_vma, _addr, _pte)
#define fbmm_pmd_young(_vma, _addr, _pmd)	pmdp_clear_young_notify(_vma, _addr, _pmd)

/* Take free pages in a row, each with one reference; returns 0 or an error. */
#define fbmm_take_range(_start, _end, _gfp)				\
	alloc_contig_range(_start, _end, MIGRATE_MOVABLE, _gfp)

/* A file's name is there from now on, until it is unlinked. */
static inline void fbmm_name(struct dentry *dentry, struct inode *inode)
{
	d_instantiate(dentry, inode);
	dget(dentry);
}

#define fbmm_kill_super			kill_litter_super
#define fbmm_drop_inode			generic_delete_inode

/* Divide what was one folio, its references and its charge: a head that is none any more */
static inline void fbmm_split_page(struct page *page, unsigned int order)
{
	split_page(page, order);
}

/* A page table's entries, with the lock of the level above held */
#define fbmm_pte_nolock(_mm, _pmd, _addr, _ptl)				\
	pte_offset_map_nolock(_mm, _pmd, _addr, _ptl)

#endif /* _LINUX_FBMM_VERSION_H */
