// SPDX-License-Identifier: GPL-2.0
/*
 * Where contigmfs put a running program's memory, and which pages the program then
 * uses: for the FBMM paper's Table 6.
 *
 * Starts the program, stops it after a time, copies its /proc/PID/maps and the
 * range table to $PAGELAB_OUT, and lets it go on past a mark, from which on
 * linux/guest/pages.c notes its accesses. It is ended after as long again.
 *
 * Usage: layout MILLISECONDS MILLISECONDS PROGRAM [ARGUMENT]...
 */
#include "../../tests/foliomap/lab.h"

#include <glob.h>
#include <signal.h>
#include <sys/wait.h>

static void copy(const char *from, const char *to)
{
	char buffer[65536], path[4096];
	const char *out = getenv("PAGELAB_OUT");
	ssize_t n;
	int in, fd;

	snprintf(path, sizeof(path), "%s/%s", out ? out : ".", to);
	in = open(from, O_RDONLY);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (in < 0 || fd < 0)
		fail(in < 0 ? from : path);
	while ((n = read(in, buffer, sizeof(buffer))) > 0)
		if (write(fd, buffer, n) != n)
			fail(path);
	close(in);
	close(fd);
}

int main(int argc, char **argv)
{
	glob_t ranges;
	char path[64];
	pid_t pid;

	if (argc < 4) {
		fprintf(stderr, "usage: layout MILLISECONDS MILLISECONDS PROGRAM [ARGUMENT]...\n");
		return 2;
	}
	if (glob("/sys/kernel/debug/contigmfs/*/ranges", 0, NULL, &ranges))
		fail("contigmfs's range table");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execvp(argv[3], argv + 3);
		fail(argv[3]);
	}
	usleep(1000 * strtoul(argv[1], NULL, 0));
	kill(pid, SIGSTOP);
	if (waitpid(pid, NULL, WUNTRACED) < 0 || kill(pid, 0))
		fail("the program ended too soon");
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	copy(path, "maps");
	copy(ranges.gl_pathv[0], "ranges");
	mark_begin();
	kill(pid, SIGCONT);
	usleep(1000 * strtoul(argv[2], NULL, 0));
	mark_end();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}
