// SPDX-License-Identifier: GPL-2.0
/*
 * Two processes, each on a CPU of its own, do the same at the same time: fork(),
 * munmap(), or write faults that copy. The memory of both is the same folios, or
 * each has folios of its own; a third process maps all of it, so that nothing is freed.
 *
 * Both do it between two marks, one after the other: what the recording of two CPUs
 * that take turns has between them are two threads, which a simulator then runs at
 * the same time (docs/linux.md). Nothing is timed here.
 *
 * Prints a JSON object a line; "pages" are those of both.
 *
 * Usage: contended MEGABYTES ROUNDS ORDER...
 */
#include "../../tests/foliomap/lab.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

enum what { FORK, MUNMAP, WRITE, WRITE_SCATTERED, OPERATIONS };

static const char *const names[OPERATIONS][2] = {
	{ "fork_apart", "fork_shared" },
	{ "munmap_apart", "munmap_shared" },
	{ "write_apart", "write_shared" },
	{ "write_scattered_apart", "write_scattered_shared" },
};

/* Whose turn it is: both are there, the second one's, both are done, and that is marked. */
enum turn { NOBODY, SECOND_IS_THERE, SECONDS_TURN, DONE, MARKED };

/* So many pages are written: in order, or each process goes by a prime of its own. */
#define WRITTEN	32
static const size_t primes[] = { 11, 13 };

static volatile int *turn;

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

/* PAUSE has the emulator go on with the other CPU. */
static void await(int which)
{
	while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != which)
		__builtin_ia32_pause();
}

static void set(int which)
{
	__atomic_store_n(turn, which, __ATOMIC_RELEASE);
}

static pid_t operate(int number, enum what what, char *memory, size_t size)
{
	const size_t step = what == WRITE_SCATTERED ? primes[number] : 1;
	pid_t child = 0;
	size_t page;

	switch (what) {
	case FORK:
		child = fork();
		if (child < 0)
			fail("fork");
		if (!child) {
			pause();
			_exit(0);
		}
		break;
	case MUNMAP:
		munmap(memory, size);
		break;
	default:
		for (page = 0; page < WRITTEN; page++)
			((volatile char *)memory)[page * step % WRITTEN * page_size] = 2;
	}
	return child;
}

/* Nothing else runs on the CPU meanwhile, and the child not before it is waited for. */
static void alone(void)
{
	const struct sched_param first = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first))
		fail("sched_setscheduler");
}

static void worker(int number, enum what what, char *memory, size_t size, int go)
{
	pid_t child;
	char c;

	if (read(go, &c, 1) != 0)
		_exit(1);
	alone();
	if (number) {
		set(SECOND_IS_THERE);
		await(SECONDS_TURN);
		child = operate(number, what, memory, size);
		set(DONE);
		await(MARKED);
	} else {
		await(SECOND_IS_THERE);
		mark_begin();
		child = operate(number, what, memory, size);
		set(SECONDS_TURN);
		await(DONE);
		mark_end();
		set(MARKED);
	}
	if (child) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	_exit(0);
}

static void run(enum what what, bool shared, size_t size, unsigned int order)
{
	char *const memory[] = { alloc_folios(size, order), alloc_folios(size, order) };
	int go[2], number, status;

	if (!memory[0] || !memory[1]) {
		fprintf(stderr, "no memory in folios of order %u\n", order);
		exit(1);
	}
	if (pipe(go))
		fail("pipe");
	set(NOBODY);
	for (number = 0; number < 2; number++) {
		const int own = shared ? 0 : number;
		pid_t pid;

		pin(number);
		pid = fork();
		if (pid < 0)
			fail("fork");
		if (!pid) {
			close(go[1]);
			munmap(memory[!own], size);
			worker(number, what, memory[own], size, go[0]);
		}
	}
	close(go[1]);
	for (number = 0; number < 2; number++)
		if (wait(&status) < 0 || status)
			fail("a worker");
	close(go[0]);
	printf("{\"bench\": \"%s\", \"folio_kb\": %zu, \"pages\": %zu}\n",
	       names[what][shared], page_size << order >> 10,
	       2 * (what < WRITE ? size / page_size : WRITTEN));
	fflush(stdout);
	munmap(memory[0], size);
	munmap(memory[1], size);
}

int main(int argc, char **argv)
{
	const size_t size = (argc > 1 ? strtoul(argv[1], NULL, 0) : 2) << 20;
	const int rounds = argc > 2 ? atoi(argv[2]) : 3;
	int at, round, what;

	lab_init();
	turn = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (turn == MAP_FAILED)
		fail("mmap");
	for (at = 3; at < argc; at++)
		for (round = 0; round < rounds; round++)
			for (what = 0; what < OPERATIONS; what++) {
				run(what, false, size, atoi(argv[at]));
				run(what, true, size, atoi(argv[at]));
			}
	return 0;
}
