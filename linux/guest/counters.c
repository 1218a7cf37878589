// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a command, and leaves the kernel's counters from before and after it in FOLDER: lines of
 * a name and a number, from /proc/vmstat, of khugepaged and of each folio size. The file "command"
 * has its exit status (124 if it was stopped after SECONDS), and the faults of it and of all that
 * it waited for, from its exec on; under bwmfs also the pages that it got of each node, where the
 * first is the first of a round. "vdso" are the bytes of the vdso and its data.
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
#define KHUGEPAGED	"/sys/kernel/mm/transparent_hugepage/khugepaged/"
#define BWMFS		"/sys/fs/bwmfs/*/"
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
	copy(file, KHUGEPAGED "pages_collapsed", "khugepaged/pages_collapsed ");
	copy(file, KHUGEPAGED "full_scans", "khugepaged/full_scans ");
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

/* A file of the first mount of bwmfs, or -1 if there is none. */
static int of_bwmfs(const char *pattern, int flags)
{
	glob_t found;
	int fd = -1;

	if (!glob(pattern, 0, NULL, &found)) {
		fd = open(found.gl_pathv[0], flags);
		globfree(&found);
	}
	return fd;
}

static void get(int fd, char *text, size_t size)
{
	ssize_t length = fd < 0 ? 0 : pread(fd, text, size - 1, 0);

	text[length > 0 ? length : 0] = 0;
}

/* Lines of the pages that nodes gave in between: "3:2" and "6:4" are 3 and 2. */
static void placed(FILE *file, char *before, char *after)
{
	char *then, *now, *rest[2];
	int node;

	then = strtok_r(before, ":\n", &rest[0]);
	now = strtok_r(after, ":\n", &rest[1]);
	for (node = 0; then && now; node++) {
		fprintf(file, "placed/%d %ld\n", node, atol(now) - atol(then));
		then = strtok_r(NULL, ":\n", &rest[0]);
		now = strtok_r(NULL, ":\n", &rest[1]);
	}
}

static unsigned long vdso(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, bytes = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if ((strstr(line, "[vdso]") || strstr(line, "[vvar")) &&
		    sscanf(line, "%lx-%lx", &start, &end) == 2)
			bytes += end - start;
	if (maps)
		fclose(maps);
	return bytes;
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
	char weights[64], then[128], now[128];
	int weights_fd, placed_fd, status;
	FILE *file;

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
	weights_fd = of_bwmfs(BWMFS "weights", O_RDWR | O_CLOEXEC);
	placed_fd = of_bwmfs(BWMFS "placed", O_RDONLY | O_CLOEXEC);
	get(weights_fd, weights, sizeof(weights));
	/* Weights that are written begin a round. From here on this program takes no pages. */
	if (weights_fd >= 0 && pwrite(weights_fd, weights, strlen(weights), 0) < 0) {
		perror("weights");
		return 126;
	}
	get(placed_fd, then, sizeof(then));
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
	get(placed_fd, now, sizeof(now));
	alarm(0);
	getrusage(RUSAGE_CHILDREN, &used);
	counters("after");
	guard(SIGCONT);
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	file = leave("command");
	fprintf(file, "status %d\nvdso %lu\nminor %ld\nmajor %ld\n", late ? STOPPED : status, vdso(),
		used.ru_minflt - before.ru_minflt - forked->ru_minflt,
		used.ru_majflt - before.ru_majflt - forked->ru_majflt);
	placed(file, then, now);
	fclose(file);
	return 0;
}
