// SPDX-License-Identifier: GPL-2.0
/*
 * mremap() of locked memory while one allocation of the kernel's fails, each in turn:
 * either all is as promised or nothing has changed. Needs a kernel with failslab.
 */
#include "lab.h"

#define FAILSLAB "/sys/kernel/debug/failslab/"
#define PAGES 16
#define ROOM (4 * PAGES)	/* nothing else of the test's is next to a mapping */

static long locked_kb(void)
{
	return proc_kb("/proc/self/status", NULL, "VmLck");
}

/* Whether the mapping at an address is locked. */
static bool is_locked(const void *addr)
{
	return proc_kb("/proc/self/smaps", addr, "Locked") > 0;
}

static void fail_nth(int fd, int nth)
{
	char text[16];
	const int len = snprintf(text, sizeof(text), "%d", nth);

	if (pwrite(fd, text, len, 0) != len)
		fail("fail-nth");
}

/* Whether the allocation that was to fail was not reached. */
static bool unused(int fd)
{
	char text[16] = "";

	if (pread(fd, text, sizeof(text) - 1, 0) < 0)
		fail("fail-nth");
	return atoi(text) > 0;
}

/* One call; false if something is not as it has to be. */
static bool try_move(int fd, int nth, size_t from, size_t pages, int flags, bool *reached,
		     bool *moved)
{
	const size_t size = PAGES * page_size, part = pages * page_size;
	char *room = map_private(ROOM * page_size, MAP_NORESERVE);
	char *a = room + PAGES * page_size, *old = a + from * page_size, *b;
	const long before = locked_kb();
	bool good;

	if (munmap(room, PAGES * page_size) ||
	    munmap(a + size, (ROOM - 2 * PAGES) * page_size))
		fail("munmap");
	fill(a, size, 1);
	if (mlock(a, size))
		fail("mlock");
	fail_nth(fd, nth);
	b = mremap(old, part, part, MREMAP_MAYMOVE | flags, NULL);
	*reached = !unused(fd);
	fail_nth(fd, 0);
	*moved = b != MAP_FAILED;
	if (!*moved) {
		good = errno == ENOMEM && filled(a, size, 1) && is_locked(old) &&
		       locked_kb() - before == (long)(size >> 10);
		munmap(a, size);
		return good;
	}
	good = locked_kb() - before == (long)(size >> 10) && is_locked(b) &&
	       filled(b, part, 1 + from * page_size * 2654435761u);
	if (flags & MREMAP_DONTUNMAP)
		good &= !is_locked(old) && zero(old, part);
	if (from)
		good &= filled(a, from * page_size, 1) && is_locked(a);
	munmap(b, part);
	munmap(a, size);
	return good;
}

static void test_move(int fd, size_t from, size_t pages, int flags, const char *name)
{
	bool reached = true, moved = true, good = true;
	int nth, failures = 0;

	for (nth = 1; reached && good; nth++) {
		good = try_move(fd, nth, from, pages, flags, &reached, &moved);
		failures += !moved;
	}
	test_result(good && moved, "%s: %d allocations, %d of them needed", name,
		    nth - 2, failures);
}

int main(void)
{
	int fd;

	lab_init();
	if (!write_file(FAILSLAB "ignore-gfp-wait", "N")) {
		test_skip("%s: %s", FAILSLAB, strerror(errno));
		return KSFT_SKIP;
	}
	write_file(FAILSLAB "verbose", "0");
	fd = open("/proc/self/fail-nth", O_RDWR);
	if (fd < 0)
		fail("/proc/self/fail-nth");
	test_move(fd, 0, PAGES, 0, "all of a mapping");
	test_move(fd, PAGES / 4, PAGES / 2, 0, "the middle");
	test_move(fd, 0, PAGES, MREMAP_DONTUNMAP, "all, MREMAP_DONTUNMAP");
	test_move(fd, PAGES / 4, PAGES / 2, MREMAP_DONTUNMAP, "the middle, MREMAP_DONTUNMAP");
	return test_end();
}
