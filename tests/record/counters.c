// Threads, fork and signals at once, with output that does not depend on timing: each of four
// threads sorts numbers of its own with glibc's qsort, while a handler counts SIGUSR1 that whoever
// likes may send; each round a child is forked that sums what the parent has.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, NUMBERS = 8000, ROUNDS = 3 };

static uint64_t numbers[THREADS][NUMBERS];
static volatile sig_atomic_t signals;

static void on_signal(int signal)
{
	(void)signal;
	signals++;
}

static int by_value(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static void *work(void *argument)
{
	uint64_t *mine = argument;
	uint64_t state = (uint64_t)((char *)mine - (char *)numbers) + 1;

	for (int i = 0; i < NUMBERS; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		mine[i] = state >> 16;
	}
	qsort(mine, NUMBERS, sizeof(*mine), by_value);
	return NULL;
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	pthread_t threads[THREADS];

	sigaction(SIGUSR1, &action, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t sum = 0;
		int status;
		pid_t child;

		for (int i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, work, numbers[i]);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		child = fork();
		for (int i = 0; i < THREADS; i++)
			for (int j = 0; j < NUMBERS; j++)
				sum = sum * 31 + numbers[i][j];
		if (!child)
			_exit(sum % 251);
		while (waitpid(child, &status, 0) < 0)
			;
		printf("%016lx %d %d\n", sum, WIFEXITED(status), WEXITSTATUS(status));
		memset(numbers, 0, sizeof(numbers));
	}
	fflush(stdout);
	return 7;
}
