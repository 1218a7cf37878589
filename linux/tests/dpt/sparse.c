// SPDX-License-Identifier: GPL-2.0
/*
 * So many tables, each far from the others, that their metadata tables may find no larger
 * piece of memory, and then have no room. Whatever happens must happen within seconds: the
 * memory is there, or the process ends by SIGBUS; and all must be well afterwards.
 */
#include "lab.h"

/* What a line of a metadata table is for */
#define GROUP (64 * REGION)
#define GROUPS 100000ul
#define PATIENCE 30

/* A table for each group, as long as there is memory for something else */
static int touch(volatile unsigned long *at, unsigned long groups)
{
	char *memory = map_private(groups * GROUP, MAP_NORESERVE);

	madvise(memory, groups * GROUP, MADV_NOHUGEPAGE);
	for (*at = 0; *at < groups; ++*at) {
		if (!(*at % 1024) &&
		    proc_kb("/proc/meminfo", NULL, "MemAvailable") < (64 << 10))
			break;
		memory[*at * GROUP] = 1;
	}
	return 0;
}

static int few(void *at)
{
	return touch(at, 1000);
}

int main(void)
{
	unsigned long before, seen = -1ul, line;
	volatile unsigned long *at;
	int status, idle = 0;
	pid_t pid;

	if (access(STATS, R_OK)) {
		printf("ok 1 # SKIP not with dpt=on\n");
		return KSFT_SKIP;
	}
	lab_init();
	at = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		fail("mmap");
	before = tables();
	line = counter("no_line");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid)
		_exit(touch(at, GROUPS));
	while (!waitpid(pid, &status, WNOHANG) && idle < PATIENCE) {
		idle = *at == seen ? idle + 1 : 0;
		seen = *at;
		sleep(1);
	}
	test_result(idle < PATIENCE, "something happens: %lu groups of tables", *at);
	if (idle == PATIENCE) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		return test_end();
	}
	if (WIFSIGNALED(status)) {
		test_result(WTERMSIG(status) == SIGBUS, "no signal but SIGBUS: %d",
			    WTERMSIG(status));
		test_result(counter("no_line") > line, "the kernel has counted it: %lu",
			    counter("no_line") - line);
	} else {
		test_result(!WEXITSTATUS(status), "there was room for all");
	}
	test_result(*at > 4096, "metadata tables have grown");
	test_result(!in_child(few, (void *)at), "all is well again");
	test_result(tables() <= before + 8, "no table is left: %lu before, %lu after", before,
		    tables());
	return test_end();
}
