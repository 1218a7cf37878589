// SPDX-License-Identifier: GPL-2.0
/*
 * mremap() of locked memory while one allocation of the kernel's fails, each in turn:
 * either all is as promised or nothing has changed. Only the old place may stay, empty,
 * as it does in Linux, where unmapping it fails. Needs a kernel with failslab.
 */
#include "lab.h"

#define FAILSLAB "/sys/kernel/debug/failslab/"
#define PAGES 16
#define ROOM (4 * PAGES)	/* nothing else of the test's is next to a mapping */

static long locked_kb(void)
{
	return proc_kb("/proc/self/status", NULL, "VmLck");
}

/* Whether there is a locked mapping at an address; "Locked" has only mapped pages. */
static bool is_locked(const void *addr)
{
	unsigned long start, end;
	bool here = false, locked = false;
	char line[512];
	FILE *file = fopen("/proc/self/smaps", "r");

	if (!file)
		fail("/proc/self/smaps");
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, "VmFlags:", 8))
			locked |= here && strstr(line, " lo ");
		else if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = (uintptr_t)addr >= start && (uintptr_t)addr < end;
	fclose(file);
	return locked;
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
	const bool stays = flags & MREMAP_DONTUNMAP;
	const long before = locked_kb();
	bool good, left;

	if (munmap(room, PAGES * page_size) ||
	    munmap(a + size, (ROOM - 2 * PAGES) * page_size))
		fail("munmap");
	fill(a, size, 1);
	if (mlock(a, size))
		fail("mlock");
	fail_nth(fd, nth);
	/* Without an address, what does not grow would stay where it is. */
	b = mremap(old, part, part, MREMAP_MAYMOVE | MREMAP_FIXED | flags,
		   a + 3 * size / 2);
	*reached = !unused(fd);
	fail_nth(fd, 0);
	*moved = b != MAP_FAILED;
	if (!*moved) {
		good = errno == ENOMEM && filled(a, size, 1) && is_locked(old) &&
		       locked_kb() - before == (long)(size >> 10);
		munmap(a, size);
		return good;
	}
	left = is_locked(old);
	good = locked_kb() - before == (long)((size + (left ? part : 0)) >> 10) &&
	       is_locked(b) && filled(b, part, 1 + from * page_size * 2654435761u) &&
	       !(left && (stays || !*reached));
	if (stays || left)
		good &= zero(old, part);
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
