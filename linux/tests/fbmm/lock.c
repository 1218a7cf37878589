// SPDX-License-Identifier: GPL-2.0
/*
 * A process that locks memory leaves a part of the pool to all others.
 *
 * Usage: lock MB	how large the pool is
 */
#include "lab.h"

#include <glob.h>
#include <sys/resource.h>

#define LOCKABLE "/sys/module/mfs/parameters/lockable"
#define MB ((size_t)1 << 20)

static size_t pool;	/* MB */

/* For a child: lock so many MB of its own; 0, or the error. */
static int lock_own(void *arg)
{
	const size_t size = (uintptr_t)arg * MB;

	return mlock(map_private(size, 0), size) ? errno : 0;
}

static int use_own(void *arg)
{
	const size_t size = (uintptr_t)arg * MB;
	char *memory = map_private(size, 0);

	fill(memory, size, 1);
	return !filled(memory, size, 1);
}

static void test_mlock(void)
{
	const size_t most = pool * 3 / 4;
	char *a = map_private(pool * MB, 0);
	const long before = proc_kb("/proc/self/status", NULL, "VmLck");

	test_result(mlock(a, (most + 2) * MB) && errno == ENOMEM &&
		    proc_kb("/proc/self/status", NULL, "VmLck") == before,
		    "mlock() of more than three quarters: ENOMEM, and nothing is locked");
	test_result(mlock2(a, (most + 2) * MB, MLOCK_ONFAULT) && errno == ENOMEM,
		    "nor with MLOCK_ONFAULT");
	test_result(!mlock(a, (most - 4) * MB), "mlock() of less");
	test_result(in_child(lock_own, (void *)6) == ENOMEM, "another process cannot exceed it");
	test_result(!in_child(lock_own, (void *)2), "but lock what is left of it");
	test_result(!in_child(use_own, (void *)(pool / 8)), "and use memory");
	test_result(!mlock(a, (most - 4) * MB), "what is locked can be locked again");
	/* The child needs the pages, too. */
	if (munlock(a, (most - 4) * MB) || madvise(a, pool * MB, MADV_DONTNEED))
		fail("munlock, madvise");
	test_result(!in_child(lock_own, (void *)(most - 4)), "nor does it count any more when unlocked");
	munmap(a, pool * MB);
	a = map_private((most - 4) * MB, 0);
	test_result(!mlock(a, (most - 4) * MB), "nor when its process has ended");
	munmap(a, (most - 4) * MB);
}

static int lock_all(void *unused)
{
	const size_t most = pool * 3 / 4;
	char *a;

	(void)unused;
	if (mlockall(MCL_FUTURE))
		return 1;
	a = mmap(NULL, (most + 2) * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		 -1, 0);
	if (a != MAP_FAILED || errno != ENOMEM)
		return 2;
	if (sbrk((most + 2) * MB) != (void *)-1 || errno != ENOMEM)
		return 3;
	a = mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (a == MAP_FAILED)
		return 4;
	a = mremap(a, 4 * MB, (most + 2) * MB, MREMAP_MAYMOVE);
	return a == MAP_FAILED && errno == ENOMEM ? 0 : 5;
}

/* Pages that files of the memory file system have */
static unsigned long used(void)
{
	static char path[256];
	glob_t found;

	if (!*path) {
		if (glob("/sys/fs/*mfs/*/used", 0, NULL, &found) || found.gl_pathc != 1)
			fail("/sys/fs/*mfs/*/used");
		snprintf(path, sizeof(path), "%s", found.gl_pathv[0]);
		globfree(&found);
	}
	return read_number(path);
}

static int lock_when_touched(void *unused)
{
	unsigned long before;
	char *a;

	(void)unused;
	used();
	if (mlockall(MCL_FUTURE | MCL_ONFAULT))
		return 1;
	before = used();
	a = map_private(4 * MB, 0);
	if (used() != before)
		return 2;
	*a = 1;
	return used() > before ? 0 : 3;
}

static void test_others(void)
{
	const size_t most = pool * 3 / 4;
	char *a = mmap(NULL, (most + 2) * MB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
	int at;

	test_result(a == MAP_FAILED && errno == ENOMEM, "MAP_LOCKED");
	at = in_child(lock_all, NULL);
	test_result(!at, "MCL_FUTURE: mmap(), brk(), mremap() (%d)", at);
	at = in_child(lock_when_touched, NULL);
	test_result(!at, "MCL_ONFAULT: a page is there when it is touched (%d)", at);
	a = map_private(2 * MB, 0);
	test_result(!munlock(a, 2 * MB) && !mlock(a, 2 * MB) && !munlock(a, 2 * MB),
		    "and afterwards there is room");
	munmap(a, 2 * MB);
}

static void test_parameter(void)
{
	const size_t size = (pool * 7 / 8 - 1) * MB;
	char *a = map_private(size, 0);

	if (!write_file(LOCKABLE, "90"))
		fail(LOCKABLE);
	test_result(!mlock(a, size), "mfs.lockable=90");
	munmap(a, size);
	write_file(LOCKABLE, "0");
	a = map_private(page_size, 0);
	test_result(mlock(a, page_size) && errno == ENOMEM, "mfs.lockable=0");
	munmap(a, page_size);
	write_file(LOCKABLE, "75");
}

int main(int argc, char **argv)
{
	lab_init();
	pool = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	if (pool < 32 || !*default_mount()) {
		test_skip("for a memory file system with a pool");
		return KSFT_SKIP;
	}
	test_mlock();
	test_others();
	test_parameter();
	return test_end();
}
