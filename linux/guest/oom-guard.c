// SPDX-License-Identifier: GPL-2.0
/*
 * Sees to it that a guest which runs out of memory kills something. A program that
 * has used up all memory soon needs a page of its own code again, which was
 * reclaimed. Reading it from the host allocates with GFP_NOFS (net/9p/client.c),
 * and the kernel tries such an allocation for ever without the OOM killer: it
 * counts on others who allocate with GFP_KERNEL (out_of_memory()). In a guest of
 * one program there are none. This one does so once a second, by forking.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	FILE *score = fopen("/proc/self/oom_score_adj", "w");

	if (!score || fputs("-1000", score) == EOF || fclose(score)) {
		perror("oom-guard: /proc/self/oom_score_adj");
		return 1;
	}
	/* It must not need pages from the host itself. */
	if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
		perror("oom-guard: mlockall");
		return 1;
	}
	for (;;) {
		const pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (pid > 0)
			waitpid(pid, NULL, 0);
		sleep(1);
	}
}
