/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages that say who wrote them: each has stamps of its process, its place and a
 * generation that only grows. From counters of what was begun and what is done follows
 * what a page may say at any time, also while it is written, moved or given to a child.
 *
 * All of that is in memory that processes share, which no memory file system has.
 */
#ifndef _STAMPS_H
#define _STAMPS_H

#include "lab.h"

#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/uio.h>

#define PAGES		1024
#define WORDS		8	/* stamps in a page */
#define STRIDE		(4096 / 8 / WORDS)
#define OWNERS		4096

/*
 * Places of an arena. Each has one writer: the writing thread has the steady and the
 * loose, the parent the poked, who asks for I/O the fixed; direct ones are read from a
 * disk. Loose ones are discarded as well.
 */
enum { STEADY = 0, POKED = 576, FIXED = 592, LOOSE = 600, DIRECT = 960 };

/* A process. What it has at the beginning is in @first, once it has looked. */
struct node {
	uint32_t owner;
	int depth;
	struct node *parent;
	pid_t pid;
	atomic_bool bounded, ready;
	/* The arena is in one of two places; odd while it is moved. */
	atomic_uint moves;
	char *place[2];
	/* Generations: of the parent when it forked, and its own */
	uint32_t low[PAGES], high[PAGES];
	atomic_uint begun[PAGES], done[PAGES];
	atomic_bool gone[PAGES];
	uint64_t first[PAGES][WORDS];
};

struct all {
	atomic_uint owners, failures, operations;
	atomic_uint forks, killed, moved, direct, spliced, fixed, poked;
	atomic_uint alike, guarded, traced, offline, poisoned;
};

static struct all *all;
static struct node *self;
static __thread sigjmp_buf retry;
static __thread volatile sig_atomic_t armed;
/* The page that is read may be gone for good. */
static __thread volatile sig_atomic_t lost;
/* The other process of a remote access has ended. */
static __thread bool vanished;

static void *share(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap of shared memory");
	return memory;
}

static bool loose(size_t page)
{
	return page >= LOOSE && page < DIRECT;
}

static uint64_t make_stamp(const struct node *node, size_t page, uint32_t generation)
{
	return (uint64_t)node->owner << 48 | (uint64_t)page << 32 | generation;
}

__attribute__((format(printf, 1, 2), noreturn))
static void wrong(const char *fmt, ...)
{
	char text[400];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	atomic_fetch_add(&all->failures, 1);
	dprintf(2, "process %d (owner %u, depth %d): %s\n", getpid(),
		self ? self->owner : 0, self ? self->depth : -1, text);
	_exit(1);
}

/* Memory that is moved or protected just now is tried again; all else is an error. */
static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (armed && (number == SIGSEGV || lost))
		siglongjmp(retry, 1);
	wrong("signal %d, code %d, at %p (arena %p)", number, info->si_code, info->si_addr,
	      self ? self->place[self->moves >> 1 & 1] : NULL);
}

static void catch_faults(void)
{
	struct sigaction action = {
		.sa_sigaction = on_fault,
		.sa_flags = SA_SIGINFO | SA_NODEFER,
	};

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

static char *page_at(const struct node *node, unsigned int moves, size_t page)
{
	return node->place[moves >> 1 & 1] + page * page_size;
}

/* Copy a page by @copy, which may fail, until it was in one place all the while. */
static void at_rest(struct node *node, size_t page, void *buffer,
		    bool (*copy)(struct node *node, char *page, void *buffer))
{
	volatile unsigned int tries = 0;
	volatile bool done;
	unsigned int moves;

	vanished = false;
	for (;;) {
		if (++tries > 64)
			usleep(200);
		if (tries > 100000)
			wrong("page %zu of owner %u is out of reach", page, node->owner);
		moves = atomic_load(&node->moves);
		done = false;
		if (!sigsetjmp(retry, 0)) {
			armed = 1;
			done = copy(node, page_at(node, moves, page), buffer);
		}
		armed = 0;
		if (done && !(moves & 1) && atomic_load(&node->moves) == moves)
			return;
		if (vanished)
			return;
		sched_yield();
	}
}

static bool load(struct node *node, char *page, void *buffer)
{
	const volatile uint64_t *words = (volatile uint64_t *)page;
	uint64_t *copy = buffer;
	int i;

	(void)node;
	for (i = 0; i < WORDS; i++)
		copy[i] = words[i * STRIDE];
	return true;
}

static bool store(struct node *node, char *page, void *buffer)
{
	volatile uint64_t *words = (volatile uint64_t *)page;
	const uint64_t *stamp = buffer;
	int i;

	(void)node;
	for (i = 0; i < WORDS; i++)
		words[i * STRIDE] = *stamp;
	return true;
}

/* A whole page of one stamp, for calls */
static const char *sheet(uint64_t stamp)
{
	static __thread uint64_t words[512];
	int i;

	for (i = 0; i < 512; i++)
		words[i] = stamp;
	return (const char *)words;
}

static bool store_remote(struct node *node, char *page, void *buffer)
{
	struct iovec from = { (void *)sheet(*(uint64_t *)buffer), page_size };
	struct iovec to = { page, page_size };

	if (process_vm_writev(node->pid, &from, 1, &to, 1, 0) == (ssize_t)page_size)
		return true;
	vanished = errno == ESRCH;
	return false;
}

static bool load_remote(struct node *node, char *page, void *buffer)
{
	static __thread uint64_t words[512];
	struct iovec from = { page, page_size };
	struct iovec to = { words, page_size };

	if (process_vm_readv(node->pid, &to, 1, &from, 1, 0) == (ssize_t)page_size)
		return load(node, (char *)words, buffer);
	vanished = errno == ESRCH;
	return false;
}

static bool store_by_read(struct node *node, char *page, void *buffer)
{
	int ends[2];
	bool done;

	(void)node;
	if (pipe(ends))
		wrong("pipe: %s", strerror(errno));
	if (write(ends[1], sheet(*(uint64_t *)buffer), page_size) != (ssize_t)page_size)
		wrong("write to a pipe: %s", strerror(errno));
	done = read(ends[0], page, page_size) == (ssize_t)page_size;
	close(ends[0]);
	close(ends[1]);
	return done;
}

static bool store_by_mem(struct node *node, char *page, void *buffer)
{
	const int fd = open("/proc/self/mem", O_RDWR);
	bool done;

	(void)node;
	if (fd < 0)
		wrong("/proc/self/mem: %s", strerror(errno));
	done = pwrite(fd, sheet(*(uint64_t *)buffer), page_size, (off_t)page) ==
		(ssize_t)page_size;
	close(fd);
	return done;
}

/* The next generation of a page; only its writer calls this. */
static void write_page(struct node *node, size_t page,
		       bool (*how)(struct node *node, char *page, void *buffer))
{
	const uint32_t generation = atomic_load(&node->begun[page]) + 1;
	uint64_t stamp = make_stamp(node, page, generation);

	atomic_store(&node->begun[page], generation);
	at_rest(node, page, &stamp, how);
	if (vanished)
		return;
	atomic_store(&node->done[page], generation);
	atomic_fetch_add(&all->operations, 1);
}

/*
 * Whether a word may be in a page of a process, of which @done generations were done
 * before it was read, and may have been gone, and @begun were begun afterwards.
 */
static bool may_be(const struct node *node, size_t page, int i, uint64_t word,
		   uint32_t done, uint32_t begun, bool gone)
{
	const uint32_t generation = word;

	if (!word && loose(page))
		return true;
	if (word >> 32 == make_stamp(node, page, 0) >> 32)
		return generation >= done && generation && generation <= begun;
	return !done && !gone && word == node->first[page][i];
}

static void check_words(const struct node *node, size_t page, const uint64_t *words,
			uint32_t done, uint32_t begun, bool gone, const char *where)
{
	int i;

	for (i = 0; i < WORDS; i++)
		if (!may_be(node, page, i, words[i], done, begun, gone))
			wrong("%s: word %d of page %zu of owner %u is %#llx (owner %llu, page %llu, generation %llu); may be %u to %u%s, at first %#llx",
			      where, i, page, node->owner, (long long)words[i],
			      (long long)words[i] >> 48,
			      (long long)words[i] >> 32 & 0xffff,
			      (long long)words[i] & 0xffffffff, done, begun,
			      gone ? ", gone" : "", (long long)node->first[page][i]);
}

static void check_page(struct node *node, size_t page, const char *where)
{
	const uint32_t done = atomic_load(&node->done[page]);
	const bool gone = atomic_load(&node->gone[page]);
	uint64_t words[WORDS] = {};

	at_rest(node, page, words, node == self ? load : load_remote);
	if (vanished)
		return;
	check_words(node, page, words, done, atomic_load(&node->begun[page]), gone, where);
	atomic_fetch_add(&all->operations, 1);
}

/* What a child has: of its parent's as it was at fork(), and nothing newer. */
static void look_first(void)
{
	const struct node *parent = self->parent;
	uint64_t words[WORDS];
	size_t page;
	int i;

	for (page = 0; page < DIRECT; page++) {
		at_rest(self, page, words, load);
		for (i = 0; parent && i < WORDS; i++)
			if (!may_be(parent, page, i, words[i], self->low[page],
				    self->high[page], false))
				wrong("after fork(): word %d of page %zu is %#llx; of owner %u may be %u to %u, at first %#llx",
				      i, page, (long long)words[i], parent->owner,
				      self->low[page], self->high[page],
				      (long long)parent->first[page][i]);
		memcpy(self->first[page], words, sizeof(words));
	}
	atomic_store(&self->ready, true);
}

#endif /* _STAMPS_H */
