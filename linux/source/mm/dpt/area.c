// SPDX-License-Identifier: GPL-2.0
/*
 * Collision-aware choice of addresses (CVA): memory that may lie anywhere gets
 * an area whose page tables have places, if there is one nearby. Section V-B of
 * the paper.
 *
 * Tables are made on first touch, as always. The paper makes them when the area
 * is chosen; here a table would keep a huge page out, and be left behind if the
 * area is not used after all. So a place may be gone by then, and the table
 * finds another one as without CVA.
 */
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched/coredump.h>
#include <linux/sched/mm.h>
#include <linux/security.h>

#include "../internal.h"
#include "internal.h"

/* Whether every table that the area needs and has not yet would be placed now */
static bool fits(struct mm_struct *mm, unsigned long addr, unsigned long len)
{
	u64 key = mm->dpt->space.key;
	unsigned long at;

	for (at = addr & PMD_MASK; at < addr + len; at += PMD_SIZE) {
		pmd_t *pmd = mm_find_pmd(mm, at);

		if (!pmd && (at <= addr || !(at & ~PUD_MASK)) &&
		    !dpt_would_fit(dpt_tag(at, DPT_2M), dpt_seed(key, DPT_2M)))
			return false;
		if ((!pmd || pmd_none(pmdp_get_lockless(pmd))) &&
		    !dpt_would_fit(dpt_tag(at, DPT_4K), dpt_seed(key, DPT_4K)))
			return false;
	}
	return true;
}

/*
 * Free areas below this one, each with other regions of 2 MB, and aligned alike.
 * A search goes on where the last one ended: what it has refused is free still,
 * and would be met again. With mmap_lock held for writing.
 */
static unsigned long choose(unsigned long addr, unsigned long len,
		unsigned long flags, vm_flags_t vm_flags)
{
	unsigned int count = READ_ONCE(dpt_max_cva_count), i;
	struct mm_struct *mm = current->mm;
	struct vm_unmapped_area_info info = {
		.flags = VM_UNMAPPED_AREA_TOPDOWN,
		.length = len,
		.low_limit = max(mmap_min_addr, PAGE_SIZE),
		.align_mask = ~PMD_MASK,
		.align_offset = addr & ~PMD_MASK,
	};
	unsigned long other;

	/* Where these may lie is more than this knows. */
	if ((flags & (MAP_FIXED | MAP_32BIT | MAP_ABOVE4G | MAP_GROWSDOWN)) ||
	    (vm_flags & VM_SHADOW_STACK) || !test_bit(MMF_TOPDOWN, &mm->flags))
		return addr;
	if (!mm->dpt)
		return addr;
	other = dpt_pool_find(mm, addr, len);
	if (other)
		return other;
	if (!count ||
	    len > (unsigned long)READ_ONCE(dpt_max_cva_mib) << 20 ||
	    fits(mm, addr, len))
		return addr;
	dpt_count(DPT_CVA_SEARCHES);
	if (!mm->dpt->area || mm->dpt->area > addr)
		mm->dpt->area = addr;
	for (i = 0; i < count; i++) {
		info.high_limit = mm->dpt->area & PMD_MASK;
		/* Nothing is left below; a limit of 0 would be none. */
		if (info.high_limit < info.low_limit + len) {
			mm->dpt->area = 0;
			break;
		}
		other = vm_unmapped_area(&info);
		mm->dpt->area = IS_ERR_VALUE(other) ? 0 : other;
		if (!mm->dpt->area)
			break;
		dpt_count(DPT_CVA_ATTEMPTS);
		if (!fits(mm, other, len))
			continue;
		dpt_count(DPT_CVA_SUCCESSES);
		return other;
	}
	return addr;
}

/* What __get_unmapped_area() does for private anonymous memory without a hint */
unsigned long dpt_get_unmapped_area(unsigned long len, unsigned long flags,
		vm_flags_t vm_flags)
{
	unsigned long addr;

	if (IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE) && IS_ALIGNED(len, PMD_SIZE))
		addr = thp_get_unmapped_area_vmflags(NULL, 0, len, 0, flags,
						     vm_flags);
	else
		addr = mm_get_unmapped_area_vmflags(current->mm, NULL, 0, len, 0,
						    flags, vm_flags);
	return IS_ERR_VALUE(addr) ? addr : choose(addr, len, flags, vm_flags);
}
