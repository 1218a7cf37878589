// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a command, and leaves the kernel's counters from before and after it in
 * $PAGELAB_OUT: lines of a name and a number, from /proc/vmstat and of each folio size,
 * and the faults of the command and of all that it waited for, from its exec on.
 *
 * Usage: counters COMMAND ARGS
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

static FILE *leave(const char *name)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", getenv("PAGELAB_OUT"), name);
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

int main(int argc, char **argv)
{
	struct rusage used, *forked;
	FILE *faults;
	int status;
	pid_t child;

	if (argc < 2 || !getenv("PAGELAB_OUT"))
		return 2;
	forked = mmap(NULL, sizeof(*forked), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (forked == MAP_FAILED) {
		perror("counters");
		return 126;
	}
	guard(SIGSTOP);
	counters("before");
	/* Nothing of this program is copied, or kept, on behalf of the command. */
	child = vfork();
	if (!child) {
		getrusage(RUSAGE_SELF, forked);
		asm volatile("nopl 0x07a61ab1(%%rax)" ::: "memory");
		execvp(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("counters");
		return 126;
	}
	asm volatile("nopl 0x07a61ab2(%%rax)" ::: "memory");
	getrusage(RUSAGE_CHILDREN, &used);
	counters("after");
	guard(SIGCONT);
	faults = leave("faults");
	fprintf(faults, "minor %ld\nmajor %ld\n", used.ru_minflt - forked->ru_minflt,
		used.ru_majflt - forked->ru_majflt);
	fclose(faults);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
