/* Handles a fault in the middle of a block, and a signal sent to it. Argument: how to end. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static sigjmp_buf again;
static volatile sig_atomic_t faults, asked;
volatile long before[8], after[8];

static void on_fault(int signal)
{
	faults++;
	siglongjmp(again, signal);
}

static void on_signal(int signal)
{
	asked = signal;
}

int main(int count, char **words)
{
	volatile long *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	signal(SIGSEGV, on_fault);
	signal(SIGUSR1, on_signal);
	signal(SIGINT, on_signal);
	if (!sigsetjmp(again, 1)) {
		before[0] = 1;
		before[1] = *nowhere;
		after[0] = 1;
	}
	if (count > 1 && !strcmp(words[1], "usr1"))
		raise(SIGUSR1);
	if (count > 1 && !strcmp(words[1], "wait")) {
		puts("ready");
		fflush(stdout);
		while (!asked)
			usleep(1000);
	}
	if (count > 1 && !strcmp(words[1], "kill"))
		raise(SIGKILL);
	return 40 + (int)faults + (asked ? 1 : 0);
}
