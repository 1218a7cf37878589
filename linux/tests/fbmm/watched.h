/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory of hostile.c that others act on: pages that KSM merges, that userfaultfd
 * protects from writing, and that a debugger writes to.
 */
#ifndef _WATCHED_H
#define _WATCHED_H

#include "hostile.h"

#include <linux/userfaultfd.h>
#include <sys/ptrace.h>

#define ALIKE		64	/* pages */
#define KSM		"/sys/kernel/mm/ksm/"

/*
 * Pages of few contents, so that there are equal ones in all processes. Each has one
 * word, again and again; only the thread that does the rest uses them.
 */
static uint64_t *alike;
static uint64_t alike_word[ALIKE];

static void alike_write(size_t nr, unsigned int value)
{
	int i;

	alike_word[nr] = 0xa11ceull << 32 | value;
	for (i = 0; i < 512; i++)
		alike[nr * 512 + i] = alike_word[nr];
}

/* Pages that are merged before there is anybody else, who all have them then. */
static bool alike_make(void)
{
	int tries = 0;
	size_t nr;

	alike = (uint64_t *)reserve(ALIKE * page_size);
	for (nr = 0; nr < ALIKE; nr++)
		alike_write(nr, 0);
	write_file(KSM "sleep_millisecs", "20");
	write_file(KSM "pages_to_scan", "2000");
	/* Of a memory file system the kernel merges nothing. */
	if (madvise(alike, ALIKE * page_size, MADV_MERGEABLE) || !write_file(KSM "run", "1") ||
	    managed)
		return false;
	while (read_number(KSM "pages_sharing") < ALIKE / 2 && tries++ < 600)
		usleep(100000);
	return true;
}

static void use_one_alike(void)
{
	const size_t nr = pick(0, ALIKE);
	uint64_t *page = alike + nr * 512;
	int i;

	for (i = 0; i < 512; i++)
		if (page[i] != alike_word[nr])
			wrong("word %d of page %zu of those that are alike is %#llx, not %#llx", i,
			      nr, (long long)page[i], (long long)alike_word[nr]);
	switch (pick(0, 4)) {
	case 0:
		if (!madvise(page, page_size, MADV_DONTNEED))
			alike_word[nr] = 0;
		break;
	case 1:
		madvise(alike, ALIKE * page_size, pick(0, 4) ? MADV_MERGEABLE : MADV_UNMERGEABLE);
		break;
	default:
		alike_write(nr, pick(0, 4));
	}
}

static void use_alike(void)
{
	int i;

	for (i = 0; i < 8; i++)
		use_one_alike();
	atomic_fetch_add(&all->alike, 1);
}

/* Pages that are protected stay as they are, whoever is about to write to them. */
static void stay(size_t from, size_t nr)
{
	uint64_t first[WORDS], later[WORDS];
	size_t page = from + pick(0, nr);

	at_rest(self, page, first, load);
	usleep(pick(0, 3000));
	at_rest(self, page, later, load);
	if (memcmp(first, later, sizeof(first)))
		wrong("page %zu was written while userfaultfd protects it: %#llx, then %#llx",
		      page, (long long)first[0], (long long)later[0]);
	atomic_fetch_add(&all->guarded, 1);
}

static void guard_writes(char *arena)
{
	const size_t from = pick(0, FIXED), nr = 1 + pick(0, FIXED - from);
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	struct uffdio_register area = {
		.range = { (uintptr_t)arena + from * page_size, nr * page_size },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	struct uffdio_writeprotect protect = {
		.range = area.range,
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	const int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	uint64_t words[WORDS];
	size_t page;

	if (fd < 0)
		return;
	/* Only what is there is protected. */
	for (page = from; page < from + nr; page++)
		at_rest(self, page, words, load);
	if (!ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &area)) {
		if (!ioctl(fd, UFFDIO_WRITEPROTECT, &protect))
			stay(from, nr);
		protect.mode = 0;
		if (pick(0, 2))
			ioctl(fd, UFFDIO_WRITEPROTECT, &protect);
		ioctl(fd, UFFDIO_UNREGISTER, &area.range);
	}
	/* This wakes who waits. */
	close(fd);
}

/* Exit status of a child that ended while it was waited for to stop; 0 if none did */
static int ended;
static bool has_ended;

/* The child stands still for as long as each try takes. */
static bool store_by_ptrace(struct node *node, char *page, void *buffer)
{
	const uint64_t *stamp = buffer;
	bool done = true;
	int status, i;

	if (ptrace(PTRACE_SEIZE, node->pid, NULL, NULL) ||
	    ptrace(PTRACE_INTERRUPT, node->pid, NULL, NULL)) {
		vanished = true;
		return false;
	}
	if (waitpid(node->pid, &status, 0) != node->pid)
		wrong("waitpid of what is traced: %s", strerror(errno));
	if (!WIFSTOPPED(status)) {
		has_ended = vanished = true;
		ended = status;
		return false;
	}
	for (i = 0; i < WORDS && done; i++)
		done = !ptrace(PTRACE_POKEDATA, node->pid,
			       (uint64_t *)page + (size_t)i * STRIDE, *stamp);
	vanished = !done && errno == ESRCH;
	/* A signal that was on its way goes on. */
	ptrace(PTRACE_DETACH, node->pid, NULL,
	       status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status));
	if (done)
		atomic_fetch_add(&all->traced, 1);
	return done;
}

static bool store_by_other_mem(struct node *node, char *page, void *buffer)
{
	char path[32];
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", node->pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		got = pwrite(fd, sheet(*(uint64_t *)buffer), page_size, (off_t)page);
		close(fd);
	}
	/* Who has ended has no memory. */
	vanished = !got;
	return got == (ssize_t)page_size;
}

#endif /* _WATCHED_H */
