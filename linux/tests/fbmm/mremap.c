// SPDX-License-Identifier: GPL-2.0
/*
 * mremap() of 2 MB pages to where they cannot be as they are: they have to be
 * copied, for which there may be no memory, or pinned, and then nothing may
 * change. Run it under fbmm-run, with few pages; without, it tests itself.
 */
#include "pin.h"

#include <sys/statfs.h>

#define PIECE	((size_t)2 << 20)
#define SIZE	(3 * PIECE)

static const char *directory;

/* Pages that the memory file system has left */
static size_t left(void)
{
	struct statfs stat;

	if (statfs(directory, &stat))
		fail(directory);
	return stat.f_bfree;
}

/* 2 MB pages, perhaps, and room around them */
static char *map_pieces(char **room)
{
	char *a;

	*room = map_private(SIZE + 2 * PIECE, 0);
	a = (char *)(((uintptr_t)*room + PIECE - 1) & -PIECE);
	fill(a, SIZE, 1);
	return a;
}

static void test_move(void)
{
	char *room, *a = map_pieces(&room), *to = map_private(SIZE + PIECE, 0) + page_size;
	char *b = mremap(a, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to);

	test_result(b == to && filled(b, SIZE, 1), "mremap() by a page");
	b = mremap(b, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	test_result(b != MAP_FAILED && filled(b, SIZE, 1) && zero(to, SIZE),
		    "MREMAP_DONTUNMAP leaves zeros");
	munmap(b, SIZE);
	munmap(to - page_size, SIZE + PIECE);
	munmap(room, SIZE + 2 * PIECE);
}

static void test_dontunmap(void)
{
	char *room, *a = map_pieces(&room), *to = map_private(SIZE + PIECE, 0) + page_size;
	char *b = mremap(a, SIZE, SIZE,
			 MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to);

	test_result(b == to && filled(b, SIZE, 1) && zero(a, SIZE),
		    "MREMAP_DONTUNMAP leaves zeros where 2 MB pages were");
	munmap(to - page_size, SIZE + PIECE);
	munmap(room, SIZE + 2 * PIECE);
}

/* What stays is not locked, nor counted as that. */
static void test_locked(void)
{
	char *a = map_private(SIZE, 0), *b;
	const long before = proc_kb("/proc/self/status", NULL, "VmLck");

	fill(a, SIZE, 3);
	if (mlock(a, SIZE))
		fail("mlock");
	b = mremap(a, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	test_result(b != MAP_FAILED && filled(b, SIZE, 3) && zero(a, SIZE),
		    "MREMAP_DONTUNMAP of locked memory");
	test_result(proc_kb("/proc/self/status", NULL, "VmLck") - before ==
		    (long)(SIZE >> 10), "it is counted once");
	munmap(b, SIZE);
	munmap(a, SIZE);
	test_result(proc_kb("/proc/self/status", NULL, "VmLck") == before,
		    "and then no more");
}

/* A part of a 2 MB page moves alone; the rest stays. */
static void test_part(void)
{
	char *room, *a = map_pieces(&room), *to = map_private(PIECE, 0);
	char *b;

	fill(a + 5 * page_size, 3 * page_size, 2);
	b = mremap(a + 5 * page_size, 3 * page_size, 3 * page_size,
		   MREMAP_MAYMOVE | MREMAP_FIXED, to);
	test_result(b == to && filled(b, 3 * page_size, 2), "mremap() of a part");
	a = mremap(b, 3 * page_size, 3 * page_size, MREMAP_MAYMOVE | MREMAP_FIXED,
		   a + 5 * page_size) - 5 * page_size;
	fill(a + 5 * page_size, 3 * page_size, 2);
	test_result(filled(a + PIECE, PIECE, (unsigned int)(1 + PIECE * 2654435761u)),
		    "and back");
	munmap(to, PIECE);
	munmap(room, SIZE + 2 * PIECE);
}

/* Mappings that differ, moved by one call: Linux 6.17 */
static void test_several(void)
{
	char *room, *a = map_pieces(&room), *to = map_private(SIZE, 0), *b;

	if (mprotect(a + PIECE, page_size, PROT_READ))
		fail("mprotect");
	b = mremap(a, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (b == MAP_FAILED && errno == EFAULT)
		test_skip("this Linux moves one mapping at a time");
	else
		test_result(b == to && filled(b, SIZE, 1) && msync(a, SIZE, MS_ASYNC) &&
			    errno == ENOMEM, "mremap() of three mappings at once");
	munmap(to, SIZE);
	munmap(room, SIZE + 2 * PIECE);
}

static void test_no_memory(void)
{
	char *room, *a = map_pieces(&room), *to = map_private(SIZE + PIECE, 0) + page_size;
	size_t size, at;
	char *rest, *b;

	if (!*directory) {
		test_skip("the kernel has memory enough");
		return;
	}
	/* All but too little for a copy of 2 MB */
	size = (left() - 300) * page_size;
	rest = map_private(size, 0);
	for (at = 0; at < size; at += page_size)
		rest[at] = 1;
	b = mremap(a, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (b != to) {
		test_result(errno == ENOMEM, "mremap() where there is no memory: %s",
			    strerror(errno));
		test_result(filled(a, SIZE, 1), "nothing has changed");
		munmap(rest, size);
		b = mremap(a, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	}
	test_result(b == to && filled(b, SIZE, 1), "it works when there is memory");
	munmap(to - page_size, SIZE + PIECE);
	munmap(room, SIZE + 2 * PIECE);
}

/* What has the pages by their place in memory must see what the process writes. */
static void test_pinned(void)
{
	const size_t pinned_size = 4 * page_size;
	char *room, *a = map_pieces(&room), *to = map_private(SIZE + PIECE, 0) + page_size;
	char *part = a + 8 * page_size, *b;

	if (!pin(part, pinned_size, 0)) {
		test_result(false, "a long-term pin for writing: %s", strerror(errno));
		return;
	}
	if (madvise(part - page_size, page_size, MADV_DONTNEED) ||
	    munmap(part + 2 * pinned_size, page_size))
		fail("madvise, munmap");
	test_result(zero(part - page_size, page_size), "the page before pinned ones is given back");
	fill(part, pinned_size, 5);
	test_result(!memcmp(pinned(pinned_size), part, pinned_size),
		    "and pinned ones are the process's");
	b = mremap(part, pinned_size, pinned_size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	test_result(b == to || errno == EBUSY, "mremap() of them: %s",
		    b == to ? "moved" : strerror(errno));
	if (b == to)
		part = to;
	fill(part, pinned_size, 6);
	test_result(!memcmp(pinned(pinned_size), part, pinned_size), "and still are");
	/* Its place in a file must be nobody's while the pin may still write. */
	munmap(part, pinned_size);
	b = mmap(part, pinned_size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	fill(b, pinned_size, 7);
	test_result(memcmp(pinned(pinned_size), b, pinned_size),
		    "pinned pages that were unmapped are in no new mapping");
	b = mmap(b, pinned_size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	test_result(zero(b, pinned_size), "what is mapped over a mapping is zero");
	unpin();
	munmap(to - page_size, SIZE + PIECE);
	munmap(room, SIZE + 2 * PIECE);
}

int main(void)
{
	lab_init();
	directory = default_mount();
	test_move();
	test_dontunmap();
	test_locked();
	test_part();
	test_several();
	test_no_memory();
	if (pin_open())
		test_pinned();
	else
		test_skip("/sys/kernel/debug/gup_test: %s", strerror(errno));
	return test_end();
}
