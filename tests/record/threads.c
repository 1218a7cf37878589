/*
 * Threads that map, fill, hand over and unmap memory. Every byte stored to handed-over memory
 * lies inside the mapping that was made for it: the test checks that in the recorded order too.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define THREADS 4
#define ROUNDS 60
#define BYTES (16 * 4096)

static _Atomic(char *) slot;

static void *make(void *unused)
{
	for (int round = 0; round < ROUNDS; round++) {
		char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		char *empty = NULL;

		if (memory == MAP_FAILED)
			abort();
		for (int at = 0; at < BYTES; at += 4096)
			memory[at] = 1;
		while (!atomic_compare_exchange_weak(&slot, &empty, memory)) {
			empty = NULL;
			sched_yield();
		}
	}
	return unused;
}

static void *use(void *unused)
{
	for (int round = 0; round < ROUNDS; round++) {
		char *memory;

		while (!(memory = atomic_exchange(&slot, NULL)))
			sched_yield();
		for (int at = 0; at < BYTES; at += 4096)
			memory[at + 8] += memory[at];
		munmap(memory, BYTES);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS];

	for (int at = 0; at < THREADS; at++)
		pthread_create(&threads[at], NULL, at % 2 ? use : make, NULL);
	for (int at = 0; at < THREADS; at++)
		pthread_join(threads[at], NULL);
	puts("done");
	return 0;
}
