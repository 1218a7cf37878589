// SPDX-License-Identifier: GPL-2.0
/*
 * The metadata tables of an address space, which the processor reads.
 *
 * A table is an open-addressed one of lines, each with the metadata of a group
 * of 64 tags, in contiguous memory. The processor reads it at any time, so a
 * line's metadata are there before its head, and a larger table is complete
 * before the processor is told of it.
 *
 * A line is kept for a group as long as a page of it exists, installed or not:
 * installing one happens under a spinlock, where nothing can be allocated. A
 * line without pages stays, as others may have been placed behind it, until
 * another group takes it over.
 */
#include <linux/gfp.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/smp.h>

#include "internal.h"

#define LINES_PER_PAGE	(PAGE_SIZE / sizeof(struct dpt_line))

static unsigned int order_of(unsigned int lines)
{
	return ilog2(lines / LINES_PER_PAGE);
}

static struct dpt_line *alloc_lines(unsigned int lines)
{
	return (void *)__get_free_pages(GFP_KERNEL_ACCOUNT | __GFP_ZERO |
					__GFP_NOWARN, order_of(lines));
}

static u64 table_of(const struct dpt_dmt *dmt)
{
	return __pa(dmt->line) | ilog2(dmt->lines);
}

/* Starts with half the lines, and so on, where there is no contiguous memory. */
int dpt_dmt_init(struct dpt_mm *dpt, enum dpt_level level)
{
	struct dpt_dmt *dmt = &dpt->dmt[level];
	unsigned int lines = dpt_dmt_lines[level];

	for (; lines >= LINES_PER_PAGE; lines /= 2) {
		dmt->line = alloc_lines(lines);
		if (dmt->line) {
			dmt->lines = lines;
			dmt->used = 0;
			dpt->space.table[level] = table_of(dmt);
			return 0;
		}
	}
	return -ENOMEM;
}

void dpt_dmt_destroy(struct dpt_mm *dpt, enum dpt_level level)
{
	struct dpt_dmt *dmt = &dpt->dmt[level];
	unsigned int i;

	if (!dmt->line)
		return;
	for (i = 0; i < dmt->lines; i++)
		WARN_ON_ONCE(dmt->line[i].head >> DPT_HEAD_PAGES_SHIFT);
	free_pages((unsigned long)dmt->line, order_of(dmt->lines));
}

/* The line of a group, or NULL; @free is where it could go. */
static struct dpt_line *find(const struct dpt_dmt *dmt, u64 group, u64 seed,
		struct dpt_line **free)
{
	u64 first = dpt_line_first(group, seed, dmt->lines), i;
	u64 limit = min_t(u64, dmt->lines, DPT_MAX_PROBES);

	*free = NULL;
	for (i = 0; i < limit; i++) {
		struct dpt_line *line = &dmt->line[(first + i) & (dmt->lines - 1)];

		if (dpt_line_is(line->head, group))
			return line;
		if (!*free && !(line->head >> DPT_HEAD_PAGES_SHIFT))
			*free = line;
		if (!(line->head & DPT_HEAD_USED))
			break;
	}
	return NULL;
}

/* Lines whose pages are gone have invalid metadata only. */
static void start_line(struct dpt_dmt *dmt, struct dpt_line *line, u64 group)
{
	if (!(line->head & DPT_HEAD_USED)) {
		memset(line->word, 0xff, sizeof(line->word));
		dmt->used++;
	}
	/* The processor must not find the line before its metadata. */
	smp_wmb();
	WRITE_ONCE(line->head, DPT_HEAD_USED | group);
}

static void nothing(void *unused)
{
}

/*
 * Wait for walks that may read what the processor is told of no more. A walk is over when its
 * processor answers. One that is not asked, since it sets its bit only now, finds what is new.
 */
void dpt_await_walks(struct mm_struct *mm)
{
	/* Pairs with cpumask_set_cpu() in switch_mm_irqs_off(). */
	smp_mb();
	on_each_cpu_mask(mm_cpumask(mm), nothing, NULL, true);
}

static bool copy_lines(struct dpt_dmt *new, const struct dpt_dmt *old, u64 seed)
{
	unsigned int i;

	for (i = 0; i < old->lines; i++) {
		const struct dpt_line *from = &old->line[i];
		struct dpt_line *to;

		if (!(from->head >> DPT_HEAD_PAGES_SHIFT))
			continue;
		find(new, from->head & DPT_HEAD_GROUP, seed, &to);
		if (!to)
			return false;
		*to = *from;
		new->used++;
	}
	return true;
}

/*
 * Twice the lines. May be without effect: somebody else may have made room.
 * -ENOSPC: nobody would be killed for so large a piece of memory, and waiting
 * for it may be in vain.
 */
static int grow(struct mm_struct *mm, enum dpt_level level, unsigned int lines)
{
	struct dpt_mm *dpt = mm->dpt;
	struct dpt_dmt *dmt = &dpt->dmt[level];
	struct dpt_dmt new = { .lines = 2 * lines }, old;
	int error = 0;

	guard(mutex)(&dpt->grow);
	if (dmt->lines != lines)
		return 0;
	new.line = alloc_lines(new.lines);
	if (!new.line)
		return order_of(new.lines) > PAGE_ALLOC_COSTLY_ORDER ? -ENOSPC : -ENOMEM;
	spin_lock(&dpt->lock);
	old = *dmt;
	if (copy_lines(&new, &old, dpt_seed(dpt->space.key, level))) {
		*dmt = new;
		/* The processor must not find the table before its lines. */
		smp_wmb();
		WRITE_ONCE(dpt->space.table[level], table_of(&new));
	} else {
		error = -ENOSPC;
	}
	spin_unlock(&dpt->lock);
	if (error) {
		free_pages((unsigned long)new.line, order_of(new.lines));
		return error;
	}
	dpt_count(DPT_DMT_GROWN);
	dpt_await_walks(mm);
	free_pages((unsigned long)old.line, order_of(old.lines));
	return 0;
}

/* Make sure that there is a line for a page that is to be: 0, or as grow(). */
int dpt_dmt_get(struct mm_struct *mm, enum dpt_level level, u64 tag)
{
	struct dpt_mm *dpt = mm->dpt;
	struct dpt_dmt *dmt = &dpt->dmt[level];
	u64 seed = dpt_seed(dpt->space.key, level);
	u64 group = tag >> DPT_GROUP_SHIFT;
	struct dpt_line *line, *free;
	bool crowded = true;
	unsigned int lines;
	int error;

	for (;;) {
		spin_lock(&dpt->lock);
		line = find(dmt, group, seed, &free);
		lines = dmt->lines;
		/*
		 * Past three quarters a failing search is long. A table that
		 * cannot grow goes on to fill, until a group finds others' lines
		 * only, of which it looks at no more than the processor does.
		 */
		if (!line && free && ((free->head & DPT_HEAD_USED) || !crowded ||
				      (dmt->used + 1) * 4 <= dmt->lines * 3)) {
			start_line(dmt, free, group);
			line = free;
		}
		if (line)
			WRITE_ONCE(line->head, line->head + DPT_HEAD_PAGE);
		spin_unlock(&dpt->lock);
		if (line)
			return 0;
		error = grow(mm, level, lines);
		if (error) {
			if (!crowded)
				return error;
			crowded = false;
		}
	}
}

static struct dpt_line *existing(struct dpt_mm *dpt, enum dpt_level level, u64 tag)
{
	struct dpt_line *free;

	return find(&dpt->dmt[level], tag >> DPT_GROUP_SHIFT,
		    dpt_seed(dpt->space.key, level), &free);
}

void dpt_dmt_put(struct dpt_mm *dpt, enum dpt_level level, u64 tag)
{
	struct dpt_line *line;

	spin_lock(&dpt->lock);
	line = existing(dpt, level, tag);
	if (!WARN_ON_ONCE(!line))
		WRITE_ONCE(line->head, line->head - DPT_HEAD_PAGE);
	spin_unlock(&dpt->lock);
}

void dpt_dmt_set(struct dpt_mm *dpt, enum dpt_level level, u64 tag, u8 metadata)
{
	unsigned int shift = dpt_line_shift(tag);
	struct dpt_line *line;

	spin_lock(&dpt->lock);
	line = existing(dpt, level, tag);
	if (!WARN_ON_ONCE(!line)) {
		u64 *word = &line->word[dpt_line_word(tag)];
		u64 rest = *word & ~((u64)DPT_INVALID << shift);

		WRITE_ONCE(*word, rest | (u64)metadata << shift);
	}
	spin_unlock(&dpt->lock);
}
