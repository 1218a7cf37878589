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
#include <linux/memblock.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmu_context.h>
#include <linux/pgalloc.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <asm/msr.h>

#include "../internal.h"
#include "internal.h"

DEFINE_STATIC_KEY_FALSE(dpt_key);
DEFINE_PER_CPU(struct dpt_counters, dpt_counters);

/* Frames that the hash may name: all of memory at boot, without the holes in it */
u64 dpt_frames __ro_after_init;
/* Where they are, for the processor, too; a page has the number in its address */
struct dpt_range dpt_ranges[DPT_MAX_RANGES + 1] __ro_after_init __aligned(PAGE_SIZE);
unsigned int dpt_nr_ranges __ro_after_init;
/* Whether this processor has the registers */
static bool has_registers __ro_after_init;

static atomic64_t spaces = ATOMIC64_INIT(0);

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

/*
 * True if the page is where its metadata say. One that an exception names is shown to the
 * processor by this.
 */
static bool show_placed(struct dpt_mm *dpt, struct page *page, enum dpt_level level,
		unsigned long word)
{
	u64 seed = dpt_seed(dpt->space.key, level);
	u64 base = dpt_base_frame(tag_of(word), seed, dpt_frames);
	u8 metadata = word & WORD_METADATA;

	if (!(word & WORD_PLACED))
		return false;
	if (metadata == DPT_ELSEWHERE)
		return dpt_exception_show(dpt, level, tag_of(word), page_to_pfn(page));
	return dpt_pfn(dpt_frame(base, metadata, dpt_frames), dpt_ranges) ==
	       page_to_pfn(page);
}

/*
 * A program that knew the key could choose where its page tables lie, and whose
 * data are moved for them. One that is given at boot makes runs of a laboratory alike.
 */
static u64 new_key(void)
{
	if (dpt_fixed_key)
		return dpt_hash(atomic64_inc_return(&spaces), dpt_fixed_key);
	return get_random_u64();
}

int __dpt_mm_init(struct mm_struct *mm)
{
	struct dpt_mm *dpt;
	int level;

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
	dpt->space.key = new_key();
	dpt->space.frames = dpt_frames;
	dpt->space.ranges = __pa_symbol(dpt_ranges) | dpt_nr_ranges;
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
	dpt_exceptions_destroy(dpt);
	kfree(dpt);
	mm->dpt = NULL;
}

/*
 * Where it is kept that there is no room for metadata of this task's last table. One that
 * shares it may hide that for once: then the fault is tried again, and fails again.
 */
static struct task_struct **without_line(struct dpt_mm *dpt)
{
	return &dpt->without_line[current->pid % ARRAY_SIZE(dpt->without_line)];
}

static void no_line(struct mm_struct *mm)
{
	dpt_count(DPT_NO_LINE);
	pr_warn_ratelimited("dpt: no room for metadata of %s (%d)\n",
			    current->comm, task_pid_nr(current));
	WRITE_ONCE(*without_line(mm->dpt), current);
}

/*
 * Where memory is wanting, a fault of user space is tried again until somebody
 * was killed. That would not help here.
 */
void __dpt_pagefault_out_of_memory(void)
{
	struct dpt_mm *dpt = current->mm ? current->mm->dpt : NULL;

	if (dpt && READ_ONCE(*without_line(dpt)) == current) {
		WRITE_ONCE(*without_line(dpt), NULL);
		force_sig(SIGBUS);
	}
}

/*
 * Where no place can be had, the table stays in the page that Linux gave, and the table of
 * exceptions says so. Returns NULL only for want of memory, or of room there.
 */
static struct page *place_anywhere(struct mm_struct *mm, enum dpt_level level,
		struct dpt_request *request)
{
	struct page *page;
	int error;

	if (!*request->spare)
		*request->spare = alloc_page(request->gfp);
	page = *request->spare;
	if (!page)
		return NULL;
	error = dpt_exception_add(mm, level, request->tag, page_to_pfn(page));
	if (error) {
		dpt_count(DPT_NO_MEMORY);
		if (error == -ENOSPC)
			no_line(mm);
		return NULL;
	}
	*request->spare = NULL;
	clear_page(page_address(page));
	request->metadata = DPT_ELSEWHERE;
	dpt_count(DPT_ANYWHERE);
	return page;
}

/*
 * Two searches at most, of so many frames as metadata can name and a few pages moved: more
 * nobody can make the kernel do for a table. Lists of CPUs are not given back for it.
 */
static struct page *place(struct mm_struct *mm, enum dpt_level level,
		struct dpt_request *request, bool optional)
{
	struct page *page = dpt_place(request);

	if (page || optional)
		return page;
	request->again = true;
	dpt_count(DPT_SEARCHED_AGAIN);
	page = dpt_place(request);
	return page ? page : place_anywhere(mm, level, request);
}

static struct page *alloc_placed(struct mm_struct *mm, enum dpt_level level,
		u64 tag, gfp_t gfp, bool optional)
{
	struct page *page, *spare;
	struct dpt_request request = {
		.tag = tag,
		.seed = dpt_seed(mm->dpt->space.key, level),
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
	page = place(mm, level, &request, optional);
	if (spare)
		__free_page(spare);
	if (!page)
		return NULL;
	if ((gfp & __GFP_ACCOUNT) && memcg_kmem_charge_page(page, gfp, 0)) {
		if (request.metadata == DPT_ELSEWHERE)
			dpt_exception_del(mm->dpt, level, tag, page_to_pfn(page));
		__free_page(page);
		return NULL;
	}
	set_word(page, level, tag << WORD_TAG_SHIFT | WORD_PLACED | request.metadata);
	if (dpt_metadata_valid(request.metadata))
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
	if (READ_ONCE(*without_line(mm->dpt)) == current)
		WRITE_ONCE(*without_line(mm->dpt), NULL);
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
	if (WARN_ON_ONCE(!show_placed(mm->dpt, page, level, word))) {
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
	if ((word & WORD_METADATA) == DPT_ELSEWHERE)
		dpt_exception_hide(mm->dpt, level, tag_of(word), page_to_pfn(page));
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
	if ((word & WORD_METADATA) == DPT_ELSEWHERE)
		dpt_exception_del(mm->dpt, level, tag_of(word), page_to_pfn(page));
	dpt_dmt_put(mm->dpt, level, tag_of(word));
	set_word(page, level, 0);
	dpt_count(DPT_TABLES_FREED);
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
/*
 * Look both ways round the list, from the table that was deposited last: the next one is the
 * oldest. Memory that was touched upwards or downwards, and is unmapped upwards, has its
 * table at either end.
 */
static struct page *find_deposited(struct page *first, u64 tag)
{
	struct page *next = first, *previous = first;

	while (tag_of(word_of(next, DPT_4K)) != tag) {
		previous = list_prev_entry(previous, lru);
		if (tag_of(word_of(previous, DPT_4K)) == tag)
			return previous;
		next = list_next_entry(next, lru);
		if (WARN_ON_ONCE(next == first))
			break;
	}
	return next;
}

/* The deposited table that belongs to this entry, not just any */
struct page *dpt_withdraw(struct mm_struct *mm, pmd_t *pmd)
{
	struct page *first = pmd_huge_pte(mm, pmd), *page = first;

	if (mm->dpt)
		page = find_deposited(first, tag_below(pmd));
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

/* Make room for one more range: the smallest is not named by the hash then. */
static void __init drop_range(void)
{
	unsigned int least = 0, i;

	for (i = 1; i < dpt_nr_ranges; i++)
		if (dpt_ranges[i].frames < dpt_ranges[least].frames)
			least = i;
	dpt_nr_ranges--;
	memmove(&dpt_ranges[least], &dpt_ranges[least + 1],
		(dpt_nr_ranges - least) * sizeof(*dpt_ranges));
}

static void __init find_ranges(void)
{
	unsigned long start, end;
	struct dpt_range *last = NULL;
	int i;

	for_each_mem_pfn_range(i, MAX_NUMNODES, &start, &end, NULL) {
		if (last && last->start + last->frames == start) {
			last->frames += end - start;
			continue;
		}
		dpt_ranges[dpt_nr_ranges++] = (struct dpt_range){ start, end - start };
		if (dpt_nr_ranges > DPT_MAX_RANGES)
			drop_range();
		last = &dpt_ranges[dpt_nr_ranges - 1];
	}
	for (i = 0; i < dpt_nr_ranges; i++)
		dpt_frames += dpt_ranges[i].frames;
}

/* Before the first address space that is not the kernel's: start_kernel() */
void __init dpt_init(void)
{
	u64 layout;

	if (!dpt_enabled())
		return;
	find_ranges();
	has_registers = !rdmsrl_safe(DPT_MSR_LAYOUT, &layout) &&
			layout == DPT_LAYOUT;
	pr_info("dpt: %llu frames in %u ranges%s\n", dpt_frames, dpt_nr_ranges,
		has_registers ? ", and a processor that uses it" : "");
}
