// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a command, and leaves the kernel's counters from before and after it in FOLDER: lines of
 * a name and a number, from /proc/vmstat and of each folio size. The file "command" has its exit
 * status (124 if it was stopped after SECONDS), and the faults of it and of all that it waited
 * for, from its exec on.
 *
 * Usage: counters FOLDER SECONDS COMMAND ARGS
 */
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATISTICS	"/sys/kernel/mm/transparent_hugepage/hugepages-*/stats/*"
#define STOPPED		124

static const char *folder;
static pid_t child;
static volatile sig_atomic_t late;

static FILE *leave(const char *name)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	if (!file) {
		perror(path);
		exit(126);
	}
	return file;
}

static void copy(FILE *to, const char *path, const char *name)
{
	FILE *from = fopen(path, "r");
	char line[256];

	if (!from)
		return;
	while (fgets(line, sizeof(line), from))
		fprintf(to, "%s%s", name, line);
	fclose(from);
}

static void counters(const char *to)
{
	FILE *file = leave(to);
	char name[512];
	glob_t sizes;
	size_t i;

	copy(file, "/proc/vmstat", "");
	if (!glob(STATISTICS, 0, NULL, &sizes)) {
		for (i = 0; i < sizes.gl_pathc; i++) {
			snprintf(name, sizeof(name), "%s ",
				 strstr(sizes.gl_pathv[i], "hugepages-"));
			copy(file, sizes.gl_pathv[i], name);
		}
		globfree(&sizes);
	}
	fclose(file);
}

/* The laboratory's own process forks once a second: none of the program's. */
static void guard(int signal)
{
	char comm[64], path[300];
	struct dirent *entry;
	DIR *proc = opendir("/proc");

	while (proc && (entry = readdir(proc))) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(comm, sizeof(comm), file) && !strcmp(comm, "oom-guard\n"))
			kill(atoi(entry->d_name), signal);
		fclose(file);
	}
	if (proc)
		closedir(proc);
}

static void stop(int signal)
{
	(void)signal;
	late = 1;
	kill(-child, SIGKILL);
}

int main(int argc, char **argv)
{
	struct rusage before, used, *forked;
	FILE *file;
	int status;

	if (argc < 4)
		return 2;
	folder = argv[1];
	forked = mmap(NULL, sizeof(*forked), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (forked == MAP_FAILED) {
		perror("counters");
		return 126;
	}
	guard(SIGSTOP);
	counters("before");
	/* A shell that was this process may have had children. */
	getrusage(RUSAGE_CHILDREN, &before);
	signal(SIGALRM, stop);
	/* Nothing of this program is copied, or kept, on behalf of the command. */
	child = vfork();
	if (!child) {
		setpgid(0, 0);
		getrusage(RUSAGE_SELF, forked);
		asm volatile("nopl 0x07a61ab1(%%rax)" ::: "memory");
		execvp(argv[3], argv + 3);
		_exit(127);
	}
	alarm(atoi(argv[2]));
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("counters");
		return 126;
	}
	asm volatile("nopl 0x07a61ab2(%%rax)" ::: "memory");
	alarm(0);
	getrusage(RUSAGE_CHILDREN, &used);
	counters("after");
	guard(SIGCONT);
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	file = leave("command");
	fprintf(file, "status %d\nminor %ld\nmajor %ld\n", late ? STOPPED : status,
		used.ru_minflt - before.ru_minflt - forked->ru_minflt,
		used.ru_majflt - before.ru_majflt - forked->ru_majflt);
	fclose(file);
	return 0;
}
