/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Exact folio accounting, switched on by foliomap=on: see mm/foliomap.c.
 */
#ifndef _LINUX_FOLIOMAP_H
#define _LINUX_FOLIOMAP_H

#include <linux/jump_label.h>
#include <linux/types.h>

struct folio;
struct mm_struct;

#ifdef CONFIG_FOLIOMAP

DECLARE_STATIC_KEY_FALSE(foliomap_key);

static __always_inline bool foliomap_enabled(void)
{
	return static_branch_unlikely(&foliomap_key);
}

/* Which ids are given out; the last one to all that find no other. */
extern unsigned int foliomap_first_id, foliomap_last_id;

void foliomap_set_id(struct mm_struct *mm, unsigned int id);
int __foliomap_mm_init(struct mm_struct *mm);
void __foliomap_mm_destroy(struct mm_struct *mm);

void foliomap_prep(struct folio *folio, unsigned int order);
void foliomap_set_new(struct folio *folio, struct mm_struct *mm, int nr);
int foliomap_add(struct folio *folio, struct mm_struct *mm, int nr);
int foliomap_remove(struct folio *folio, struct mm_struct *mm, int nr);
bool foliomap_mapped_shared(struct folio *folio, struct mm_struct *mm);
bool foliomap_can_reuse(struct folio *folio, struct mm_struct *mm);
int foliomap_average_mapcount(struct folio *folio);

#else /* !CONFIG_FOLIOMAP */

static __always_inline bool foliomap_enabled(void)
{
	return false;
}

static inline int __foliomap_mm_init(struct mm_struct *mm)
{
	return 0;
}

static inline void __foliomap_mm_destroy(struct mm_struct *mm)
{
}

static inline void foliomap_prep(struct folio *folio, unsigned int order)
{
}

static inline void foliomap_set_new(struct folio *folio, struct mm_struct *mm,
		int nr)
{
}

static inline int foliomap_add(struct folio *folio, struct mm_struct *mm,
		int nr)
{
	return 0;
}

static inline int foliomap_remove(struct folio *folio, struct mm_struct *mm,
		int nr)
{
	return 0;
}

static inline bool foliomap_mapped_shared(struct folio *folio,
		struct mm_struct *mm)
{
	return true;
}

static inline bool foliomap_can_reuse(struct folio *folio,
		struct mm_struct *mm)
{
	return false;
}

static inline int foliomap_average_mapcount(struct folio *folio)
{
	return 0;
}

#endif /* CONFIG_FOLIOMAP */

/* Give a new address space its id. Returns 0 or -ENOMEM. */
static inline int foliomap_mm_init(struct mm_struct *mm)
{
	return foliomap_enabled() ? __foliomap_mm_init(mm) : 0;
}

/* Take the id back. No page table entry of @mm may be left. */
static inline void foliomap_mm_destroy(struct mm_struct *mm)
{
	if (foliomap_enabled())
		__foliomap_mm_destroy(mm);
}

#endif /* _LINUX_FOLIOMAP_H */
