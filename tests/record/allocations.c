// Threads that allocate, and give back what others have allocated; a child does the same. Prints how often.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 64
#define TIMES 1000

static _Atomic(void *) slots[SLOTS];

static void *work(void *seed)
{
	unsigned long x = (unsigned long)seed;

	for (int i = 0; i < TIMES; i++) {
		x = x * 6364136223846793005ul + 1442695040888963407ul;
		size_t size = 1 + (x >> 40) % (x >> 60 ? 200 : 300000);
		void *memory = x >> 32 & 1 ? malloc(size) : calloc(1, size);

		if (x >> 33 & 1)
			memory = realloc(memory, 1 + size / 2 * (x >> 34 & 3));
		free(atomic_exchange(&slots[(x >> 50) % SLOTS], memory));
	}
	return NULL;
}

static void all(void)
{
	pthread_t threads[4];

	for (unsigned long i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	all();
	if (fork() == 0) {
		all();
		_exit(0);
	}
	int status;
	wait(&status);
	return status || printf("%d\n", 2 * 4 * TIMES) < 0;
}
