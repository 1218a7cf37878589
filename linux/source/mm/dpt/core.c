// SPDX-License-Identifier: GPL-2.0
/*
 * Distributed page table.
 *
 * After "Distributed Page Table: Harnessing Physical Memory as An Unbounded
 * Hashed Page Table" (Kwon et al.; MICRO 2024). A page of page table entries
 * lies where a hash of the address says, or near; how near is in a metadata
 * table of the address space. So a processor finds an entry without the tree
 * above it. The tree is kept for the kernel's own use.
 *
 * A table carries in its page what it is for. Its tag is known when it is
 * allocated, from the entry that it is for, whose own table carries a tag, too.
 * From then on it has a line in the metadata table; it has valid metadata while
 * it is installed. They become valid before the entry above names the table,
 * and invalid after it has ceased to, so that what the tree maps the processor
 * finds at any time.
 */
#include <linux/idr.h>
#include <linux/memblock.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmu_context.h>
#include <linux/pgalloc.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <asm/msr.h>

#include "../internal.h"
#include "internal.h"

DEFINE_STATIC_KEY_FALSE(dpt_key);
DEFINE_PER_CPU(struct dpt_counters, dpt_counters);

/* Frames that the hash may name: all of memory at boot, and the holes in it */
u64 dpt_frames __ro_after_init;
/* Whether this processor has the registers */
static bool has_registers __ro_after_init;

static DEFINE_IDA(dpt_ids);

/*
 * What a table is for, in a word of its page that is free at its level: a
 * page of 4 KB entries may be on a list of deposited ones, another's index
 * counts who shares it. The second word's lowest bit would make a tail page.
 */
#define WORD_METADATA	DPT_INVALID
#define WORD_INSTALLED	(1ul << 6)
#define WORD_PLACED	(1ul << 7)
/* The pool has a reference to it, and it stays where it is. */
#define WORD_POOLED	(1ul << 8)
#define WORD_TAG_SHIFT	9

static unsigned long word_of(struct page *page, enum dpt_level level)
{
	struct ptdesc *ptdesc = page_ptdesc(page);

	return level == DPT_4K ? ptdesc->pt_index : ptdesc->_pt_pad_1 >> 1;
}

static void set_word(struct page *page, enum dpt_level level, unsigned long word)
{
	struct ptdesc *ptdesc = page_ptdesc(page);

	if (level == DPT_4K)
		ptdesc->pt_index = word;
	else
		ptdesc->_pt_pad_1 = word << 1;
}

static u64 tag_of(unsigned long word)
{
	return word >> WORD_TAG_SHIFT;
}

/* Whether the page is where its metadata say */
static bool is_placed(struct dpt_mm *dpt, struct page *page, enum dpt_level level,
		unsigned long word)
{
	u64 seed = dpt_seed(dpt->space.id, level);
	u64 base = dpt_base_frame(tag_of(word), seed, dpt_frames);

	return (word & WORD_PLACED) &&
	       dpt_frame(base, word & WORD_METADATA, dpt_frames) == page_to_pfn(page);
}

int __dpt_mm_init(struct mm_struct *mm)
{
	struct dpt_mm *dpt;
	int id, level;

	mm->dpt = NULL;
	/*
	 * What the kernel itself needs before anything runs, to write to its own
	 * text, must not depend on a place. Any processor walks its tree.
	 */
	if (system_state < SYSTEM_SCHEDULING)
		return 0;
	dpt = kzalloc(sizeof(*dpt), GFP_KERNEL_ACCOUNT);
	if (!dpt)
		return -ENOMEM;
	id = ida_alloc_min(&dpt_ids, 1, GFP_KERNEL);
	if (id < 0)
		goto free;
	dpt->space.id = id;
	dpt->space.frames = dpt_frames;
	spin_lock_init(&dpt->lock);
	mutex_init(&dpt->grow);
	mm->dpt = dpt;
	for (level = 0; level < DPT_LEVELS; level++) {
		if (dpt_dmt_init(dpt, level)) {
			__dpt_mm_destroy(mm);
			return -ENOMEM;
		}
	}
	return 0;
free:
	kfree(dpt);
	return -ENOMEM;
}

void __dpt_mm_destroy(struct mm_struct *mm)
{
	struct dpt_mm *dpt = mm->dpt;
	int level;

	if (!dpt)
		return;
	dpt_pool_destroy(dpt);
	for (level = 0; level < DPT_LEVELS; level++)
		dpt_dmt_destroy(dpt, level);
	ida_free(&dpt_ids, dpt->space.id);
	kfree(dpt);
	mm->dpt = NULL;
}

/*
 * Where it is kept that this task's last table found no place. One that shares it
 * may hide that for once: then the fault is tried again, and fails again.
 */
static struct task_struct **without_place(struct dpt_mm *dpt)
{
	return &dpt->without_place[current->pid % ARRAY_SIZE(dpt->without_place)];
}

/* There is memory, but not where it is needed. */
static void no_place(struct mm_struct *mm)
{
	dpt_count(DPT_NO_PLACE);
	pr_warn_ratelimited("dpt: no place for a page table of %s (%d)\n",
			    current->comm, task_pid_nr(current));
	WRITE_ONCE(*without_place(mm->dpt), current);
}

/* Nor would memory help here. */
static void no_line(struct mm_struct *mm)
{
	dpt_count(DPT_NO_LINE);
	pr_warn_ratelimited("dpt: no room for metadata of %s (%d)\n",
			    current->comm, task_pid_nr(current));
	WRITE_ONCE(*without_place(mm->dpt), current);
}

/*
 * Where memory is wanting, a fault of user space is tried again until somebody
 * was killed. That would not help here.
 */
void __dpt_pagefault_out_of_memory(void)
{
	struct dpt_mm *dpt = current->mm ? current->mm->dpt : NULL;

	if (dpt && READ_ONCE(*without_place(dpt)) == current) {
		WRITE_ONCE(*without_place(dpt), NULL);
		force_sig(SIGBUS);
	}
}

/*
 * What is on lists of CPUs is neither free nor movable, and what somebody holds
 * for a moment does not move: search again, and later if that may help. At last,
 * rather than to refuse memory that there is, as far away as metadata can say.
 */
#define SEARCHES	8

static struct page *place(struct dpt_request *request, bool optional)
{
	struct page *page = dpt_place(request);
	int i;

	for (i = 1; !page && !optional && i < SEARCHES; i++) {
		if (i > 1 && !request->hope)
			break;
		if (i > 2)
			schedule_timeout_uninterruptible(i - 2);
		lru_add_drain_all();
		drain_all_pages(NULL);
		request->again = true;
		dpt_count(DPT_SEARCHED_AGAIN);
		page = dpt_place(request);
	}
	if (!page && !optional) {
		request->far = true;
		dpt_count(DPT_SEARCHED_FAR);
		page = dpt_place(request);
	}
	return page;
}

static struct page *alloc_placed(struct mm_struct *mm, enum dpt_level level,
		u64 tag, gfp_t gfp, bool optional)
{
	struct page *page, *spare;
	struct dpt_request request = {
		.tag = tag,
		.seed = dpt_seed(mm->dpt->space.id, level),
		.gfp = gfp & ~(__GFP_ACCOUNT | __GFP_ZERO),
		.spare = &spare,
	};

	/*
	 * The page that Linux would have given. So there is memory, reclaimed
	 * if need be, before one in particular is taken.
	 */
	spare = alloc_page(request.gfp);
	if (!spare)
		return NULL;
	page = place(&request, optional);
	if (spare)
		__free_page(spare);
	if (!page) {
		if (!optional)
			no_place(mm);
		return NULL;
	}
	if ((gfp & __GFP_ACCOUNT) && memcg_kmem_charge_page(page, gfp, 0)) {
		__free_page(page);
		return NULL;
	}
	set_word(page, level, tag << WORD_TAG_SHIFT | WORD_PLACED | request.metadata);
	this_cpu_inc(dpt_counters.placed[request.metadata & 3][request.metadata >> 2]);
	dpt_count(DPT_TABLES);
	return page;
}

static struct page *alloc_table(struct mm_struct *mm, enum dpt_level level,
		u64 tag, gfp_t gfp, bool optional)
{
	struct page *page;
	int error;

	/* Of an earlier failure that no fault has met */
	if (READ_ONCE(*without_place(mm->dpt)) == current)
		WRITE_ONCE(*without_place(mm->dpt), NULL);
	error = dpt_dmt_get(mm, level, tag);
	if (error) {
		dpt_count(DPT_NO_MEMORY);
		if (error == -ENOSPC && !optional)
			no_line(mm);
		return NULL;
	}
	page = alloc_placed(mm, level, tag, gfp, optional);
	if (!page)
		dpt_dmt_put(mm->dpt, level, tag);
	return page;
}

/* A table for the pool, which is not worth an effort */
struct page *dpt_pooled_alloc_noprof(struct mm_struct *mm, u64 tag)
{
	gfp_t gfp = GFP_PGTABLE_USER | __GFP_NORETRY | __GFP_NOWARN;
	struct page *page = alloc_table(mm, DPT_4K, tag, gfp, true);

	if (page)
		set_word(page, DPT_4K, word_of(page, DPT_4K) | WORD_POOLED);
	return page;
}

void dpt_pooled_free(struct dpt_mm *dpt, struct page *page)
{
	dpt_dmt_put(dpt, DPT_4K, tag_of(word_of(page, DPT_4K)));
	set_word(page, DPT_4K, 0);
	dpt_count(DPT_TABLES_FREED);
	__free_page(page);
}

/* A table that no processor looks for */
static struct ptdesc *unplaced(struct ptdesc *ptdesc, enum dpt_level level)
{
	if (ptdesc)
		set_word(ptdesc_page(ptdesc), level, 0);
	return ptdesc;
}

struct ptdesc *__dpt_table_alloc(struct mm_struct *mm, enum dpt_level level,
		unsigned long address, gfp_t gfp)
{
	struct page *page;

	if (!mm->dpt)
		return pagetable_alloc_noprof(gfp, 0);
	/* Page table isolation maps the LDT in the kernel's half. */
	if (address >= TASK_SIZE_MAX)
		return unplaced(pagetable_alloc_noprof(gfp, 0), level);
	page = alloc_table(mm, level, dpt_tag(address, level), gfp, false);
	return page ? page_ptdesc(page) : NULL;
}

/* The tag of what an entry of a table may point to */
static u64 tag_below(pmd_t *pmd)
{
	u64 above = tag_of(word_of(virt_to_page(pmd), DPT_2M));

	return above << (PMD_SHIFT - PAGE_SHIFT) | offset_in_page(pmd) / sizeof(*pmd);
}

struct page *dpt_pte_alloc_one_noprof(struct mm_struct *mm, pmd_t *pmd)
{
	struct page *page;
	u64 tag;

	if (!mm->dpt)
		return pte_alloc_one(mm);
	if (!(word_of(virt_to_page(pmd), DPT_2M) & WORD_PLACED)) {
		page = pte_alloc_one(mm);
		if (page)
			set_word(page, DPT_4K, 0);
		return page;
	}
	tag = tag_below(pmd);
	page = dpt_pool_take(mm->dpt, tag);
	if (!page)
		page = alloc_table(mm, DPT_4K, tag, GFP_PGTABLE_USER, false);
	if (page && !pagetable_pte_ctor(page_ptdesc(page))) {
		__dpt_table_release(mm, page, DPT_4K);
		pagetable_free(page_ptdesc(page));
		return NULL;
	}
	return page;
}

void __dpt_table_install(struct mm_struct *mm, void *entry, struct page *page,
		enum dpt_level level)
{
	unsigned long word;

	if (!mm->dpt)
		return;
	/* Splitting a huge page fills a table before it installs it. */
	if (object_is_on_stack(entry))
		return;
	word = word_of(page, level);
	if (!word)
		return;
	if (WARN_ON_ONCE(!is_placed(mm->dpt, page, level, word))) {
		dpt_count(DPT_UNPLACED);
		return;
	}
	set_word(page, level, word | WORD_INSTALLED);
	dpt_dmt_set(mm->dpt, level, tag_of(word), word & WORD_METADATA);
}

void __dpt_table_remove(struct mm_struct *mm, struct page *page,
		enum dpt_level level)
{
	unsigned long word;

	if (!mm || !mm->dpt)
		return;
	word = word_of(page, level);
	if (!(word & WORD_INSTALLED))
		return;
	set_word(page, level, word & ~WORD_INSTALLED);
	dpt_dmt_set(mm->dpt, level, tag_of(word), DPT_INVALID);
}

void __dpt_table_release(struct mm_struct *mm, struct page *page,
		enum dpt_level level)
{
	unsigned long word;

	if (!mm || !mm->dpt)
		return;
	__dpt_table_remove(mm, page, level);
	word = word_of(page, level);
	if (!(word & WORD_PLACED) || (word & WORD_POOLED))
		return;
	dpt_dmt_put(mm->dpt, level, tag_of(word));
	set_word(page, level, 0);
	dpt_count(DPT_TABLES_FREED);
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
/* The deposited table that belongs to this entry, not just any */
struct page *dpt_withdraw(struct mm_struct *mm, pmd_t *pmd)
{
	struct page *first = pmd_huge_pte(mm, pmd), *page = first;
	u64 tag;

	if (mm->dpt) {
		tag = tag_below(pmd);
		while (tag_of(word_of(page, DPT_4K)) != tag) {
			page = list_next_entry(page, lru);
			if (WARN_ON_ONCE(page == first))
				break;
		}
	}
	if (page == first)
		pmd_huge_pte(mm, pmd) =
			list_first_entry_or_null(&page->lru, struct page, lru);
	if (pmd_huge_pte(mm, pmd))
		list_del(&page->lru);
	return page;
}
#endif

/*
 * What the register says of an address space. The kernel's own has no user
 * address. Others without metadata are the kernel's, too, for firmware and to
 * change text, and have their tree only; NULL is page tables of somebody else.
 */
static u64 register_of(const struct mm_struct *mm)
{
	if (mm && mm->dpt)
		return DPT_SPACE_ON | __pa(&mm->dpt->space);
	return mm == &init_mm ? DPT_SPACE_ON : 0;
}

/* Called with interrupts off; the page tables' own register is written next. */
void __dpt_switch_mm(struct mm_struct *next)
{
	if (has_registers)
		wrmsrl(DPT_MSR_SPACE, register_of(next));
}

/* Only before the first address space exists */
static int __init dpt_setup(char *str)
{
	bool on;

	if (!str || kstrtobool(str, &on))
		return -EINVAL;
	if (on)
		static_branch_enable(&dpt_key);
	else
		static_branch_disable(&dpt_key);
	return 0;
}
early_param("dpt", dpt_setup);

/*
 * Whether steps of 1 GB lead around memory to where those of 2 MB lead anyway:
 * out of a long piece of the kernel's own memory, which is often at its end,
 * nothing leads then.
 */
static bool __init largest_steps_lead_back(void)
{
	u64 step = (1ull << 18) % dpt_frames;

	return min(step, dpt_frames - step) < (DPT_MAX_STEP + 1ull) << 9;
}

/* Before the first address space that is not the kernel's: start_kernel() */
void __init dpt_init(void)
{
	u64 layout;

	if (!dpt_enabled())
		return;
	dpt_frames = max_pfn;
	has_registers = !rdmsrl_safe(DPT_MSR_LAYOUT, &layout) &&
			layout == DPT_LAYOUT;
	pr_info("dpt: %llu frames%s\n", dpt_frames,
		has_registers ? ", and a processor that uses it" : "");
	if (largest_steps_lead_back())
		pr_warn("dpt: memory of this size leaves tables without a place\n");
}
