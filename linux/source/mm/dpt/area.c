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
	u32 id = mm->dpt->space.id;
	unsigned long at;

	for (at = addr & PMD_MASK; at < addr + len; at += PMD_SIZE) {
		pmd_t *pmd = mm_find_pmd(mm, at);

		if (!pmd && (at <= addr || !(at & ~PUD_MASK)) &&
		    !dpt_would_fit(dpt_tag(at, DPT_2M), dpt_seed(id, DPT_2M)))
			return false;
		if ((!pmd || pmd_none(pmdp_get_lockless(pmd))) &&
		    !dpt_would_fit(dpt_tag(at, DPT_4K), dpt_seed(id, DPT_4K)))
			return false;
	}
	return true;
}

/*
 * The areas next to this one, as far as they are free: each with other regions
 * of 2 MB, and aligned alike. With mmap_lock held for writing.
 */
unsigned long dpt_choose_area(unsigned long addr, unsigned long len,
		unsigned long pgoff, unsigned long flags, vm_flags_t vm_flags)
{
	unsigned long count = READ_ONCE(dpt_max_cva_count), i;
	unsigned long step = ALIGN((addr & ~PMD_MASK) + len, PMD_SIZE);
	struct mm_struct *mm = current->mm;
	bool down = test_bit(MMF_TOPDOWN, &mm->flags);

	if (!count || !mm->dpt || (flags & (MAP_FIXED | MAP_32BIT | MAP_GROWSDOWN)) ||
	    len > (unsigned long)READ_ONCE(dpt_max_cva_mib) << 20 ||
	    fits(mm, addr, len))
		return addr;
	dpt_count(DPT_CVA_SEARCHES);
	for (i = 1; i <= count; i++) {
		unsigned long other = down ? addr - i * step : addr + i * step;

		if (down ? other > addr || other < mmap_min_addr :
			   other < addr || other + len < other)
			break;
		if (mm_get_unmapped_area_vmflags(mm, NULL, other, len, pgoff,
						 flags, vm_flags) != other)
			continue;
		dpt_count(DPT_CVA_ATTEMPTS);
		if (!fits(mm, other, len))
			continue;
		dpt_count(DPT_CVA_SUCCESSES);
		return other;
	}
	return addr;
}
