// SPDX-License-Identifier: GPL-2.0
/*
 * A child has read parts of memory that its parent then discards, and locks all of it.
 * What is mapped for reading becomes writable page by page, and the rest is not looked
 * at again for each: it takes about as long as locking what was never read.
 *
 * Time is instructions here: the guest's clock counts them.
 */
#include "lab.h"

#include <sched.h>
#include <time.h>

#define SIZE ((size_t)32 << 20)
/* Twice what a read maps around it, so that there is as much between. */
#define STEP ((size_t)128 << 10)

static char *memory;

static struct shared {
	volatile int turn;
	uint64_t taken;
} *shared;

static uint64_t now(void)
{
	struct timespec time;

	if (clock_gettime(CLOCK_MONOTONIC, &time))
		fail("clock_gettime");
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void take_turn(int turn)
{
	while (shared->turn != turn)
		sched_yield();
}

static int lock_all(size_t step)
{
	uint64_t before;
	size_t at;

	for (at = 0; step && at < SIZE; at += step)
		*(volatile char *)(memory + at);
	shared->turn = 1;
	take_turn(2);
	before = now();
	if (mlock(memory, SIZE))
		return 1;
	shared->taken = now() - before;
	return !filled(memory, SIZE, 1);
}

/* Instructions to lock what was read in such steps, or with 0 not at all. */
static uint64_t locking(size_t step)
{
	int status;
	pid_t pid;

	fill(memory, SIZE, 1);
	shared->turn = 0;
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		status = lock_all(step);
		shared->turn = 1;
		_exit(status);
	}
	take_turn(1);
	if (madvise(memory, SIZE, MADV_DONTNEED))
		fail("madvise");
	shared->turn = 2;
	if (waitpid(pid, &status, 0) != pid || status)
		fail("child");
	return shared->taken;
}

int main(void)
{
	uint64_t unread, read;

	lab_init();
	shared = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("mmap");
	memory = map_private(SIZE, 0);
	madvise(memory, SIZE, MADV_NOHUGEPAGE);
	unread = locking(0);
	read = locking(STEP);
	test_result(read < 2 * unread,
		    "to lock what was read in parts: %lu thousand; what was not: %lu thousand",
		    (unsigned long)(read / 1000), (unsigned long)(unread / 1000));
	return test_end();
}
