// SPDX-License-Identifier: GPL-2.0
/*
 * Tables that are in none of the places that metadata can name. Where there is memory but no
 * place for a table, it stays in the page that Linux gave: that can be done as long as
 * anything can. The paper leaves open what happens then.
 *
 * The processor finds the page in a table of the address space's own, which it reads at any
 * time: a slot is empty to it while its page's number changes, and a larger table is complete
 * before the processor is told of it. All of it is single pages, which the page allocator has
 * or makes, so that it can grow where memory is in pieces.
 *
 * Each page has a slot from its allocation on: installing it happens under a spinlock, where
 * nothing can be allocated. There may be several pages for one tag: threads that fault at once
 * each have one, and so has a huge page its deposited table. The processor sees the slot of the
 * installed one, which the page table lock makes the only one.
 */
#include <linux/gfp.h>
#include <linux/log2.h>
#include <linux/mm.h>

#include "internal.h"

#define SLOTS_A_PAGE	(DPT_EXCEPTIONS_A_LINE * DPT_EXCEPTION_LINES)

/* The slot of a table's page, or NULL; @free is where it could go. */
static struct dpt_exception *find(const struct dpt_exceptions *exceptions, u64 key,
		u64 pfn, u64 tag, u64 seed, struct dpt_exception **free)
{
	unsigned int line = dpt_exception_line(tag, seed), i, j;
	struct dpt_exception *first, *slot;

	*free = NULL;
	first = __va(exceptions->folder[dpt_exception_page(tag, seed, exceptions->pages)]);
	for (i = 0; i < DPT_EXCEPTION_LINES; i++) {
		bool last = false;

		slot = first + (line + i) % DPT_EXCEPTION_LINES * DPT_EXCEPTIONS_A_LINE;
		for (j = 0; j < DPT_EXCEPTIONS_A_LINE; j++, slot++) {
			if ((slot->key | DPT_EXCEPTION_HIDDEN) == (key | DPT_EXCEPTION_HIDDEN) &&
			    slot->pfn == pfn)
				return slot;
			if (!*free && !(slot->key & DPT_EXCEPTION))
				*free = slot;
			last |= !slot->key;
		}
		if (last)
			break;
	}
	return NULL;
}

static void write_slot(struct dpt_exceptions *exceptions, struct dpt_exception *slot,
		u64 key, u64 pfn)
{
	if (!slot->key)
		exceptions->used++;
	slot->pfn = pfn;
	/* The processor must not find the table before its page. */
	smp_wmb();
	WRITE_ONCE(slot->key, key);
}

static void free_folder(struct dpt_exceptions *exceptions)
{
	unsigned int i;

	for (i = 0; i < exceptions->pages; i++)
		free_page((unsigned long)__va(exceptions->folder[i]));
	free_page((unsigned long)exceptions->folder);
}

static int alloc_folder(struct dpt_exceptions *exceptions, unsigned int pages)
{
	unsigned long page;

	*exceptions = (struct dpt_exceptions){};
	if (pages > DPT_EXCEPTION_PAGES)
		return -ENOSPC;
	exceptions->folder = (u64 *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!exceptions->folder)
		return -ENOMEM;
	while (exceptions->pages < pages) {
		page = get_zeroed_page(GFP_KERNEL_ACCOUNT);
		if (!page) {
			free_folder(exceptions);
			return -ENOMEM;
		}
		exceptions->folder[exceptions->pages++] = __pa(page);
	}
	return 0;
}

/* Each page's contents go into two, so that there is room. */
static void copy_slots(struct dpt_mm *dpt, struct dpt_exceptions *new,
		const struct dpt_exceptions *old)
{
	unsigned int i, j;

	for (i = 0; i < old->pages; i++) {
		struct dpt_exception *from = __va(old->folder[i]), *to;

		for (j = 0; j < SLOTS_A_PAGE; j++, from++) {
			u64 tag = from->key >> 4;
			enum dpt_level level = from->key >> 2 & 3;

			if (!(from->key & DPT_EXCEPTION))
				continue;
			find(new, from->key, from->pfn, tag,
			     dpt_seed(dpt->space.key, level), &to);
			write_slot(new, to, from->key, from->pfn);
		}
	}
}

/* Twice the pages. May be without effect: somebody else may have made room. */
static int grow(struct mm_struct *mm, unsigned int pages)
{
	struct dpt_mm *dpt = mm->dpt;
	struct dpt_exceptions new, old;
	int error;

	guard(mutex)(&dpt->grow);
	if (dpt->exceptions.pages != pages)
		return 0;
	error = alloc_folder(&new, pages ? 2 * pages : 1);
	if (error)
		return error;
	spin_lock(&dpt->lock);
	old = dpt->exceptions;
	copy_slots(dpt, &new, &old);
	dpt->exceptions = new;
	/* The processor must not find the folder before its pages. */
	smp_wmb();
	WRITE_ONCE(dpt->space.exceptions, __pa(new.folder) | ilog2(new.pages));
	spin_unlock(&dpt->lock);
	if (!old.folder)
		return 0;
	dpt_count(DPT_EXCEPTIONS_GROWN);
	dpt_await_walks(mm);
	free_folder(&old);
	return 0;
}

/* A slot for a table's page, hidden: 0, -ENOMEM, or -ENOSPC if there are too many. */
int dpt_exception_add(struct mm_struct *mm, enum dpt_level level, u64 tag, u64 pfn)
{
	struct dpt_exceptions *exceptions = &mm->dpt->exceptions;
	u64 seed = dpt_seed(mm->dpt->space.key, level);
	u64 key = dpt_exception_key(tag, level) | DPT_EXCEPTION_HIDDEN;
	struct dpt_exception *free;
	unsigned int pages;
	int error;

	for (;;) {
		spin_lock(&mm->dpt->lock);
		free = NULL;
		pages = exceptions->pages;
		if (pages)
			WARN_ON_ONCE(find(exceptions, key, pfn, tag, seed, &free));
		/* Past three quarters a failing search is long. */
		if (free && !free->key &&
		    (exceptions->used + 1) * 4 > pages * SLOTS_A_PAGE * 3)
			free = NULL;
		if (free)
			write_slot(exceptions, free, key, pfn);
		spin_unlock(&mm->dpt->lock);
		if (free)
			return 0;
		error = grow(mm, pages);
		if (error)
			return error;
	}
}

/* Write another key to the slot of a table's page; false if it has none. */
static bool set_key(struct dpt_mm *dpt, enum dpt_level level, u64 tag, u64 pfn, u64 key)
{
	struct dpt_exception *slot = NULL, *free;

	spin_lock(&dpt->lock);
	if (dpt->exceptions.folder)
		slot = find(&dpt->exceptions, dpt_exception_key(tag, level), pfn, tag,
			    dpt_seed(dpt->space.key, level), &free);
	if (slot)
		WRITE_ONCE(slot->key, key);
	spin_unlock(&dpt->lock);
	return slot;
}

/* The processor finds the page from now on. False if it has no slot. */
bool dpt_exception_show(struct dpt_mm *dpt, enum dpt_level level, u64 tag, u64 pfn)
{
	return set_key(dpt, level, tag, pfn, dpt_exception_key(tag, level));
}

void dpt_exception_hide(struct dpt_mm *dpt, enum dpt_level level, u64 tag, u64 pfn)
{
	u64 key = dpt_exception_key(tag, level) | DPT_EXCEPTION_HIDDEN;

	WARN_ON_ONCE(!set_key(dpt, level, tag, pfn, key));
}

void dpt_exception_del(struct dpt_mm *dpt, enum dpt_level level, u64 tag, u64 pfn)
{
	WARN_ON_ONCE(!set_key(dpt, level, tag, pfn, DPT_EXCEPTION_GONE));
}

void dpt_exceptions_destroy(struct dpt_mm *dpt)
{
	if (dpt->exceptions.folder)
		free_folder(&dpt->exceptions);
}
