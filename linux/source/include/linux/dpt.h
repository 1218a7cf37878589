/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Distributed page table, switched on by dpt=on: see mm/dpt/core.c.
 */
#ifndef _LINUX_DPT_H
#define _LINUX_DPT_H

#include <linux/dpt_arith.h>
#include <linux/jump_label.h>
#include <linux/mm_types.h>

#ifdef CONFIG_DPT

DECLARE_STATIC_KEY_FALSE(dpt_key);
DECLARE_STATIC_KEY_FALSE(dpt_cuckoo_key);

static __always_inline bool dpt_enabled(void)
{
	return static_branch_unlikely(&dpt_key);
}

void dpt_init(void);
int __dpt_mm_init(struct mm_struct *mm);
void __dpt_mm_destroy(struct mm_struct *mm);
struct ptdesc *__dpt_table_alloc(struct mm_struct *mm, enum dpt_level level,
		unsigned long address, gfp_t gfp);
struct page *dpt_pte_alloc_one_noprof(struct mm_struct *mm, pmd_t *pmd);
#define dpt_pte_alloc_one(...)						\
	alloc_hooks(dpt_pte_alloc_one_noprof(__VA_ARGS__))
void __dpt_table_install(struct mm_struct *mm, void *entry, struct page *page,
		enum dpt_level level);
void __dpt_table_remove(struct mm_struct *mm, struct page *page,
		enum dpt_level level);
void __dpt_table_release(struct mm_struct *mm, struct page *page,
		enum dpt_level level);
struct page *dpt_withdraw(struct mm_struct *mm, pmd_t *pmd);
void __dpt_switch_mm(struct mm_struct *next);
void __dpt_pagefault_out_of_memory(void);
void __dpt_exec(struct mm_struct *mm);
void __dpt_cuckoo_mapped(unsigned int pages);

/* Make the metadata tables of a new address space. Returns 0 or -ENOMEM. */
static inline int dpt_mm_init(struct mm_struct *mm)
{
	return dpt_enabled() ? __dpt_mm_init(mm) : 0;
}

/* Free them. No page table of @mm may be left. */
static inline void dpt_mm_destroy(struct mm_struct *mm)
{
	if (dpt_enabled())
		__dpt_mm_destroy(mm);
}

/* pte_alloc_one() for the table that will be installed in @pmd */
#define pte_alloc_one_at(mm, pmd)					\
	(dpt_enabled() ? dpt_pte_alloc_one(mm, pmd) : pte_alloc_one(mm))

/* A table is about to be installed in @entry: the processor may find it. */
static __always_inline void dpt_table_install(struct mm_struct *mm, void *entry,
		struct page *page, enum dpt_level level)
{
	if (dpt_enabled())
		__dpt_table_install(mm, entry, page, level);
}

/* A table was taken out of its entry, to be freed, deposited or put back. */
static __always_inline void dpt_table_remove(struct mm_struct *mm,
		struct page *page, enum dpt_level level)
{
	if (dpt_enabled())
		__dpt_table_remove(mm, page, level);
}

/* A table is about to be freed. */
static __always_inline void dpt_table_release(struct mm_struct *mm,
		struct page *page, enum dpt_level level)
{
	if (dpt_enabled())
		__dpt_table_release(mm, page, level);
}

/*
 * The processor is about to get other page tables; NULL if those are no address
 * space's.
 */
static __always_inline void dpt_switch_mm(struct mm_struct *next)
{
	if (dpt_enabled())
		__dpt_switch_mm(next);
}

/* A fault failed for want of memory, or of a place for a page table. */
static inline void dpt_pagefault_out_of_memory(void)
{
	if (dpt_enabled())
		__dpt_pagefault_out_of_memory();
}

/* A program is about to start in this address space. */
static inline void dpt_exec(struct mm_struct *mm)
{
	if (dpt_enabled())
		__dpt_exec(mm);
}

/* Pages were mapped: move what a cuckoo hash table would, if that is measured. */
static __always_inline void dpt_cuckoo_mapped(unsigned int pages)
{
	if (static_branch_unlikely(&dpt_cuckoo_key))
		__dpt_cuckoo_mapped(pages);
}

/* With dpt_enabled(): an area for private anonymous memory without a hint */
unsigned long dpt_get_unmapped_area(unsigned long len, unsigned long flags,
		vm_flags_t vm_flags);

#else /* !CONFIG_DPT */

static __always_inline bool dpt_enabled(void)
{
	return false;
}

static inline void dpt_init(void)
{
}

static inline int dpt_mm_init(struct mm_struct *mm)
{
	return 0;
}

static inline void dpt_mm_destroy(struct mm_struct *mm)
{
}

static inline void dpt_switch_mm(struct mm_struct *next)
{
}

static inline void dpt_pagefault_out_of_memory(void)
{
}

static inline void dpt_exec(struct mm_struct *mm)
{
}

static inline void dpt_cuckoo_mapped(unsigned int pages)
{
}

static inline unsigned long dpt_get_unmapped_area(unsigned long len,
		unsigned long flags, vm_flags_t vm_flags)
{
	return 0;
}

static inline struct ptdesc *__dpt_table_alloc(struct mm_struct *mm,
		enum dpt_level level, unsigned long address, gfp_t gfp)
{
	return NULL;
}

static inline void dpt_table_install(struct mm_struct *mm, void *entry,
		struct page *page, enum dpt_level level)
{
}

/* On some architectures a page table is no struct page. */
#define pte_alloc_one_at(mm, pmd)	((void)(pmd), pte_alloc_one(mm))

static inline void dpt_table_remove(struct mm_struct *mm, void *table,
		enum dpt_level level)
{
}

static inline void dpt_table_release(struct mm_struct *mm, void *table,
		enum dpt_level level)
{
}

static inline void *dpt_withdraw(struct mm_struct *mm, pmd_t *pmd)
{
	return NULL;
}

#endif /* CONFIG_DPT */

/* A page for a table of page table entries, placed by the address it maps */
#define dpt_table_alloc(mm, level, address, gfp)			\
	(dpt_enabled() ? __dpt_table_alloc(mm, level, address, gfp) :	\
			 pagetable_alloc_noprof(gfp, 0))

#endif /* _LINUX_DPT_H */
