/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How mm/foliomap.c changes what it keeps of a folio; inline where every write
 * fault does.
 */
#ifndef __MM_FOLIOMAP_H
#define __MM_FOLIOMAP_H

#include <linux/mm.h>
#include <linux/preempt.h>

#ifdef CONFIG_FOLIOMAP

void foliomap_change_words(struct folio *folio, struct mm_struct *mm,
		unsigned int order, int nr);

/*
 * The map count and the aggregator change together: writers take turns, and
 * readers retry, by a sequence number that is odd during a change. A writer
 * must not be preempted, others would spin in vain.
 */
static __always_inline int foliomap_write_begin(struct folio *folio)
{
	int seq = atomic_read(&folio->_foliomap_seq) & ~1;

	preempt_disable();
	while (!atomic_try_cmpxchg_acquire(&folio->_foliomap_seq, &seq, seq + 1)) {
		seq &= ~1;
		cpu_relax();
	}
	/* Readers must see the odd number before any change. */
	smp_wmb();
	return seq;
}

static __always_inline void foliomap_write_end(struct folio *folio, int seq)
{
	atomic_set_release(&folio->_foliomap_seq, seq + 2);
	preempt_enable();
}

/* Add (or, negative, remove) mappings; returns how many there are then. */
static __always_inline int foliomap_change(struct folio *folio,
		struct mm_struct *mm, int nr)
{
	/* Not folio_order(): the caller knows that the folio is large. */
	const unsigned int order = folio->_flags_1 & 0xff;
	int mapcount, seq;

	VM_WARN_ON_ONCE(!mm->foliomap.id);

	seq = foliomap_write_begin(folio);
	mapcount = atomic_read(&folio->_large_mapcount) + nr;
	atomic_set(&folio->_large_mapcount, mapcount);
	if (likely(order <= mm->foliomap.one_word_order))
		WRITE_ONCE(folio->_as_aggregator_0, folio->_as_aggregator_0 +
			   mm->foliomap.unit[order - 1] * nr);
	else
		foliomap_change_words(folio, mm, order, nr);
	VM_WARN_ON_ONCE(mapcount == -1 && order <= FOLIOMAP_MAX_ORDER &&
			folio->_as_aggregator_0);
	foliomap_write_end(folio, seq);
	return mapcount + 1;
}

#else /* !CONFIG_FOLIOMAP */

static __always_inline int foliomap_change(struct folio *folio,
		struct mm_struct *mm, int nr)
{
	return 0;
}

#endif /* CONFIG_FOLIOMAP */

#endif /* __MM_FOLIOMAP_H */
