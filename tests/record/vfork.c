/* Children that share memory until they end or exec: prints what the parent sees of them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK (1 << 16)
#define MUCH (1 << 20)

extern char **environ;

static char stacks[2][STACK] __attribute__((aligned(64)));

/* Run in a child that shares everything but descriptors and handlers. */
static int run_on(char *stack, int (*what)(void *), void *with)
{
	int status;
	pid_t child = clone(what, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, with);

	waitpid(child, &status, 0);
	return status;
}

static int run(int (*what)(void *), void *with) { return run_on(stacks[0], what, with); }

static int is_killed(void *with)
{
	*(volatile int *)with = 5;
	return raise(SIGKILL);
}

static int writes_much(void *with)
{
	memset(with, 9, MUCH);
	execl("/bin/true", "true", (char *)0);
	return 1;
}

/* The kernel writes, across a page's end. */
static int reads(void *with)
{
	int file = open("/proc/self/exe", O_RDONLY);

	return read(file, with, 4096) != 4096;
}

static int forks(void *with)
{
	volatile int *seen = with;
	int status;
	pid_t child;

	seen[0] = 1;
	child = fork();
	if (!child) {
		seen[1] = 2;
		_exit(seen[0] + seen[1]);
	}
	waitpid(child, &status, 0);
	seen[2] = WEXITSTATUS(status);
	return 0;
}

static int nests(void *with)
{
	*(volatile int *)with = WEXITSTATUS(run_on(stacks[1], reads, with + 4096)) + 6;
	return 0;
}

/* Fails, and then writes. */
static int fails(void *with)
{
	execl("/nowhere", "nowhere", (char *)0);
	*(volatile int *)with = errno;
	return 0;
}

static atomic_long counted;
static atomic_int stop;

/* Counts beside a number that children change. */
static struct {
	volatile int child;
	volatile long thread;
} beside;

static void *count(void *with)
{
	while (!stop) {
		beside.thread++;
		counted++;
	}
	return with;
}

static int adds(void *with)
{
	(void)with;
	usleep(1000);
	beside.child++;
	return 0;
}

int main(void)
{
	char *much = calloc(2, MUCH), *words[] = {"true", 0};
	int seen[3] = {0}, status;
	pthread_t thread;
	pid_t child;

	setlinebuf(stdout);
	status = run(is_killed, seen);
	printf("killed by %d: %d\n", WTERMSIG(status), seen[0]);
	status = run(writes_much, much);
	printf("much: %d %d %d\n", status, much[0], much[MUCH - 1]);
	status = run(reads, much + 100);
	printf("read: %d %.3s\n", status, much + 101);
	run(forks, seen);
	printf("forked: %d %d %d\n", seen[0], seen[1], seen[2]);
	run(nests, much);
	printf("nested: %d %.3s\n", *(int *)much, much + 4097);
	run(fails, seen);
	printf("execve: %s\n", strerrorname_np(seen[0]));
	printf("posix_spawn: %d %d\n", posix_spawn(&child, "/nowhere", 0, 0, words, environ),
	       posix_spawn(&child, "/bin/true", 0, 0, words, environ));
	waitpid(child, &status, 0);

	pthread_create(&thread, 0, count, 0);
	for (int i = 0; i < 50; i++)
		run(adds, 0);
	stop = 1;
	pthread_join(thread, 0);
	printf("beside a thread: %d %d\n", beside.child, beside.thread == counted);
	return 0;
}
