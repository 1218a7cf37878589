// SPDX-License-Identifier: GPL-2.0
/*
 * Where contigmfs put a running program's memory, and which pages the program then
 * uses: for the FBMM paper's Table 6.
 *
 * Starts the program, stops it after so much processor time, copies its
 * /proc/PID/maps and the range table to $PAGELAB_OUT, and lets it go on past a
 * mark, from which on linux/guest/pages.c notes its accesses. It is ended after the
 * second time. (The guest's clock goes on while files come from the host.)
 *
 * Usage: layout MILLISECONDS MILLISECONDS PROGRAM [ARGUMENT]...
 */
#include "../../tests/foliomap/lab.h"

#include <glob.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

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

static double spent(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t))
		fail("clock_gettime");
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

/* Let the program use so many milliseconds of processor time. */
static void run_for(pid_t pid, const char *ms)
{
	siginfo_t ended = { .si_pid = 0 };
	clockid_t clock;
	double end;

	if (clock_getcpuclockid(pid, &clock))
		fail("clock_getcpuclockid");
	end = spent(clock) + strtod(ms, NULL);
	while (spent(clock) < end) {
		usleep(10000);
		waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT);
		if (ended.si_pid)
			fail("the program ended too soon");
	}
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
	run_for(pid, argv[1]);
	kill(pid, SIGSTOP);
	if (waitpid(pid, NULL, WUNTRACED) < 0)
		fail("waitpid");
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	copy(path, "maps");
	copy(ranges.gl_pathv[0], "ranges");
	mark_begin();
	kill(pid, SIGCONT);
	run_for(pid, argv[2]);
	mark_end();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}
