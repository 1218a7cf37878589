/* Changes its user, then starts programs: what a server or su does. The last one says that it was reached. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int start(char *program, char *word)
{
	int status;

	if (fork() == 0) {
		execl(program, program, word, NULL);
		_exit(99);
	}
	wait(&status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	unsigned i, sum = 0;
	volatile char buffer[4096];

	if (!strcmp(word, "end")) {
		/* Something that is seen in a recording. */
		for (i = 0; i < 100000; i++)
			sum += buffer[i % sizeof(buffer)];
		return 17 + (sum & 0);
	}
	if (!strcmp(word, "again"))
		return start(argv[0], "end");
	if (!strcmp(word, "keepcaps"))
		prctl(PR_SET_KEEPCAPS, 1);
	if (!strcmp(word, "closing"))
		syscall(SYS_close_range, 3, ~0u, 0);
	if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return 97;
	if (!strcmp(word, "closed"))
		syscall(SYS_close_range, 3, ~0u, 0);
	return start(argv[0], "again");
}
