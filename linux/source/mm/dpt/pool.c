// SPDX-License-Identifier: GPL-2.0
/*
 * Pooling (PTP): when a program starts, the tables of two stretches of its
 * addresses are placed, before memory fills: of the first part of the heap that
 * brk() lets grow, and of an area for memory that may lie anywhere. Section VI-B
 * of the paper.
 *
 * The pool has a reference to each table. While a table is in use there is
 * another one, which is given back when no processor walks it any more. So a
 * table that only the pool has can be used, again and again.
 */
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched/coredump.h>
#include <linux/security.h>
#include <linux/slab.h>

#include "../internal.h"
#include "internal.h"

/* How far the area is from where other mappings begin */
#define AWAY	(64ul << 30)

static struct page **slot(struct dpt_mm *dpt, u64 tag)
{
	int kind;

	for (kind = 0; kind < DPT_POOLS; kind++) {
		struct dpt_pool *pool = &dpt->pool[kind];
		u64 place = tag - dpt_tag(pool->start, DPT_4K);

		if (place < pool->regions)
			return &pool->table[place];
	}
	return NULL;
}

/* The table of a tag, zeroed, if the pool has it and it is not in use */
struct page *dpt_pool_take(struct dpt_mm *dpt, u64 tag)
{
	struct page *page = NULL, **table;

	if (!dpt->pool[DPT_POOL_HEAP].regions && !dpt->pool[DPT_POOL_AREA].regions)
		return NULL;
	spin_lock(&dpt->lock);
	table = slot(dpt, tag);
	if (table && *table && page_count(*table) == 1) {
		page = *table;
		get_page(page);
	}
	spin_unlock(&dpt->lock);
	if (!page)
		return NULL;
	/* Of its last use there may be more left than entries. */
	clear_page(page_address(page));
	/* ptlock_init() wants its lock's place as the page allocator leaves it. */
	set_page_private(page, 0);
	dpt_count(DPT_PTP_SERVED);
	return page;
}

static void make(struct mm_struct *mm, enum dpt_pool_kind kind,
		unsigned long start, unsigned long end)
{
	struct dpt_pool *pool = &mm->dpt->pool[kind];
	unsigned int regions, i;
	struct page **table;

	start &= PMD_MASK;
	regions = DIV_ROUND_UP(end - start, PMD_SIZE);
	/* Freed where nothing may sleep */
	table = kcalloc(regions, sizeof(*table), GFP_KERNEL_ACCOUNT);
	if (!table)
		return;
	for (i = 0; i < regions; i++) {
		unsigned long at = start + i * PMD_SIZE;
		pmd_t *pmd = mm_find_pmd(mm, at);

		/* There may be a table, of the program's own data. */
		if (!pmd || pmd_none(pmdp_get_lockless(pmd)))
			table[i] = dpt_pooled_alloc(mm, dpt_tag(at, DPT_4K));
		if (table[i])
			dpt_count(DPT_PTP_TABLES);
	}
	spin_lock(&mm->dpt->lock);
	pool->start = start;
	pool->table = table;
	pool->regions = regions;
	spin_unlock(&mm->dpt->lock);
}

/* Before a program runs, in its address space */
void __dpt_exec(struct mm_struct *mm)
{
	unsigned long size = (unsigned long)READ_ONCE(dpt_ptp_mib) << 20;
	struct vm_unmapped_area_info info = {
		.flags = VM_UNMAPPED_AREA_TOPDOWN,
		.length = size,
		.low_limit = max(mmap_min_addr, PAGE_SIZE),
		.align_mask = ~PMD_MASK,
	};
	unsigned long start;

	if (!size || !mm->dpt)
		return;
	mmap_read_lock(mm);
	make(mm, DPT_POOL_HEAP, mm->start_brk, mm->start_brk + size);
	if (test_bit(MMF_TOPDOWN, &mm->flags) && mm->mmap_base > 2 * AWAY) {
		info.high_limit = mm->mmap_base - AWAY;
		start = vm_unmapped_area(&info);
		if (!IS_ERR_VALUE(start))
			make(mm, DPT_POOL_AREA, start, start + size);
	}
	mmap_read_unlock(mm);
}

/*
 * A place in the pool's area, the first from its start, aligned as @addr is where
 * there is room for huge pages; 0 if there is none.
 */
unsigned long dpt_pool_find(struct mm_struct *mm, unsigned long addr,
		unsigned long len)
{
	const struct dpt_pool *pool = &mm->dpt->pool[DPT_POOL_AREA];
	unsigned long size = pool->regions * PMD_SIZE, found;
	struct vm_unmapped_area_info info = {
		.length = len,
		.low_limit = pool->start,
		.high_limit = pool->start + size,
	};

	if (len > size)
		return 0;
	if (len >= PMD_SIZE) {
		info.align_mask = ~PMD_MASK;
		info.align_offset = addr & ~PMD_MASK;
	}
	found = vm_unmapped_area(&info);
	if (IS_ERR_VALUE(found))
		return 0;
	dpt_count(DPT_PTP_AREAS);
	return found;
}

void dpt_pool_destroy(struct dpt_mm *dpt)
{
	unsigned int i;
	int kind;

	for (kind = 0; kind < DPT_POOLS; kind++) {
		struct dpt_pool *pool = &dpt->pool[kind];

		for (i = 0; i < pool->regions; i++)
			if (pool->table[i])
				dpt_pooled_free(dpt, pool->table[i]);
		kfree(pool->table);
	}
}
