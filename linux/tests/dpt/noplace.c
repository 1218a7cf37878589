// SPDX-License-Identifier: GPL-2.0
/*
 * No place for a page table: only the frame that the hash names may be used, and
 * a part of memory is. A system call must fail with ENOMEM, a fault must end the
 * process by SIGBUS, nothing else may happen, and all must be well afterwards, as
 * it is when a last search may go further.
 */
#include "lab.h"

#define PARAMETERS "/sys/module/dpt/parameters/"
#define REGIONS 24
#define TRIES 150

static void set(const char *name, const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		fail(path);
	close(fd);
}

/* A table for each region */
static int touch(void *unused)
{
	char *memory = map_private(REGIONS * REGION, MAP_NORESERVE);
	int i;

	(void)unused;
	madvise(memory, REGIONS * REGION, MADV_NOHUGEPAGE);
	for (i = 0; i < REGIONS; i++)
		memory[i * REGION] = i;
	for (i = 0; i < REGIONS; i++)
		if (memory[i * REGION] != (char)i)
			return 1;
	return 0;
}

int main(void)
{
	unsigned int no_fork = 0, no_fault = 0, fine = 0, wrong = 0, failed = 0, i;
	unsigned long before, without, far;
	size_t part;
	char *held;

	if (access(STATS, R_OK)) {
		printf("ok 1 # SKIP not with dpt=on\n");
		return KSFT_SKIP;
	}
	lab_init();
	part = proc_kb("/proc/meminfo", NULL, "MemTotal") * 128ul;
	held = map_private(part, MAP_NORESERVE);
	madvise(held, part, MADV_NOHUGEPAGE);
	for (i = 0; i < part / page_size; i++)
		held[i * page_size] = 1;
	before = tables();
	set("max_soa_step", "0");
	set("far_soa_step", "0");
	set("cpd", "0");
	for (i = 0; i < TRIES; i++) {
		pid_t pid = fork();
		int status;

		if (pid < 0) {
			no_fork += errno == ENOMEM;
			wrong += errno != ENOMEM;
			continue;
		}
		if (!pid)
			_exit(touch(NULL));
		waitpid(pid, &status, 0);
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS)
			no_fault++;
		else if (WIFEXITED(status) && !WEXITSTATUS(status))
			fine++;
		else
			wrong++;
	}
	without = counter("no_place");
	far = counter("searched_far");
	set("far_soa_step", "15");
	for (i = 0; i < TRIES / 5; i++)
		failed += in_child(touch, NULL) != 0;
	test_result(!failed && counter("no_place") == without && counter("searched_far") > far,
		    "further steps find a place instead: %u of %u failed, %lu searches",
		    failed, TRIES / 5, counter("searched_far") - far);
	set("max_soa_step", "15");
	set("cpd", "1");
	test_result(no_fork + no_fault > 0, "%u forks and %u faults failed, %u processes did not",
		    no_fork, no_fault, fine);
	test_result(!wrong, "in no other way");
	test_result(without >= no_fork + no_fault, "the kernel has counted them");
	test_result(!in_child(touch, NULL), "all is well again");
	test_result(held[part / 2 & -page_size] == 1, "what was held is held");
	munmap(held, part);
	test_result(tables() <= before + 8, "no table is left: %lu before, %lu after", before,
		    tables());
	return test_end();
}
