// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a command between the two marks that linux/guest/system.c records between: it
 * begins before the command is executed and ends when it has ended.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status;
	pid_t child;

	if (argc < 2)
		return 2;
	child = fork();
	if (child < 0) {
		perror("fork");
		return 126;
	}
	if (!child) {
		asm volatile("nopl 0x07a61ab3(%%rax)" ::: "memory");
		execvp(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	if (waitpid(child, &status, 0) != child) {
		perror("waitpid");
		return 126;
	}
	asm volatile("nopl 0x07a61ab4(%%rax)" ::: "memory");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
