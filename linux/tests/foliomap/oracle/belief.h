/* SPDX-License-Identifier: GPL-2.0 */
/* What kernels believe of who maps a large folio: with FolioMap, and Linux since 6.15. */
#ifndef _BELIEF_H
#define _BELIEF_H

#include <linux/mm.h>

#ifdef CONFIG_FOLIOMAP

#include <kunit/visibility.h>

/* Whether there is an answer, and whether it is exact; else only "exclusive" is certain. */
#define answers()	foliomap_enabled()
#define exact()		true
#define counts_pages()	(!foliomap_enabled())

static inline bool believed_shared(struct folio *folio, struct mm_struct *mm)
{
	return foliomap_mapped_shared(folio, mm);
}

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);

#else

#define answers()	IS_ENABLED(CONFIG_MM_ID)
#define exact()		false
#define counts_pages()	(!IS_ENABLED(CONFIG_NO_PAGE_MAPCOUNT))

static inline bool believed_shared(struct folio *folio, struct mm_struct *mm)
{
#ifdef CONFIG_MM_ID
	return folio_maybe_mapped_shared(folio);
#else
	return true;
#endif
}

#endif

#endif /* _BELIEF_H */
