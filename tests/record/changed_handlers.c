/* A thread changes a signal's action between a function and SIG_IGN, another raises it. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int stop, caught;

static void handler(int number) { caught += number == SIGUSR1; }

static void *raiser(void *with)
{
	for (int i = 0; i < 20000 || !caught; i++)
		raise(SIGUSR1);
	stop = 1;
	return with;
}

int main(void)
{
	pthread_t thread;

	signal(SIGUSR1, SIG_IGN);
	pthread_create(&thread, 0, raiser, 0);
	while (!stop) {
		signal(SIGUSR1, handler);
		signal(SIGUSR1, SIG_IGN);
	}
	pthread_join(thread, 0);
	puts(caught ? "caught some" : "caught none");
	return 0;
}
