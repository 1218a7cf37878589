// SPDX-License-Identifier: GPL-2.0
/*
 * Map, write, fork, unmap, protect, move, split, swap, migrate, lock, pin and
 * merge memory at random in several processes at once, also from outside and under
 * userfaultfd's protection from writing, and stop now and then to
 * have the oracle (see oracle/) compare the accounting with the page tables.
 *
 * Every process knows what each of its private pages must contain: a page that
 * was reused although another process still maps it shows up as wrong content.
 *
 * Memory is anonymous, shared, or a file's on XFS, which keeps files in large
 * folios: shared and written back, or private and copied when written.
 *
 * Usage: stress SECONDS [SEED]
 */
#include "madvise.h"
#include "outside.h"
#include "setup.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define WORKERS		4
#define REGIONS		4
#define REGION_PAGES	1024
#define MAX_LIVE	24
#define KSM		"/sys/kernel/mm/ksm/"
#define KHUGEPAGED	"/sys/kernel/mm/transparent_hugepage/khugepaged/"
/* Old content or zero, page by page: MADV_FREE, or MADV_DONTNEED of mlocked pages. */
#define UNKNOWN		0xffffffffu

/* Shared by all processes. */
struct control {
	unsigned int pause;	/* which pause this is, 0 for none */
	unsigned int paused;	/* processes that stand still in it */
	unsigned int live;	/* processes that nobody has waited for */
	int stop;
	unsigned long ops;
	unsigned long forks;
	unsigned long faults;	/* wrong content: must stay 0 */
	unsigned long lost;	/* processes that were killed, or gave up: must stay 0 */
	uint32_t next_tag;
};

enum backing { ANON, SHMEM, FILE_SHARED, FILE_PRIVATE };

struct region {
	char *start;
	enum backing backing;
	bool private;
	uint32_t tag[REGION_PAGES];	/* what the page's first word must be */
};

static struct control *control;
static struct region regions[REGIONS];
static uint64_t random_state;
static int depth;
/* -1 without XFS. The second is never written to and holds zeros. */
static int shared_file = -1, private_file = -1;
static unsigned long disk_folios;	/* of files, seen by the oracle */
/* Folios of one address space, as the oracle saw them, and those not known to be. */
static unsigned long exclusive_folios, unsure_folios;

static uint32_t rnd(uint32_t below)
{
	/* xorshift64* (Vigna, 2016) */
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (uint32_t)((random_state * 2685821657736338717ull) >> 32) % below;
}

static uint32_t *word(struct region *r, unsigned int page)
{
	return (uint32_t *)(r->start + page * page_size);
}

static void verify(struct region *r, unsigned int page)
{
	uint32_t found;

	if (!r->private || r->tag[page] == UNKNOWN)
		return;
	found = *(volatile uint32_t *)word(r, page);
	if (found != r->tag[page]) {
		fprintf(stderr, "pid %d: page %p holds %u, not %u\n", getpid(),
			(void *)word(r, page), found, r->tag[page]);
		__atomic_fetch_add(&control->faults, 1, __ATOMIC_RELAXED);
		r->tag[page] = found;
	}
}

static void fill(struct region *r, unsigned int page)
{
	const uint32_t tag = __atomic_fetch_add(&control->next_tag, 1, __ATOMIC_RELAXED);

	verify(r, page);
	*(volatile uint32_t *)word(r, page) = tag;
	if (r->private)
		r->tag[page] = tag;
}

static void fill_pages(struct region *r, unsigned int first, unsigned int count)
{
	while (count--)
		fill(r, first++);
}

static void verify_pages(struct region *r, unsigned int first, unsigned int count)
{
	while (count--)
		verify(r, first++);
}

static void set_tags(struct region *r, unsigned int first, unsigned int count,
		     uint32_t tag)
{
	while (count--)
		r->tag[first++] = tag;
}

static enum backing pick_backing(void)
{
	static const enum backing often[] = {
		ANON, ANON, ANON, ANON, ANON, SHMEM, FILE_SHARED, FILE_PRIVATE,
	};
	const enum backing backing = often[rnd(8)];

	return backing >= FILE_SHARED && shared_file < 0 ? ANON : backing;
}

static void map_region(struct region *r)
{
	const size_t size = REGION_PAGES * page_size;
	static const int flags[] = {
		[SHMEM] = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
		[FILE_SHARED] = MAP_SHARED,
		[FILE_PRIVATE] = MAP_PRIVATE | MAP_NORESERVE,
	};

	if (r->start)
		munmap(r->start, size);
	r->backing = pick_backing();
	r->private = r->backing == ANON || r->backing == FILE_PRIVATE;
	if (r->backing == ANON) {
		r->start = reserve(size);
	} else {
		r->start = mmap(NULL, size, PROT_READ | PROT_WRITE, flags[r->backing],
				r->backing == FILE_SHARED ? shared_file :
				r->backing == FILE_PRIVATE ? private_file : -1, 0);
		if (r->start == MAP_FAILED)
			fail("mmap of shared memory or of a file");
	}
	memset(r->tag, 0, sizeof(r->tag));
	if (rnd(8))
		madvise(r->start, size, MADV_HUGEPAGE);
}

/* Write the file back, or throw a part of it away under all who map it. */
static void disturb_file(unsigned int first, unsigned int count)
{
	if (shared_file < 0)
		return;
	if (rnd(3))
		sync_file_range(shared_file, first * page_size, count * page_size,
				SYNC_FILE_RANGE_WRITE);
	else
		fallocate(shared_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  first * page_size, count * page_size);
}

/* Move a part elsewhere and back to where it was: other VMAs, same contents. */
static void move(struct region *r, unsigned int first, unsigned int count)
{
	const size_t size = count * page_size;
	char *from = r->start + first * page_size;
	char *to = mmap(NULL, size, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (to == MAP_FAILED)
		return;
	if (mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) {
		munmap(to, size);
		return;
	}
	if (rnd(2))
		*(volatile char *)to;
	if (mremap(to, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, from) == MAP_FAILED)
		fail("mremap back");
}

static void split_folios(struct region *r, unsigned int first, unsigned int count)
{
	char line[96];

	snprintf(line, sizeof(line), "%d,0x%lx,0x%lx,%u", getpid(),
		 (unsigned long)word(r, first), (unsigned long)word(r, first + count),
		 r->private && !rnd(3) ? 2 : 0);
	write_file("/sys/kernel/debug/split_huge_pages", line);
}

static void migrate(struct region *r, unsigned int first, unsigned int count)
{
	void *pages[64];
	int nodes[64], status[64];
	unsigned int i;

	if (count > 64)
		count = 64;
	for (i = 0; i < count; i++) {
		pages[i] = word(r, first + i);
		nodes[i] = rnd(2);
	}
	syscall(SYS_move_pages, 0, count, pages, nodes, status, 2 /* MPOL_MF_MOVE */);
}

/* Hold references to pages for a moment, across whatever others do. */
static void pin(struct region *r, unsigned int first)
{
	struct iovec iov = { word(r, first), page_size };
	int fds[2];

	if (pipe(fds))
		return;
	if (vmsplice(fds[1], &iov, 1, SPLICE_F_NONBLOCK) > 0 && r->private) {
		char copy[sizeof(uint32_t)];

		fill(r, first);
		if (read(fds[0], copy, sizeof(copy)) < 0)
			fail("read from pipe");
	}
	close(fds[0]);
	close(fds[1]);
}

static void fill_from_outside(struct region *r, unsigned int page)
{
	const uint32_t tag = __atomic_fetch_add(&control->next_tag, 1, __ATOMIC_RELAXED);
	bool done;

	verify(r, page);
	done = written_by_child(word(r, page), tag, rnd(3));
	if (r->private)
		r->tag[page] = done ? tag : UNKNOWN;
}

/* Put something else in the place of a part. */
static void punch(struct region *r, unsigned int first, unsigned int count)
{
	const size_t size = count * page_size;
	char *at = r->start + first * page_size;

	munmap(at, size);
	if (mmap(at, size, PROT_READ | PROT_WRITE,
		 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
		fail("mmap over a hole");
	if (r->private)
		set_tags(r, first, count, 0);
	else
		map_region(r);
}

static void advise(struct region *r, unsigned int first, unsigned int count)
{
	const size_t size = count * page_size;
	char *at = r->start + first * page_size;

	switch (rnd(7)) {
	case 0:
		set_tags(r, first, count, madvise(at, size, MADV_DONTNEED) ? UNKNOWN : 0);
		break;
	case 1:
		madvise(at, size, MADV_FREE);
		set_tags(r, first, count, UNKNOWN);
		break;
	case 2:
		madvise(at, size, rnd(2) ? MADV_PAGEOUT : MADV_COLD);
		break;
	case 3:
		madvise(r->start, REGION_PAGES * page_size, MADV_COLLAPSE);
		break;
	case 4:
		madvise(at, size, rnd(2) ? MADV_MERGEABLE : MADV_UNMERGEABLE);
		break;
	case 5:
		advise_harmless(at, size, rnd(1024));
		break;
	case 6:
		advise_pair(at, size, rnd(64));
		break;
	}
}

/* Only of a process that was waited for it is sure that it has unmapped all. */
static void reap(int options)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, options)) > 0) {
		if (status) {
			fprintf(stderr, "pid %d: wait status %#x\n", pid, status);
			__atomic_fetch_add(&control->lost, 1, __ATOMIC_RELAXED);
		}
		__atomic_fetch_sub(&control->live, 1, __ATOMIC_ACQ_REL);
	}
}

/*
 * Pauses have numbers: who is late to notice the end of one must not pass for standing
 * still in the next.
 */
static void pause_point(void)
{
	const unsigned int pause = __atomic_load_n(&control->pause, __ATOMIC_ACQUIRE);

	if (!pause)
		return;
	__atomic_fetch_add(&control->paused, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&control->pause, __ATOMIC_ACQUIRE) == pause) {
		reap(WNOHANG);
		usleep(2000);
	}
}

static void work(unsigned long ops);

static void fork_child(void)
{
	pid_t pid;

	reap(WNOHANG);
	if (depth > 3 ||
	    __atomic_load_n(&control->live, __ATOMIC_RELAXED) >= MAX_LIVE)
		return;
	__atomic_fetch_add(&control->live, 1, __ATOMIC_ACQ_REL);
	pid = fork();
	if (pid < 0) {
		__atomic_fetch_sub(&control->live, 1, __ATOMIC_ACQ_REL);
	} else if (!pid) {
		depth++;
		random_state ^= (uint64_t)getpid() << 20;
		work(1 + rnd(120));
		_exit(0);
	} else {
		__atomic_fetch_add(&control->forks, 1, __ATOMIC_RELAXED);
	}
}

static void one_op(void)
{
	struct region *r = &regions[rnd(REGIONS)];
	const unsigned int first = rnd(REGION_PAGES - 1);
	unsigned int count = 1 + rnd(rnd(2) ? 16 : 512);
	char *at = r->start + first * page_size;

	if (first + count > REGION_PAGES)
		count = REGION_PAGES - first;

	switch (rnd(28)) {
	case 0:
		if (!rnd(4))
			map_region(r);
		break;
	case 1 ... 6:
		fill_pages(r, first, count);
		break;
	case 7 ... 8:
		verify_pages(r, first, count);
		break;
	case 9 ... 11:
		fork_child();
		break;
	case 12 ... 16:
		advise(r, first, count);
		break;
	case 17:
		mprotect(at, count * page_size, PROT_READ);
		mprotect(at, count * page_size, PROT_READ | PROT_WRITE);
		break;
	case 18:
		move(r, first, count);
		break;
	case 19:
		split_folios(r, first, count);
		break;
	case 20:
		migrate(r, first, count);
		break;
	case 21:
		if (rnd(2))
			mlock(at, count * page_size);
		else
			munlock(at, count * page_size);
		break;
	case 22:
		pin(r, first);
		break;
	case 23:
		punch(r, first, count);
		break;
	case 24:
		disturb_file(first, count);
		break;
	case 25 ... 26:
		fill_from_outside(r, first);
		break;
	case 27:
		/*
		 * Not of files: in locked memory, filemap_fault_recheck_pte_none() takes the mark
		 * of a protected page that is not there for a page, and faults for ever.
		 */
		if (r->backing == ANON || r->backing == SHMEM)
			protect_writes(at, count * page_size);
		break;
	}
	__atomic_fetch_add(&control->ops, 1, __ATOMIC_RELAXED);
}

static void work(unsigned long ops)
{
	while (ops-- && !__atomic_load_n(&control->stop, __ATOMIC_RELAXED)) {
		pause_point();
		one_op();
	}
}

static unsigned long oracle_wrong(bool show)
{
	char text[1 << 16];
	unsigned long wrong = ~0ul, disk, exclusive, unsure;
	size_t length = 0;
	ssize_t got;
	char *last;
	int fd = open("/proc/folio_oracle", O_RDONLY);

	if (fd < 0)
		fail("/proc/folio_oracle");
	while ((got = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
		length += got;
	close(fd);
	if (got < 0)
		fail("reading the oracle");
	text[length] = 0;
	last = strstr(text, "spaces ");
	if (last && sscanf(last,
			   "spaces %*u folios %*u disk %lu exclusive %lu wrong %lu unsure %lu",
			   &disk, &exclusive, &wrong, &unsure) == 4) {
		disk_folios += disk;
		exclusive_folios += exclusive;
		unsure_folios += unsure;
	}
	if (show || wrong)
		printf("# %s", text);
	fflush(stdout);
	return wrong;
}

/* An oracle that cannot see a lie proves nothing. */
static void test_oracle(void)
{
	char address[32];
	char *folio = alloc_folio(4);
	unsigned long wrong;

	if (!folio) {
		test_skip("no folio to lie about");
		return;
	}
	snprintf(address, sizeof(address), "0x%lx", (unsigned long)folio);
	if (!write_file("/proc/folio_oracle", address))
		fail("lying to the oracle");
	printf("# this must find something:\n");
	wrong = oracle_wrong(true);
	write_file("/proc/folio_oracle", "0");
	test_result(wrong, "the oracle sees a wrong map count");
	test_result(!oracle_wrong(false), "and is content without it");
	munmap(folio, page_size << 4);
}

/* All processes stand still. */
static void pause_all(void)
{
	static unsigned int pause;
	unsigned int paused;

	/* Who is alive and saw the last pause was counted in it, or it would not have ended. */
	__atomic_store_n(&control->paused, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&control->pause, ++pause, __ATOMIC_RELEASE);
	do {
		usleep(1000);
		reap(WNOHANG);
		/* First: who stands still makes no more processes. */
		paused = __atomic_load_n(&control->paused, __ATOMIC_ACQUIRE);
	} while (paused < __atomic_load_n(&control->live, __ATOMIC_ACQUIRE));
}

/* Have the oracle look. Of what unmaps of itself, reclaim and compaction go on meanwhile. */
static unsigned long check(unsigned int round)
{
	unsigned long wrong;

	pause_all();
	set_size(pmd_order, "enabled", "never");	/* ends khugepaged, until set_sizes() */
	write_file(KSM "run", "0");
	wrong = oracle_wrong(round % 10 == 0);
	write_file(KSM "run", "1");
	set_sizes(round + 1);
	if (round % 5 == 4)
		write_file("/proc/sys/vm/drop_caches", "1");
	__atomic_store_n(&control->pause, 0, __ATOMIC_RELEASE);
	return wrong;
}

static void set_up_files(void)
{
	const size_t size = REGION_PAGES * page_size;

	if (!mount_xfs("/tmp/xfs")) {
		test_skip("files: no XFS (mkfs.xfs, CONFIG_XFS_FS, /dev/ram0)");
		return;
	}
	shared_file = make_file("/tmp/xfs/shared", size);
	private_file = make_file("/tmp/xfs/private", size);
}

static void set_up(void)
{
	load_module(getenv("MODULE_ORACLE"));
	test_oracle();
	/* What was lost before is none of ours. */
	if (write_file(KMEMLEAK, "scan"))
		write_file(KMEMLEAK, "clear");
	set_up_swap();
	set_up_files();
	write_file(KSM "run", "1");
	write_file(KSM "sleep_millisecs", "50");
	write_file(KHUGEPAGED "scan_sleep_millisecs", "50");
	write_file(KHUGEPAGED "alloc_sleep_millisecs", "50");
	set_sizes(0);

	control = mmap(NULL, page_size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (control == MAP_FAILED)
		fail("mmap");
	control->next_tag = 1;
	/* Whose parent has ended is waited for here. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		fail("prctl(PR_SET_CHILD_SUBREAPER)");
}

static void start_worker(uint64_t seed)
{
	const pid_t pid = fork();
	int r;

	if (pid < 0)
		fail("fork");
	if (pid)
		return;
	random_state = seed;
	for (r = 0; r < REGIONS; r++)
		map_region(&regions[r]);
	work(~0ul);
	_exit(0);
}

/* What a run must have seen. */
static bool enough(unsigned int rounds)
{
	return rounds > 1 && control->forks && (shared_file < 0 || disk_folios);
}

int main(int argc, char **argv)
{
	const int seconds = argc > 1 ? atoi(argv[1]) : 30;
	const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	unsigned long wrong = 0;
	unsigned int rounds = 0;
	time_t start;
	int i;

	lab_init();
	set_up();
	control->live = WORKERS;
	for (i = 0; i < WORKERS; i++)
		start_worker(seed * 0x9e3779b97f4a7c15ull + i + 1);

	start = time(NULL);
	while (!wrong && !control->lost &&
	       time(NULL) < start + (enough(rounds) ? seconds : 4 * seconds)) {
		usleep(300000 + rounds % 7 * 100000);
		wrong = check(rounds++);
	}
	control->stop = 1;
	reap(0);

	printf("# seed %lu, %u rounds, %lu operations, %lu forks\n",
	       (unsigned long)seed, rounds, control->ops, control->forks);
	printf("# folios of one address space: %lu, of which maybe shared: %lu\n",
	       exclusive_folios, unsure_folios);
	test_result(!wrong, "accounting agrees with the page tables");
	test_result(!control->faults, "no page was written by another process");
	test_result(!control->lost, "no process was killed or gave up");
	if (shared_file >= 0)
		test_result(disk_folios, "%lu large folios of files were compared", disk_folios);
	test_result(control->forks && rounds > 1, "something happened");
	test_leaks();
	return test_end();
}
