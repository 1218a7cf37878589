/* Forks children that end in different ways, and says how on its standard output. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int mark[4];

int main(void)
{
	for (int child = 0; child < 3; child++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			mark[child] = 1;
			if (child == 1)
				raise(SIGTERM);
			if (child == 2)
				raise(SIGSEGV);
			_exit(10 + child);
		}
		waitpid(pid, &status, 0);
		printf("%d\n", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
		fflush(stdout);
	}
	mark[3] = 1;
	return 5;
}
