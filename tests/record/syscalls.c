/* Makes each system call of x86-64 with arguments that do no harm: its number, and how it answers. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LAST 469

/* Some memory to point at, and a time, one that is over. */
static char memory[4096] __attribute__((aligned(4096)));
static struct timespec now = {0, 1};

/* For the others: -1, some memory, 1. As a descriptor, path or flags most refuse -1. */
static const struct {
	int number;
	const void *arguments[6];
} chosen[] = {
#define P (const void *)
	{SYS_brk, {P 0}},
	{SYS_mprotect, {memory, P 4096, P 3}},
	{SYS_madvise, {memory, P 4096, P MADV_NORMAL}},
	{SYS_mincore, {memory, P 4096, memory}},
	{SYS_msync, {memory, P 4096, P MS_ASYNC}},
	{SYS_mlock, {memory, P 4096}},
	{SYS_munlock, {memory, P 4096}},
	{SYS_mlock2, {memory, P 4096, P 0}},
	{SYS_pipe2, {memory, P 0}},
	{SYS_uname, {memory}},
	{SYS_getcwd, {memory, P 4096}},
	{SYS_stat, {"/", memory}},
	{SYS_statx, {P -100, "/", P 0, P 0x7ff, memory}},
	{SYS_sysinfo, {memory}},
	{SYS_times, {memory}},
	{SYS_getrusage, {P 0, memory}},
	{SYS_rt_sigpending, {memory, P 8}},
	{SYS_rt_sigtimedwait, {memory + 512, P 0, &now, P 8}},
	{SYS_sigaltstack, {P 0, memory}},
	{SYS_sched_setaffinity, {P 0, P 128, memory}},
	{SYS_sched_getaffinity, {P 0, P 128, memory}},
	{SYS_clock_gettime, {P 1, memory}},
	{SYS_clock_nanosleep, {P 1, P 0, &now, P 0}},
	{SYS_timer_create, {P 1, P 0, memory}},
	{SYS_eventfd2, {P 0, P 0}},
	{SYS_epoll_create1, {P 0}},
	{SYS_timerfd_create, {P 1, P 0}},
	{SYS_inotify_init1, {P 0}},
	{SYS_signalfd4, {P -1, memory + 512, P 8, P 0}},
	{SYS_memfd_create, {"memory", P 0}},
	{SYS_getrandom, {memory, P 8, P 0}},
	{SYS_membarrier, {P 0, P 0}},
	{SYS_getcpu, {memory, memory, P 0}},
	{SYS_prlimit64, {P 0, P 3, P 0, memory}},
	{SYS_prctl, {P 3}},
	{SYS_arch_prctl, {P 0x1003, memory}},
	{SYS_futex, {memory, P 1, P 1}},
	{SYS_socket, {P 1, P 1, P 0}},
	{SYS_socketpair, {P 1, P 1, P 0, memory}},
	{SYS_pkey_alloc, {P 0, P 0}},
	{SYS_io_setup, {P 1, memory + 1024}},
	{SYS_process_vm_readv, {P 0, memory, P 0, memory, P 0, P 0}},
	{SYS_landlock_create_ruleset, {P 0, P 0, P 1}},
	{SYS_pause, {P 0}},
	{SYS_setreuid, {P -1, P -1}},
	{SYS_setregid, {P -1, P -1}},
	{SYS_setresuid, {P -1, P -1, P -1}},
	{SYS_setresgid, {P -1, P -1, P -1}},
};

static void made(int number, const char *how) { printf("%d %s\n", number, how); }

static long make(int number)
{
	long a[6] = {-1, (long)memory, 1};

	for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++)
		if (chosen[i].number == number)
			memcpy(a, chosen[i].arguments, sizeof a);
	memset(memory, 0, sizeof memory);
	return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* In a child: what does not come back, or twice. */
static void make_apart(int number)
{
	char how[32] = "ok";
	int status;
	pid_t child = fork();

	if (!child) {
		alarm(number == SYS_pause);
		_exit(make(number) < 0 ? errno : 0);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		snprintf(how, sizeof how, "signal %d", WTERMSIG(status));
	else if (number == SYS_exit || number == SYS_exit_group)
		snprintf(how, sizeof how, "status %d", WEXITSTATUS(status));
	else if (WEXITSTATUS(status))
		snprintf(how, sizeof how, "%s", strerrorname_np(WEXITSTATUS(status)));
	made(number, how);
}

int main(void)
{
	setlinebuf(stdout);
	for (int number = 0; number <= LAST; number++) {
		switch (number) {
		case 335 ... 423: /* Nothing is there. */
		case SYS_rt_sigreturn: /* Goes anywhere. */
		case SYS_vhangup: /* Would hang up the terminal. */
			break;
		case SYS_exit:
		case SYS_exit_group:
		case SYS_fork:
		case SYS_pause:
		case SYS_setsid:
			fflush(stdout);
			make_apart(number);
			break;
		case SYS_vfork: /* Not without a library's help: clone() is the same. */
			break;
		default:
			made(number, make(number) == -1 ? strerrorname_np(errno) : "ok");
		}
	}
	return 0;
}
