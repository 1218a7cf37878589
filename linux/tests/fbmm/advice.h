/* SPDX-License-Identifier: GPL-2.0 */
/* Every advice that madvise() takes and does not take, on an arena of hostile.c */
#ifndef _ADVICE_H
#define _ADVICE_H

#include "hostile.h"

#include "../foliomap/madvise.h"

#define UNDONE		100	/* frames that a run may take out of use */
#define GUARD_INSTALL	102	/* Linux 6.13 */
#define GUARD_REMOVE	103

static void must_refuse(char *start, size_t size)
{
	const int advice = ONE_OF(refused, pick(0, 64));

	if (!madvise(start, size, advice))
		wrong("madvise(%d) of private memory is taken", advice);
}

/* A page's frame is not used again; what it said goes elsewhere. */
static void offline(char *start)
{
	if (atomic_fetch_add(&all->offline, 1) < UNDONE)
		madvise(start, page_size, MADV_SOFT_OFFLINE);
}

/* A page of its own is lost: whoever reads it gets SIGBUS, or what was there. */
static void poison(void)
{
	volatile uint64_t *page;
	volatile bool told = false;

	if (atomic_fetch_add(&all->offline, 1) >= UNDONE)
		return;
	page = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return;
	*page = 0xdead;
	if (!sigsetjmp(retry, 0)) {
		lost = armed = 1;
		/* The signal may come at once. */
		madvise((void *)page, page_size, MADV_HWPOISON);
		if (*page != 0xdead)
			wrong("a poisoned page has %#llx", (long long)*page);
	} else {
		told = true;
	}
	lost = armed = 0;
	munmap((void *)page, page_size);
	atomic_fetch_add(&all->poisoned, told);
}

/* Marks in page tables, where there are any: memory behind them is gone. */
static void guard(char *arena)
{
	const size_t page = LOOSE + pick(0, DIRECT - LOOSE);
	char *start = arena + page * page_size;

	if (madvise(start, page_size, GUARD_INSTALL))
		return;
	atomic_store(&self->gone[page], true);
	while (madvise(start, page_size, GUARD_REMOVE))
		usleep(1000);
}

static void discard(char *arena)
{
	static const int ways[] = { MADV_DONTNEED, MADV_DONTNEED, MADV_DONTNEED_LOCKED, MADV_FREE };
	const size_t from = LOOSE + pick(0, DIRECT - LOOSE);
	const size_t nr = 1 + pick(0, DIRECT - from);
	const int way = ways[pick(0, 4)];
	size_t page;

	if (madvise(arena + from * page_size, nr * page_size, way))
		return;
	for (page = from; way != MADV_FREE && page < from + nr; page++)
		atomic_store(&self->gone[page], true);
}

static void advise(char *arena)
{
	const size_t from = pick(0, PAGES), nr = 1 + pick(0, PAGES - from);
	char *start = arena + from * page_size;

	switch (pick(0, 16)) {
	case 0 ... 2:
		advise_pair(start, nr * page_size, pick(0, 64));
		break;
	case 3:
		must_refuse(start, nr * page_size);
		break;
	case 4:
		offline(start);
		break;
	case 5:
		poison();
		break;
	case 6:
		guard(arena);
		break;
	default:
		advise_harmless(start, nr * page_size, pick(0, 1024));
	}
}

#endif /* _ADVICE_H */
