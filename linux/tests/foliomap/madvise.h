/* SPDX-License-Identifier: GPL-2.0 */
/* Every advice that madvise() takes and does not take, by what it does to contents: nothing. */
#ifndef _MADVISE_H
#define _MADVISE_H

#include "lab.h"

#ifndef MADV_SOFT_OFFLINE	/* glibc does not have it */
#define MADV_SOFT_OFFLINE 101
#endif
#ifndef MADV_DONTNEED_LOCKED	/* glibc before 2.36 */
#define MADV_DONTNEED_LOCKED 24
#endif

/* Advice after which memory says what it said */
static const int harmless[] = {
	MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_MERGEABLE, MADV_HUGEPAGE,
	MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLD, MADV_PAGEOUT, MADV_PAGEOUT, MADV_POPULATE_READ,
	MADV_POPULATE_WRITE, MADV_COLLAPSE,
};

/* Advice and its opposite, for what would change what a child has */
static const int pairs[][2] = {
	{ MADV_DONTFORK, MADV_DOFORK }, { MADV_WIPEONFORK, MADV_KEEPONFORK },
	{ MADV_DONTDUMP, MADV_DODUMP }, { MADV_MERGEABLE, MADV_UNMERGEABLE },
};

/* Numbers that mean nothing, and a hole in a file, which private memory is not */
static const int refused[] = { 5, 6, 7, 26, 27, 99, 104, MADV_REMOVE };

#define ONE_OF(list, random) ((list)[(random) % (sizeof(list) / sizeof(*(list)))])

static inline void advise_harmless(char *start, size_t size, unsigned int random)
{
	madvise(start, size, ONE_OF(harmless, random));
}

/* Half done, it would leave what a child does not have. */
static inline void advise_pair(char *start, size_t size, unsigned int random)
{
	const int *pair = ONE_OF(pairs, random);

	madvise(start, size, pair[0]);
	while (madvise(start, size, pair[1]) && errno != EINVAL)
		usleep(1000);
}

#endif /* _MADVISE_H */
