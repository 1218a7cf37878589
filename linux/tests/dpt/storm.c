// SPDX-License-Identifier: GPL-2.0
/*
 * What makes, fills, splits, moves and frees page tables, at random and all at once:
 * trees of forked children, mremap() of whole regions, MADV_DONTNEED, huge pages
 * that are made on a fault, by khugepaged and by MADV_COLLAPSE, and split by
 * mprotect(), userfaultfd's copies and moves, swap, compaction, and a neighbour who
 * takes memory until it is killed. Two threads of each process work in regions that
 * lie alternately in one area, and on alternate pages of one region. Each compares
 * what it reads with what it wrote, kept in memory of its own.
 *
 * Usage: storm [SECONDS [SEED]]: rounds until SECONDS have passed and a neighbour was
 * killed, at most ROUNDS for that.
 */
#include "../foliomap/setup.h"
#include "lab.h"

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#ifndef UFFDIO_MOVE		/* Linux's headers before 6.8 */
struct uffdio_move {
	uint64_t dst, src, len, mode;
	int64_t move;
};

#define UFFDIO_MOVE _IOWR(UFFDIO, 5, struct uffdio_move)
#define UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES (1ull << 1)
#endif

#define SLOTS		20	/* regions of a thread, of which half hold something */
#define HOME		10
#define PAGES		512	/* of a region */
#define DEPTH		3
#define ROUNDS		8
#define STEPS		600	/* of a thread, in a round */
#define CHILDREN	2	/* of a process at a time */
#define SHOWN		3	/* words of a page that are written and compared */

/* A region and what each of its pages holds; 0 is a page that nobody has written. */
struct slot {
	char *memory;
	bool used;
	uint32_t value[PAGES];
};

/* The last slot is shared by two threads, page by page. */
struct worker {
	unsigned int seed;
	int depth, lane;
	unsigned long steps;
	int uffd;
	struct slot slots[SLOTS], common;
	pid_t child[CHILDREN];
};

static char *area;
static const char *doing[2] = { "", "" };

static uint32_t pick(struct worker *w, uint32_t below)
{
	return rand_r(&w->seed) % below;
}

static uint32_t *word(const struct slot *slot, size_t page, int nr)
{
	static const size_t at[SHOWN] = { 0, 1368, 4092 };

	return (uint32_t *)(slot->memory + page * page_size + at[nr]);
}

static void check(struct worker *w, const struct slot *slot, size_t page)
{
	int nr;

	for (nr = 0; nr < SHOWN; nr++) {
		const uint32_t found = *word(slot, page, nr);

		if (found == slot->value[page])
			continue;
		printf("# pid %d depth %d lane %d: page %zu of %p has %#x, not %#x, after %s\n",
		       getpid(), w->depth, w->lane, page, slot->memory, found,
		       slot->value[page], doing[w->lane]);
		fflush(stdout);
		_exit(1);
	}
}

static void check_some(struct worker *w, const struct slot *slot, size_t step)
{
	size_t page;

	for (page = pick(w, step); page < PAGES; page += step)
		check(w, slot, page);
}

static void put(struct worker *w, struct slot *slot, size_t page)
{
	int nr;

	slot->value[page] = rand_r(&w->seed) | 1;
	for (nr = 0; nr < SHOWN; nr++)
		*word(slot, page, nr) = slot->value[page];
}

static struct slot *some(struct worker *w, bool used)
{
	struct slot *slot;

	do
		slot = &w->slots[pick(w, SLOTS)];
	while (slot->used != used);
	return slot;
}

static void part(struct worker *w, size_t *page, size_t *pages)
{
	*page = pick(w, 4) ? pick(w, PAGES) : 0;
	*pages = pick(w, 4) ? 1 + pick(w, PAGES - *page) : PAGES - *page;
}

static void forget(struct slot *slot, size_t page, size_t pages)
{
	memset(slot->value + page, 0, pages * sizeof(*slot->value));
}

static void map_anew(struct slot *slot, int prot)
{
	if (mmap(slot->memory, REGION, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		fail("mmap");
	forget(slot, 0, PAGES);
	slot->used = prot != PROT_NONE;
}

/* A whole region goes where there is room, or where another one is lost. */
static void move_region(struct worker *w)
{
	struct slot *from = some(w, true), *to = some(w, pick(w, 3) == 0);
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	const bool keep = to != from && pick(w, 3) == 0;

	if (to == from)
		return;
	if (mremap(from->memory, REGION, REGION, keep ? flags | MREMAP_DONTUNMAP : flags,
		   to->memory) == MAP_FAILED) {
		/* Two mappings, which have not become one again. What was there is lost. */
		if (errno != EFAULT)
			fail("mremap");
		map_anew(to, to->used ? PROT_READ | PROT_WRITE : PROT_NONE);
		return;
	}
	memcpy(to->value, from->value, sizeof(to->value));
	/* As many regions hold something as before. */
	if (!to->used)
		map_anew(from, PROT_NONE);
	else if (!keep)
		map_anew(from, PROT_READ | PROT_WRITE);
	else
		forget(from, 0, PAGES);
	to->used = true;
}

static void discard(struct worker *w)
{
	struct slot *slot = some(w, true);
	size_t page, pages;

	part(w, &page, &pages);
	if (madvise(slot->memory + page * page_size, pages * page_size, MADV_DONTNEED))
		fail("MADV_DONTNEED");
	forget(slot, page, pages);
}

/* mprotect() of a part splits the mapping and the huge page. */
static void protect(struct worker *w)
{
	struct slot *slot = some(w, true);
	size_t page, pages;

	part(w, &page, &pages);
	if (mprotect(slot->memory + page * page_size, pages * page_size, PROT_READ))
		fail("mprotect");
	check(w, slot, page);
	if (mprotect(slot->memory, REGION, PROT_READ | PROT_WRITE))
		fail("mprotect");
}

/* What makes huge pages, and what pushes pages out: all may be refused. */
static void advise(struct worker *w)
{
	static const int kinds[] = { MADV_HUGEPAGE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLLAPSE,
				     MADV_COLLAPSE, MADV_PAGEOUT, MADV_COLD, MADV_MERGEABLE,
				     MADV_POPULATE_READ };
	struct slot *slot = some(w, true);

	madvise(slot->memory, REGION, kinds[pick(w, sizeof(kinds) / sizeof(*kinds))]);
}

static bool user_register(struct worker *w, struct slot *slot, int mode)
{
	struct uffdio_register arg = {
		.range = { (uintptr_t)slot->memory, REGION },
		.mode = mode,
	};

	return w->uffd >= 0 && !ioctl(w->uffd, UFFDIO_REGISTER, &arg);
}

static void user_unregister(struct worker *w, struct slot *slot)
{
	struct uffdio_range range = { (uintptr_t)slot->memory, REGION };

	if (ioctl(w->uffd, UFFDIO_UNREGISTER, &range))
		fail("UFFDIO_UNREGISTER");
}

/* Pages that userfaultfd fills where a table may be missing */
static void user_copy(struct worker *w)
{
	static __thread uint32_t from[1024];
	struct slot *slot = some(w, true);
	size_t page, pages, i;

	if (!user_register(w, slot, UFFDIO_REGISTER_MODE_MISSING))
		return;
	part(w, &page, &pages);
	if (madvise(slot->memory + page * page_size, pages * page_size, MADV_DONTNEED))
		fail("MADV_DONTNEED");
	forget(slot, page, pages);
	for (i = page; i < page + pages; i += 1 + pick(w, 64)) {
		struct uffdio_copy arg = {
			.dst = (uintptr_t)slot->memory + i * page_size,
			.src = (uintptr_t)from, .len = page_size,
		};
		const uint32_t value = rand_r(&w->seed) | 1;
		size_t at;

		for (at = 0; at < 1024; at++)
			from[at] = value;
		if (ioctl(w->uffd, UFFDIO_COPY, &arg))
			continue;	/* it waits for nobody: EAGAIN, or EEXIST */
		slot->value[i] = value;
	}
	user_unregister(w, slot);
}

/* userfaultfd's move: of a part, or of a whole huge page */
static void user_move(struct worker *w)
{
	struct slot *from = some(w, true), *to = some(w, true);
	struct uffdio_move arg = { .mode = UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES };
	size_t page, pages;
	int64_t moved;

	if (from == to || !user_register(w, to, UFFDIO_REGISTER_MODE_MISSING))
		return;
	part(w, &page, &pages);
	if (madvise(to->memory + page * page_size, pages * page_size, MADV_DONTNEED))
		fail("MADV_DONTNEED");
	forget(to, page, pages);
	arg.dst = (uintptr_t)to->memory + page * page_size;
	arg.src = (uintptr_t)from->memory + page * page_size;
	arg.len = pages * page_size;
	ioctl(w->uffd, UFFDIO_MOVE, &arg);
	moved = arg.move > 0 ? arg.move / (int64_t)page_size : 0;
	/* Pages that others have, too, are not moved. */
	memcpy(to->value + page, from->value + page, moved * sizeof(*to->value));
	forget(from, page, moved);
	user_unregister(w, to);
}

static void user_protect(struct worker *w)
{
	struct slot *slot = some(w, true);
	struct uffdio_writeprotect arg = { .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	size_t page, pages;

	if (!user_register(w, slot, UFFDIO_REGISTER_MODE_WP))
		return;
	part(w, &page, &pages);
	arg.range.start = (uintptr_t)slot->memory + page * page_size;
	arg.range.len = pages * page_size;
	ioctl(w->uffd, UFFDIO_WRITEPROTECT, &arg);
	check_some(w, slot, 32);
	user_unregister(w, slot);
}

/* The thread's pages of the region that both use */
static void common_page(struct worker *w)
{
	struct slot *slot = &w->common;
	size_t page = 2 * pick(w, PAGES / 2) + w->lane;

	if (pick(w, 3)) {
		put(w, slot, page);
	} else {
		if (madvise(slot->memory + page * page_size, page_size, MADV_DONTNEED))
			fail("MADV_DONTNEED");
		slot->value[page] = 0;
	}
	page = 2 * pick(w, PAGES / 2) + w->lane;
	check(w, slot, page);
	if (pick(w, 16) == 0)
		madvise(slot->memory, REGION, MADV_COLLAPSE);
}

static void writes(struct worker *w)
{
	struct slot *slot = some(w, true);
	size_t page, pages, i;

	part(w, &page, &pages);
	for (i = page; i < page + pages; i += 1 + pick(w, 16))
		put(w, slot, i);
}

static void run(struct worker *w);

static int user_faults(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void reap(struct worker *w, int nr)
{
	int status;

	if (!w->child[nr])
		return;
	if (waitpid(w->child[nr], &status, 0) != w->child[nr])
		fail("waitpid");
	w->child[nr] = 0;
	if (!status)
		return;
	printf("# a child at depth %d ended with %#x\n", w->depth + 1, status);
	fflush(stdout);
	_exit(1);
}

/* A child has one thread; it looks at all it got and then does the same. */
static void spawn(struct worker *w)
{
	const int nr = pick(w, CHILDREN);
	int i;

	if (w->depth == DEPTH || w->lane)
		return;
	reap(w, nr);
	w->child[nr] = fork();
	if (w->child[nr] < 0)
		fail("fork");
	if (w->child[nr])
		return;
	close(w->uffd);
	memset(w->child, 0, sizeof(w->child));
	w->uffd = user_faults();
	w->depth++;
	w->steps /= 4;
	w->seed += w->depth;
	for (i = 0; i < SLOTS; i++)
		if (w->slots[i].used)
			check_some(w, &w->slots[i], 1);
	run(w);
	_exit(0);
}

static void run(struct worker *w)
{
	static const struct {
		void (*run)(struct worker *w);
		const char *name;
		int often;
	} kinds[] = {
		{ writes, "writes", 8 }, { common_page, "the common page", 8 },
		{ move_region, "mremap", 5 }, { discard, "MADV_DONTNEED", 3 },
		{ protect, "mprotect", 3 }, { advise, "madvise", 6 },
		{ user_copy, "UFFDIO_COPY", 2 }, { user_move, "UFFDIO_MOVE", 2 },
		{ user_protect, "UFFDIO_WRITEPROTECT", 1 }, { spawn, "fork", 1 },
	};
	const int count = sizeof(kinds) / sizeof(*kinds);
	int total = 0, left, i;

	for (i = 0; i < count; i++)
		total += kinds[i].often;
	while (w->steps) {
		left = pick(w, total);
		for (i = 0; left >= kinds[i].often; i++)
			left -= kinds[i].often;
		kinds[i].run(w);
		doing[w->lane] = kinds[i].name;
		check_some(w, some(w, true), 16);
		/* A child gets a part of the steps that are left. */
		if (w->steps)
			w->steps--;
	}
	for (i = 0; i < SLOTS; i++)
		if (w->slots[i].used)
			check_some(w, &w->slots[i], 1);
	for (i = 0; i < CHILDREN; i++)
		reap(w, i);
}

static void *thread(void *arg)
{
	run(arg);
	return NULL;
}

static void begin(struct worker *w, int lane, unsigned long steps, unsigned int seed)
{
	int i;

	w->lane = lane;
	w->steps = steps;
	w->seed = seed * 2 + lane;
	w->uffd = user_faults();
	for (i = 0; i < SLOTS; i++) {
		w->slots[i].memory = area + (1 + 2 * i + lane) * REGION;
		w->slots[i].used = i < HOME;
		/* So that nothing else is mapped there */
		if (!w->slots[i].used)
			map_anew(&w->slots[i], PROT_NONE);
	}
	w->common.memory = area;
}

/* Takes memory until it is killed, again and again; what is left to others is little. */
static pid_t neighbour(void)
{
	const pid_t pid = fork();

	if (pid)
		return pid;
	for (;;) {
		const pid_t glutton = fork();

		if (!glutton) {
			write_file("/proc/self/oom_score_adj", "1000");
			for (;;) {
				char *memory = mmap(NULL, REGION, PROT_READ | PROT_WRITE,
						    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
				size_t at;

				if (memory == MAP_FAILED)
					_exit(0);
				for (at = 0; at < REGION; at += page_size)
					*(size_t *)(memory + at) = at * (size_t)memory;
			}
		}
		waitpid(glutton, NULL, 0);
		sleep(2);
	}
}

static pid_t compactor(void)
{
	const pid_t pid = fork();

	while (!pid) {
		write_file("/proc/sys/vm/compact_memory", "1");
		usleep(300000);
	}
	return pid;
}

static _Noreturn void storm(unsigned int seed)
{
	static struct worker workers[2];
	pthread_t other;

	area = reserve((1 + 2 * SLOTS) * REGION);
	begin(&workers[0], 0, STEPS, seed);
	begin(&workers[1], 1, STEPS, seed);
	if (pthread_create(&other, NULL, thread, &workers[1]))
		fail("pthread_create");
	run(&workers[0]);
	pthread_join(other, NULL);
	_exit(0);
}

int main(int argc, char **argv)
{
	const time_t until = time(NULL) + (argc > 1 ? atoi(argv[1]) : 0);
	const unsigned int seed = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
	pid_t helpers[2], pid;
	int status = 0, i;

	if (access(STATS, R_OK)) {
		printf("ok 1 # SKIP not with dpt=on\n");
		return KSFT_SKIP;
	}
	lab_init();
	set_up_swap();
	write_file("/proc/self/oom_score_adj", "-1000");
	write_file("/sys/kernel/mm/transparent_hugepage/enabled", "always");
	write_file("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "20");
	write_file("/sys/kernel/mm/transparent_hugepage/khugepaged/alloc_sleep_millisecs", "20");
	write_file("/sys/kernel/mm/ksm/run", "1");
	helpers[0] = neighbour();
	helpers[1] = compactor();
	for (i = 0; !status && (!i || time(NULL) < until ||
			       (i < ROUNDS && !vmstat("oom_kill"))); i++) {
		pid = fork();
		if (pid < 0)
			fail("fork");
		if (!pid)
			storm(seed + i);
		if (waitpid(pid, &status, 0) != pid)
			fail("waitpid");
		test_result(!status, "what was read is what was written: %#x, seed %u", status,
			    seed + i);
	}
	for (i = 0; i < 2; i++) {
		kill(helpers[i], SIGKILL);
		waitpid(helpers[i], NULL, 0);
	}
	printf("# huge: %lu faults, %lu collapsed, %lu split; %lu pages swapped out, %lu killed\n",
	       vmstat("thp_fault_alloc"), vmstat("thp_collapse_alloc"), vmstat("thp_split_pmd"),
	       vmstat("pswpout"), vmstat("oom_kill"));
	test_result(vmstat("thp_split_pmd") && vmstat("pswpout") && vmstat("oom_kill"),
		    "huge pages were split, pages swapped out, and memory ran out");
	test_result(!counter("unplaced"), "each table is where its metadata say");
	return test_end();
}
