// SPDX-License-Identifier: GPL-2.0
/*
 * Trees of processes that fork, are killed in the middle of whatever they do, and
 * have four threads each: one writes, one reads, one reads from and writes to a disk past the
 * page cache, and one moves, protects, advises, discards, locks and splices under their hands.
 * Parents write to what children have, also as debuggers; KSM merges, and userfaultfd protects.
 * Nobody may see what another process wrote after fork(), nor anything older than
 * what was written last: stamps.h. Memory is to be larger than the pool.
 *
 * Usage: hostile SECONDS [SEED [MB]]: in a memory cgroup of so many MB, if that is given.
 * Where processes are slow it goes on, up to six times as long, until each thing was done.
 */
#include "advice.h"
#include "watched.h"

#include <pthread.h>
#include <sys/prctl.h>

#include "../foliomap/setup.h"

#define ARENA		((size_t)PAGES * 4096)
#define CHILDREN	2
#define DEPTH		3
#define FAMILIES	3
#define PIPES		4
#define CGROUP		"/sys/fs/cgroup/hostile"

struct child {
	struct node *node;
	int left;		/* what it leaves in a pipe; the end for reading */
};

struct held {
	int ends[2];
	size_t page;
	uint32_t done;
	bool gone, full;
};

static struct child children[CHILDREN];
static struct held held[PIPES];
static int left = -1;
static bool limited;
static pthread_rwlock_t still = PTHREAD_RWLOCK_INITIALIZER;

/* The page in a pipe: read, read twice by way of another pipe, or moved to a file */
static void read_held(int from, uint64_t *page, uint64_t *twin)
{
	int ends[2], file = -1;
	bool done = true;

	memset(twin, 0, page_size);
	if (pipe2(ends, O_CLOEXEC))
		wrong("pipe: %s", strerror(errno));
	switch (pick(0, 3)) {
	case 0:
		done = tee(from, ends[1], page_size, 0) == (ssize_t)page_size &&
		       read(ends[0], twin, page_size) == (ssize_t)page_size;
		/* fall through */
	case 1:
		done = done && read(from, page, page_size) == (ssize_t)page_size;
		break;
	case 2:
		file = memfd_create("held", MFD_CLOEXEC);
		done = file >= 0 &&
		       splice(from, NULL, file, NULL, page_size, SPLICE_F_MOVE) ==
				(ssize_t)page_size &&
		       pread(file, page, page_size, 0) == (ssize_t)page_size;
		close(file);
	}
	if (!done)
		wrong("a pipe: %s", strerror(errno));
	close(ends[0]);
	close(ends[1]);
}

/* What pages of this process have that it gave to a pipe, whatever it did since */
static void check_held(struct held *h)
{
	uint64_t pages[2][512], words[WORDS];
	int way, i;

	read_held(h->ends[0], pages[0], pages[1]);
	for (way = 0; way < 2; way++) {
		for (i = 0; i < WORDS; i++)
			words[i] = pages[way][i * STRIDE];
		if (way && !words[0])
			break;
		check_words(self, h->page, words, h->done,
			    atomic_load(&self->begun[h->page]), h->gone,
			    way ? "in a second pipe" : "in a pipe");
	}
	close(h->ends[0]);
	close(h->ends[1]);
	h->full = false;
}

static bool splice_page(int to, size_t page)
{
	const unsigned int moves = atomic_load(&self->moves);
	struct iovec part = { page_at(self, moves, page), page_size };

	return vmsplice(to, &part, 1, SPLICE_F_NONBLOCK) == (ssize_t)page_size;
}

static void hold(void)
{
	struct held *h = &held[pick(0, PIPES)];

	if (h->full) {
		check_held(h);
		return;
	}
	if (pipe2(h->ends, O_CLOEXEC))
		wrong("pipe: %s", strerror(errno));
	h->page = pick(0, DIRECT);
	h->done = atomic_load(&self->done[h->page]);
	h->gone = atomic_load(&self->gone[h->page]);
	h->full = splice_page(h->ends[1], h->page);
	if (!h->full) {
		close(h->ends[0]);
		close(h->ends[1]);
	} else {
		atomic_fetch_add(&all->spliced, 1);
	}
}

/* The arena goes to its other place, which is reserved; there may be no room for that. */
static void move(void)
{
	const unsigned int moves = atomic_load(&self->moves);
	char *from = self->place[moves >> 1 & 1], *to = self->place[!(moves >> 1 & 1)];
	int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	bool moved;

	/* Only one mapping can be moved. */
	munlock(from, ARENA);
	madvise(from, ARENA, MADV_NORMAL);
	madvise(from, ARENA, MADV_HUGEPAGE);
	madvise(from, ARENA, MADV_UNMERGEABLE);
	if (pick(0, 3) == 0)
		flags |= MREMAP_DONTUNMAP;
	atomic_store(&self->moves, moves + 1);
	moved = mremap(from, ARENA, ARENA, flags, to) == to;
	if (mmap(moved ? from : to, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) == MAP_FAILED)
		wrong("mmap of what is reserved: %s", strerror(errno));
	atomic_store(&self->moves, moves + (moved ? 2 : 4));
	atomic_fetch_add(&all->moved, moved);
}

static void protect(char *arena)
{
	const size_t from = pick(0, PAGES), nr = 1 + pick(0, PAGES - from);
	char *start = arena + from * page_size;

	if (mprotect(start, nr * page_size, pick(0, 2) ? PROT_READ : PROT_NONE))
		return;
	if (pick(0, 2))
		usleep(pick(0, 500));
	while (mprotect(start, nr * page_size, PROT_READ | PROT_WRITE))
		usleep(1000);
}

static void lock(char *arena)
{
	const size_t from = pick(0, PAGES), nr = 1 + pick(0, 64);

	if (pick(0, 2) || from + nr > PAGES)
		munlock(arena, ARENA);
	else
		mlock(arena + from * page_size, nr * page_size);
}

static void *direct(void *arg)
{
	while (!over() && disk >= 0) {
		const unsigned int moves = atomic_load(&self->moves);

		if (moves & 1)
			sched_yield();
		else if (pick(3, 3))
			read_direct(moves);
		else
			write_direct(moves);
	}
	return arg;
}

/* Or all processors are busy with what is done most easily. */
static void rest(int thread)
{
	if (pick(thread, 16) == 0)
		usleep(pick(thread, 400));
}

static void *writer(void *arg)
{
	static bool (*const ways[])(struct node *node, char *page, void *buffer) = {
		store, store, store, store, store, store_remote, store_by_read, store_by_mem,
	};
	size_t page;

	while (!over()) {
		do
			page = pick(1, DIRECT);
		while (page >= POKED && page < LOOSE);
		pthread_rwlock_rdlock(&still);
		write_page(self, page, ways[pick(1, sizeof(ways) / sizeof(*ways))]);
		pthread_rwlock_unlock(&still);
		rest(1);
	}
	return arg;
}

static void *reader(void *arg)
{
	while (!over()) {
		check_page(self, pick(2, DIRECT), "reading");
		rest(2);
	}
	return arg;
}

static void live(void);

static void spawn(void)
{
	const bool quiet = pick(0, 2);
	struct child *child = children;
	struct node *node;
	int ends[2];
	pid_t pid;

	while (child < children + CHILDREN && child->node)
		child++;
	if (child == children + CHILDREN || self->depth == DEPTH ||
	    atomic_load(&all->owners) >= OWNERS - 1)
		return;
	node = share(sizeof(*node));
	node->owner = atomic_fetch_add(&all->owners, 1) + 1;
	node->depth = self->depth + 1;
	node->parent = self;
	atomic_store(&node->moves, atomic_load(&self->moves));
	memcpy(node->place, self->place, sizeof(node->place));
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		wrong("pipe: %s", strerror(errno));
	if (quiet)
		pthread_rwlock_wrlock(&still);
	memcpy(node->low, self->done, sizeof(node->low));
	pid = fork();
	if (!pid) {
		node->pid = getpid();
		self = node;
		if (left >= 0)
			close(left);
		left = ends[1];
		close(ends[0]);
		live();
		_exit(0);
	}
	memcpy(node->high, self->begun, sizeof(node->high));
	if (quiet)
		pthread_rwlock_unlock(&still);
	close(ends[1]);
	if (pid < 0) {
		if (errno != ENOMEM && errno != EAGAIN)
			wrong("fork: %s", strerror(errno));
		close(ends[0]);
		munmap(node, sizeof(*node));
		return;
	}
	node->pid = pid;
	atomic_store(&node->bounded, true);
	*child = (struct child){ .node = node, .left = ends[0] };
	atomic_fetch_add(&all->forks, 1);
}

/* A child has ended. What it left in its pipe may be nobody else's. */
static void bury(struct child *child, int status, bool killed)
{
	struct node *node = child->node;
	uint64_t page[512], words[WORDS];
	size_t at;
	int i;

	/* With a limit, the kernel may kill whom it likes. */
	if (status && !(killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) &&
	    !(limited && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
		wrong("child %d of owner %u ended with status %#x", node->pid, node->owner,
		      status);
	while (read(child->left, page, sizeof(page)) == (ssize_t)sizeof(page)) {
		at = page[0] >> 32 & 0xffff;
		if (at >= DIRECT)
			wrong("a pipe has %#llx", (long long)page[0]);
		for (i = 0; i < WORDS; i++)
			words[i] = page[i * STRIDE];
		check_words(node, at, words, 0, atomic_load(&node->begun[at]), false,
			    "what a child left");
	}
	close(child->left);
	munmap(node, sizeof(*node));
	child->node = NULL;
}

static void reap(struct child *child, bool kill_it)
{
	int status;

	if (kill_it) {
		kill(child->node->pid, SIGKILL);
		atomic_fetch_add(&all->killed, 1);
	}
	if (waitpid(child->node->pid, &status, kill_it ? 0 : WNOHANG) == child->node->pid)
		bury(child, status, kill_it);
}

/* A write to memory of a child, by all who may */
static void poke(struct child *child)
{
	static bool (*const ways[])(struct node *node, char *page, void *buffer) = {
		store_remote, store_by_other_mem, store_by_ptrace,
	};

	write_page(child->node, POKED + pick(0, FIXED - POKED), ways[pick(0, 3)]);
	atomic_fetch_add(&all->poked, 1);
	if (has_ended)
		bury(child, ended, false);
	has_ended = false;
}

static void with_child(void)
{
	struct child *child = &children[pick(0, CHILDREN)];
	const unsigned int what = pick(0, 12);

	if (!child->node)
		return;
	if (what == 0)
		reap(child, true);
	else if (what < 4)
		reap(child, false);
	else if (!atomic_load(&child->node->ready))
		return;
	else if (what < 8)
		poke(child);
	else
		check_page(child->node, pick(0, LOOSE), "reading a child");
}

/* For the parent, in case this one is killed */
static void leave(void)
{
	if (left >= 0)
		splice_page(left, pick(0, FIXED));
}

static void step(void)
{
	char *arena = self->place[atomic_load(&self->moves) >> 1 & 1];
	const unsigned int what = pick(0, 100);

	if (what < 12)
		hold();
	else if (what < 18)
		leave();
	else if (what < 29)
		protect(arena);
	else if (what < 42)
		advise(arena);
	else if (what < 51)
		discard(arena);
	else if (what < 55)
		lock(arena);
	else if (what < 62)
		move();
	else if (what < 69)
		use_fixed();
	else if (what < 75)
		use_alike();
	else if (what < 78)
		guard_writes(arena);
	else if (what < 87)
		spawn();
	else
		with_child();
}

/* The threads of a process, of which this is the one that does the rest */
static void live(void)
{
	void *(*const run[])(void *) = { NULL, writer, reader, direct };
	pthread_t threads[4];
	struct child *child;
	size_t page;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = 0; i < 4; i++)
		seeds[i] = seeds[i] * 31 + self->owner * 4 + i;
	for (i = 0; i < PIPES; i++) {
		if (held[i].full) {
			close(held[i].ends[0]);
			close(held[i].ends[1]);
		}
		held[i].full = false;
	}
	for (child = children; child < children + CHILDREN; child++) {
		if (child->node)
			close(child->left);
		child->node = NULL;
	}
	pthread_rwlock_init(&still, NULL);
	if (self->parent) {
		ring_close();
		while (!atomic_load(&self->bounded)) {
			if (getppid() != self->parent->pid)
				_exit(0);
			usleep(100);
		}
		if (pick(0, 2))
			usleep(pick(0, 30000));
	}
	ring_open();
	if (!self->parent)
		for (page = 0; page < DIRECT; page++)
			write_page(self, page, store);
	look_first();
	for (i = 1; i < 4; i++)
		if (pthread_create(&threads[i], NULL, run[i], NULL))
			wrong("pthread_create");
	while (!over() && !(self->depth > 1 && pick(0, 400) == 0))
		step();
	for (child = children; child < children + CHILDREN; child++)
		if (child->node)
			reap(child, true);
	for (i = 0; i < PIPES; i++)
		if (held[i].full)
			check_held(&held[i]);
	if (!over())
		_exit(0);
	for (i = 1; i < 4; i++)
		pthread_join(threads[i], NULL);
}

/* Memory of other kinds for the cgroup, again and again */
static void crowd(void)
{
	int file;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!over()) {
		file = open("/run/hostile-crowd", O_RDWR | O_CREAT | O_TRUNC, 0600);
		while (file >= 0 && pick(0, 1024) &&
		       write(file, sheet(1), page_size) == (ssize_t)page_size)
			;
		close(file);
	}
	_exit(0);
}

static void limit(const char *mb)
{
	char text[32];

	snprintf(text, sizeof(text), "%sM", mb);
	mkdir(CGROUP, 0700);
	if (!write_file("/sys/fs/cgroup/cgroup.subtree_control", "+memory") ||
	    !write_file(CGROUP "/memory.max", text) ||
	    !write_file(CGROUP "/cgroup.procs", "0"))
		fail(CGROUP);
	limited = true;
}

static void family(int number)
{
	self = share(sizeof(*self));
	self->owner = atomic_fetch_add(&all->owners, 1) + 1;
	self->depth = 1;
	self->pid = getpid();
	self->place[0] = reserve(ARENA);
	self->place[1] = reserve(ARENA);
	if (mmap(self->place[1], ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) == MAP_FAILED)
		wrong("mmap: %s", strerror(errno));
	madvise(self->place[0], ARENA, MADV_HUGEPAGE);
	seeds[0] += number;
	live();
	_exit(0);
}

int main(int argc, char **argv)
{
	const unsigned int seed = argc > 2 && atoi(argv[2]) ? atoi(argv[2]) : time(NULL);
	pid_t pids[FAMILIES + 1];
	int i, status, killed = 0, bad = 0;
	bool merged;

	if (argc < 2) {
		fprintf(stderr, "Usage: hostile SECONDS [SEED [MB]]\n");
		return 2;
	}
	lab_init();
	printf("# seed %u\n", seed);
	for (i = 0; i < 4; i++)
		seeds[i] = seed + i;
	all = share(sizeof(*all));
	set_sizes(seed);
	managed = *default_mount();
	if (!managed)
		set_up_swap();
	disk_make();
	if (argc > 3)
		limit(argv[3]);
	catch_faults();
	merged = alike_make();
	until = time(NULL) + atoi(argv[1]);
	latest = time(NULL) + 6 * atoi(argv[1]);
	for (i = 0; i < FAMILIES + limited; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			fail("fork");
		if (!pids[i]) {
			if (i == FAMILIES) {
				self = share(sizeof(*self));
				crowd();
			}
			family(i);
		}
	}
	for (i = 0; i < FAMILIES + limited; i++) {
		if (waitpid(pids[i], &status, 0) != pids[i])
			fail("waitpid");
		if (limited && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			killed++;
		else
			bad += status != 0;
	}
	printf("# %u operations, %u forks, %u killed, %u moves, %u direct, %u spliced, %u fixed, %u poked; %d families killed\n",
	       all->operations, all->forks, all->killed, all->moved, all->direct, all->spliced,
	       all->fixed, all->poked, killed);
	printf("# %u alike, %u protected by userfaultfd, %u traced, %u poisoned; %lu copied from KSM, %lu swapped out\n",
	       all->alike, all->guarded, all->traced, all->poisoned, vmstat("cow_ksm"),
	       vmstat("pswpout"));
	test_result(!bad && !all->failures, "pages say what their process wrote");
	test_result(everything_done() && (!merged || vmstat("cow_ksm")),
		    "and everything was done");
	return test_end();
}
