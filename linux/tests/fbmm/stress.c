// SPDX-License-Identifier: GPL-2.0
/*
 * Threads and forked children map, write, unmap, move, protect, lock, discard and
 * share memory at random; each compares what it reads with a plain copy that it
 * keeps in shared memory, which no memory file system touches. They put pages into
 * pipes, too, also for who is left when they end: nobody may find there what
 * another process wrote.
 *
 * Usage: stress SECONDS [SEED]
 */
#include "lab.h"

#include <pthread.h>
#include <sys/uio.h>
#include <time.h>

#define SLOTS	24
#define PAGES	96	/* a mapping's size at most */
#define THREADS	3
#define HOLDS	4

/* A mapping and what each of its pages holds: a value in all its words. */
struct slot {
	char *memory;
	size_t pages;
	bool locked, readonly;
	bool pieces;		/* of several mappings: mremap() takes one */
	uint32_t value[PAGES];
};

/* A page in a pipe, and what its process wrote to it: all that may be read there. */
struct hold {
	int pipe[2];
	int slot;		/* -1 once the process has the page no more */
	size_t page;
	unsigned int nr;	/* of values; 0 if the pipe is not open, or empty */
	uint32_t value[16];
};

/* The first hold's pipe is read by the parent, when the process has ended. */
struct state {
	struct slot slots[SLOTS];
	struct hold holds[HOLDS];
};

struct worker {
	unsigned int seed;
	int depth;
	time_t until;
	struct slot *slots;
	struct hold *holds;
	unsigned long steps;
};

static uint32_t pick(struct worker *w, uint32_t below)
{
	return rand_r(&w->seed) % below;
}

static void check(struct worker *w, const struct slot *slot, size_t page,
		  const char *after)
{
	const uint32_t *words = (uint32_t *)(slot->memory + page * page_size);
	size_t i;

	for (i = 0; i < page_size / 4; i += 64) {
		if (words[i] == slot->value[page])
			continue;
		fprintf(stderr, "pid %d depth %d: page %zu of %p has %#x, not %#x, after %s\n",
			getpid(), w->depth, page, slot->memory, words[i],
			slot->value[page], after);
		_exit(1);
	}
}

static void check_slot(struct worker *w, const struct slot *slot, const char *after)
{
	size_t page;

	for (page = 0; page < slot->pages; page++)
		check(w, slot, page, after);
}

static void close_pipe(const struct hold *hold)
{
	close(hold->pipe[0]);
	close(hold->pipe[1]);
}

/* Read a page from its pipe. */
static void release(struct worker *w, struct hold *hold)
{
	uint32_t words[page_size / 4];
	unsigned int known;
	size_t i;

	if (read(hold->pipe[0], words, page_size) != (ssize_t)page_size)
		fail("a pipe");
	for (known = 0; known < hold->nr && hold->value[known] != words[0]; known++)
		;
	for (i = 0; i < page_size / 4; i += 64) {
		if (known < hold->nr && words[i] == words[0])
			continue;
		fprintf(stderr, "pid %d depth %d: a pipe has %#x and %#x, of %u values from %#x\n",
			getpid(), w->depth, words[0], words[i], hold->nr,
			hold->value[0]);
		_exit(1);
	}
	hold->nr = 0;
	close_pipe(hold);
}

static void keep(struct worker *w, struct hold *hold, int slot, size_t page)
{
	struct iovec part = {
		.iov_base = w->slots[slot].memory + page * page_size,
		.iov_len = page_size,
	};

	if (vmsplice(hold->pipe[1], &part, 1, 0) != (ssize_t)page_size)
		fail("vmsplice");
	hold->slot = slot;
	hold->page = page;
	hold->value[0] = w->slots[slot].value[page];
	hold->nr = 1;
}

static void hold_page(struct worker *w, int slot)
{
	struct hold *hold = &w->holds[1 + pick(w, HOLDS - 1)];

	if (hold->nr) {
		release(w, hold);
		return;
	}
	if (pipe(hold->pipe))
		fail("pipe");
	keep(w, hold, slot, pick(w, w->slots[slot].pages));
}

/* Pages that a process gives back stay in the pipes as they are. */
static void detach(struct worker *w, const struct slot *slot, size_t from, size_t nr)
{
	struct hold *hold;

	for (hold = w->holds; hold < w->holds + HOLDS; hold++)
		if (hold->slot == slot - w->slots && hold->page - from < nr)
			hold->slot = -1;
}

static void put(struct worker *w, struct slot *slot, size_t page)
{
	uint32_t *words = (uint32_t *)(slot->memory + page * page_size);
	const uint32_t value = pick(w, 1u << 30) + 1;
	struct hold *hold;
	size_t i;

	for (hold = w->holds; hold < w->holds + HOLDS; hold++) {
		if (!hold->nr || hold->slot != slot - w->slots || hold->page != page)
			continue;
		if (hold->nr < sizeof(hold->value) / sizeof(*hold->value))
			hold->value[hold->nr++] = value;
		else if (hold > w->holds)
			release(w, hold);
		else
			return;
	}
	slot->value[page] = value;
	for (i = 0; i < page_size / 4; i++)
		words[i] = value;
}

static void make(struct worker *w, struct slot *slot)
{
	slot->pages = 1 + pick(w, PAGES);
	slot->memory = map_private(slot->pages * page_size, pick(w, 4) ? 0 : MAP_POPULATE);
	slot->locked = slot->readonly = slot->pieces = false;
	memset(slot->value, 0, sizeof(slot->value));
}

static void drop(struct worker *w, struct slot *slot)
{
	const size_t from = pick(w, slot->pages);

	check_slot(w, slot, "all");
	detach(w, slot, 0, slot->pages);
	/* In two parts, the upper first or all at once */
	if (from)
		munmap(slot->memory + from * page_size, (slot->pages - from) * page_size);
	munmap(slot->memory, (from ? from : slot->pages) * page_size);
	slot->memory = NULL;
}

static void discard(struct worker *w, struct slot *slot)
{
	const size_t from = pick(w, slot->pages);
	const size_t nr = 1 + pick(w, slot->pages - from);

	if (madvise(slot->memory + from * page_size, nr * page_size, MADV_DONTNEED)) {
		if (!slot->locked)
			fail("MADV_DONTNEED");
		return;
	}
	detach(w, slot, from, nr);
	memset(slot->value + from, 0, nr * sizeof(*slot->value));
	check_slot(w, slot, "MADV_DONTNEED");
}

/* Another mapping in place of a part. */
static void replace(struct worker *w, struct slot *slot)
{
	const size_t from = pick(w, slot->pages);
	const size_t nr = 1 + pick(w, slot->pages - from);
	char *place = slot->memory + from * page_size;

	if (slot->locked || slot->readonly)
		return;
	if (mmap(place, nr * page_size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != place)
		fail("MAP_FIXED");
	slot->pieces = true;
	detach(w, slot, from, nr);
	memset(slot->value + from, 0, nr * sizeof(*slot->value));
	check_slot(w, slot, "MAP_FIXED");
}

static void resize(struct worker *w, struct slot *slot)
{
	const size_t pages = 1 + pick(w, PAGES);
	char *place, *memory;

	if (slot->pieces)
		return;
	place = map_private(PAGES * page_size, 0);
	if (pick(w, 2))
		memory = mremap(slot->memory, slot->pages * page_size, pages * page_size,
				MREMAP_MAYMOVE | MREMAP_FIXED, place);
	else
		memory = mremap(slot->memory, slot->pages * page_size, pages * page_size,
				MREMAP_MAYMOVE);
	if (memory == MAP_FAILED)
		fail("mremap");
	if (memory == place)
		munmap(place + pages * page_size, (PAGES - pages) * page_size);
	else
		munmap(place, PAGES * page_size);
	if (pages < slot->pages)
		detach(w, slot, pages, slot->pages - pages);
	else
		memset(slot->value + slot->pages, 0,
		       (pages - slot->pages) * sizeof(*slot->value));
	slot->memory = memory;
	slot->pages = pages;
	check_slot(w, slot, "mremap");
}

static void protect(struct worker *w, struct slot *slot)
{
	const size_t size = slot->pages * page_size;

	(void)w;
	if (slot->readonly)
		mprotect(slot->memory, size, PROT_READ | PROT_WRITE);
	else
		mprotect(slot->memory, size, PROT_READ);
	slot->readonly = !slot->readonly;
}

static void lock(struct slot *slot)
{
	const size_t size = slot->pages * page_size;

	if (slot->locked)
		munlock(slot->memory, size);
	else if (mlock(slot->memory, size))
		return;
	slot->locked = !slot->locked;
}

static struct state *new_state(void)
{
	struct state *state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (state == MAP_FAILED)
		fail("mmap");
	return state;
}

static void run(struct worker *w);

/* What a child begins with: the memory is the parent's, the pipes are not. */
static void inherit(struct worker *w, struct state *state)
{
	int i;

	if (w->depth)
		close_pipe(&w->holds[0]);
	for (i = 1; i < HOLDS; i++) {
		if (state->holds[i].nr)
			close_pipe(&state->holds[i]);
		state->holds[i].nr = 0;
	}
	for (i = 0; i < SLOTS; i++)
		state->slots[i].locked = false;
	w->slots = state->slots;
	w->holds = state->holds;
	w->depth++;
	w->seed = w->seed * 31 + getpid();
	w->until = time(NULL) + 1;
}

/* A child has all of its parent's memory and goes on with it. */
static void spawn(struct worker *w)
{
	struct state *state;
	struct slot *copy;
	struct hold *left;
	pid_t pid;
	int status, i;

	if (w->depth > 2)
		return;
	/* Before fork(): the parent goes on writing. */
	state = new_state();
	copy = state->slots;
	left = state->holds;
	memcpy(copy, w->slots, sizeof(state->slots));
	memcpy(left, w->holds, sizeof(state->holds));
	left->nr = 0;
	if (pipe(left->pipe))
		fail("pipe");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		inherit(w, state);
		/* What the parent writes meanwhile must not be seen. */
		if (pick(w, 2))
			usleep(pick(w, 20000));
		for (i = 0; i < SLOTS; i++)
			if (copy[i].memory)
				check_slot(w, &copy[i], "fork");
		i = pick(w, SLOTS);
		if (copy[i].memory)
			keep(w, left, i, pick(w, copy[i].pages));
		run(w);
		_exit(0);
	}
	if (pick(w, 2)) {
		for (i = 0; i < 50; i++) {
			struct slot *slot = &w->slots[pick(w, SLOTS)];

			if (slot->memory && !slot->readonly)
				put(w, slot, pick(w, slot->pages));
		}
	}
	if (waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "a child ended with status %#x\n", status);
		_exit(1);
	}
	/* Where the child had the page for itself: this is not to be seen in its pipe. */
	for (i = 0; i < 50; i++) {
		struct slot *slot = &w->slots[pick(w, SLOTS)];

		if (slot->memory && !slot->readonly)
			put(w, slot, pick(w, slot->pages));
	}
	if (left->nr)
		release(w, left);
	else
		close_pipe(left);
	munmap(state, sizeof(*state));
}

static void step(struct worker *w)
{
	const int at = pick(w, SLOTS);
	struct slot *slot = &w->slots[at];
	const uint32_t what = pick(w, 100);
	int i;

	if (!slot->memory) {
		make(w, slot);
		return;
	}
	if (what < 44) {
		for (i = 0; i < 8 && !slot->readonly; i++)
			put(w, slot, pick(w, slot->pages));
		check(w, slot, pick(w, slot->pages), "a write");
	} else if (what < 52) {
		hold_page(w, at);
	} else if (what < 60) {
		check_slot(w, slot, "reading");
	} else if (what < 70) {
		drop(w, slot);
	} else if (what < 76) {
		replace(w, slot);
	} else if (what < 82) {
		discard(w, slot);
	} else if (what < 88) {
		resize(w, slot);
	} else if (what < 93) {
		protect(w, slot);
	} else if (what < 97) {
		lock(slot);
	} else {
		spawn(w);
	}
}

static void run(struct worker *w)
{
	while (time(NULL) < w->until) {
		step(w);
		w->steps++;
	}
}

static void *thread(void *arg)
{
	run(arg);
	return NULL;
}

int main(int argc, char **argv)
{
	const int seconds = argc > 1 ? atoi(argv[1]) : 10;
	const unsigned int seed = argc > 2 ? atoi(argv[2]) : time(NULL);
	struct worker workers[THREADS] = {};
	pthread_t threads[THREADS];
	unsigned long steps = 0;
	struct state *state;
	int i;

	lab_init();
	printf("# seed %u\n", seed);
	for (i = 0; i < THREADS; i++) {
		workers[i].seed = seed + i;
		workers[i].until = time(NULL) + seconds;
		state = new_state();
		workers[i].slots = state->slots;
		workers[i].holds = state->holds;
		if (pthread_create(&threads[i], NULL, thread, &workers[i]))
			fail("pthread_create");
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		steps += workers[i].steps;
	}
	test_result(true, "%lu steps in %d threads and their children", steps, THREADS);
	return test_end();
}
