// SPDX-License-Identifier: GPL-2.0
/*
 * Threads and forked children map, write, unmap, move, protect, lock, discard and
 * share memory at random; each compares what it reads with a plain copy that it
 * keeps in shared memory, which no memory file system touches.
 *
 * Usage: stress SECONDS [SEED]
 */
#include "lab.h"

#include <pthread.h>
#include <time.h>

#define SLOTS	24
#define PAGES	96	/* a mapping's size at most */
#define THREADS	3

/* A mapping and what each of its pages holds: a value in all its words. */
struct slot {
	char *memory;
	size_t pages;
	bool locked, readonly;
	uint32_t value[PAGES];
};

struct worker {
	unsigned int seed;
	int depth;
	time_t until;
	struct slot *slots;
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

static void put(struct worker *w, struct slot *slot, size_t page)
{
	uint32_t *words = (uint32_t *)(slot->memory + page * page_size);
	const uint32_t value = pick(w, 1u << 30) + 1;
	size_t i;

	slot->value[page] = value;
	for (i = 0; i < page_size / 4; i++)
		words[i] = value;
}

static void make(struct worker *w, struct slot *slot)
{
	slot->pages = 1 + pick(w, PAGES);
	slot->memory = map_private(slot->pages * page_size, pick(w, 4) ? 0 : MAP_POPULATE);
	slot->locked = slot->readonly = false;
	memset(slot->value, 0, sizeof(slot->value));
}

static void drop(struct worker *w, struct slot *slot)
{
	const size_t from = pick(w, slot->pages);

	check_slot(w, slot, "all");
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
	memset(slot->value + from, 0, nr * sizeof(*slot->value));
	check_slot(w, slot, "MADV_DONTNEED");
}

static void resize(struct worker *w, struct slot *slot)
{
	const size_t pages = 1 + pick(w, PAGES);
	char *place = map_private(PAGES * page_size, 0), *memory;

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
	if (pages > slot->pages)
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

static void run(struct worker *w);

/* A child has all of its parent's memory and goes on with it. */
static void spawn(struct worker *w)
{
	struct slot *copy;
	pid_t pid;
	int status, i;

	if (w->depth > 2)
		return;
	/* Before fork(): the parent goes on writing. */
	copy = mmap(NULL, SLOTS * sizeof(*copy), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		fail("mmap");
	memcpy(copy, w->slots, SLOTS * sizeof(*copy));
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		w->slots = copy;
		for (i = 0; i < SLOTS; i++)
			copy[i].locked = false;
		w->depth++;
		w->seed = w->seed * 31 + getpid();
		w->until = time(NULL) + 1;
		/* What the parent writes meanwhile must not be seen. */
		if (pick(w, 2))
			usleep(pick(w, 20000));
		for (i = 0; i < SLOTS; i++)
			if (copy[i].memory)
				check_slot(w, &copy[i], "fork");
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
	munmap(copy, SLOTS * sizeof(*copy));
}

static void step(struct worker *w)
{
	struct slot *slot = &w->slots[pick(w, SLOTS)];
	const uint32_t what = pick(w, 100);
	int i;

	if (!slot->memory) {
		make(w, slot);
		return;
	}
	if (what < 50) {
		for (i = 0; i < 8 && !slot->readonly; i++)
			put(w, slot, pick(w, slot->pages));
		check(w, slot, pick(w, slot->pages), "a write");
	} else if (what < 60) {
		check_slot(w, slot, "reading");
	} else if (what < 70) {
		drop(w, slot);
	} else if (what < 80) {
		discard(w, slot);
	} else if (what < 87) {
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
	int i;

	lab_init();
	printf("# seed %u\n", seed);
	for (i = 0; i < THREADS; i++) {
		workers[i].seed = seed + i;
		workers[i].until = time(NULL) + seconds;
		workers[i].slots = mmap(NULL, SLOTS * sizeof(struct slot),
					PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (workers[i].slots == MAP_FAILED)
			fail("mmap");
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
