/* SPDX-License-Identifier: GPL-2.0 */
/* What stress.c has others do to its memory: processes that write, userfaultfd that protects */
#ifndef _OUTSIDE_H
#define _OUTSIDE_H

#include "lab.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#ifndef UFFD_FEATURE_WP_UNPOPULATED	/* Linux's headers before 6.7 */
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

static bool poke(pid_t pid, uint32_t *at, uint32_t value)
{
	long word = value;
	int status;
	bool done;

	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) ||
	    waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return false;
	done = !ptrace(PTRACE_POKEDATA, pid, at, word);
	return !ptrace(PTRACE_DETACH, pid, NULL,
		       status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status)) && done;
}

static bool write_mem(pid_t pid, uint32_t *at, uint32_t value)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDWR);
	return pwrite(fd, &value, sizeof(value), (uintptr_t)at) == sizeof(value);
}

static bool write_remote(pid_t pid, uint32_t *at, uint32_t value)
{
	struct iovec from = { &value, sizeof(value) }, to = { at, sizeof(value) };

	return process_vm_writev(pid, &from, 1, &to, 1, 0) == sizeof(value);
}

/* A child writes to a word of its parent's by one of three ways. Whether it has. */
static inline bool written_by_child(uint32_t *at, uint32_t value, unsigned int way)
{
	static bool (*const ways[])(pid_t, uint32_t *, uint32_t) = {
		poke, write_mem, write_remote,
	};
	const pid_t parent = getpid(), pid = fork();
	int status;

	if (pid < 0)
		return false;
	if (!pid)
		_exit(!ways[way % 3](parent, at, value));
	if (waitpid(pid, &status, 0) != pid)
		fail("waitpid");
	return !status;
}

/*
 * Pages are protected until somebody writes to them, which the kernel notes by itself, and
 * also where there are none yet. Fork and mremap() end it for what they make.
 */
static inline void protect_writes(char *start, size_t size)
{
	static pid_t owner;
	static int fd = -1;
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED |
			    UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	};
	struct uffdio_register area = {
		.range = { (uintptr_t)start, size },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	struct uffdio_writeprotect protect = {
		.range = area.range,
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};

	if (owner != getpid()) {
		close(fd);
		owner = getpid();
		fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
		ioctl(fd, UFFDIO_API, &api);
	}
	if (!ioctl(fd, UFFDIO_REGISTER, &area))
		ioctl(fd, UFFDIO_WRITEPROTECT, &protect);
}

#endif /* _OUTSIDE_H */
