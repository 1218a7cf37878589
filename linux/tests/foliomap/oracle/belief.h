/* SPDX-License-Identifier: GPL-2.0 */
/* What kernels believe of who maps a large folio: with FolioMap, and Linux since 6.15. */
#ifndef _BELIEF_H
#define _BELIEF_H

#include <linux/mm.h>
#include <linux/version.h>

#ifdef CONFIG_FOLIOMAP

#include <kunit/visibility.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
#else
MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
#endif

#define exact()		foliomap_enabled()

static inline bool exactly_shared(struct folio *folio, struct mm_struct *mm)
{
	return foliomap_mapped_shared(folio, mm);
}

#else

#define exact()		false

static inline bool exactly_shared(struct folio *folio, struct mm_struct *mm)
{
	return true;
}

#endif

/* Whether there is an answer; where it is not exact, only "exclusive" is certain. */
#define answers()	(exact() || IS_ENABLED(CONFIG_MM_ID))
#define counts_pages()	(!exact() && !IS_ENABLED(CONFIG_NO_PAGE_MAPCOUNT))

static inline bool believed_shared(struct folio *folio, struct mm_struct *mm)
{
	if (exact())
		return exactly_shared(folio, mm);
#ifdef CONFIG_MM_ID
#if __has_include(<linux/foliomap.h>)
	return folio_maybe_mapped_shared(folio, mm);
#else
	return folio_maybe_mapped_shared(folio);
#endif
#else
	return true;
#endif
}

#endif /* _BELIEF_H */
