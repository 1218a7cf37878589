/* SPDX-License-Identifier: GPL-2.0 */
/* What the stress test wants around it: sizes of folios, swap, files, no leaks. */
#ifndef _SETUP_H
#define _SETUP_H

#include "lab.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>

static inline void load_module(const char *path)
{
	int fd = open(path, O_RDONLY);

	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
		fail(path);
	close(fd);
}

static inline void set_size(unsigned int order, const char *file, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/mm/transparent_hugepage/hugepages-%zukB/%s",
		 page_size << order >> 10, file);
	write_file(path, value);
}

/* Some orders at a time, others in the next round. */
static inline void set_sizes(unsigned int round)
{
	unsigned int order;

	for (order = 1; order <= pmd_order; order++) {
		set_size(order, "enabled", (round + order) % 3 ? "madvise" : "never");
		set_size(order, "shmem_enabled", (round + order) % 2 ? "always" : "never");
	}
}

static inline void set_up_swap(void)
{
	char header[4096] = "";
	uint32_t *info = (uint32_t *)(header + 1024);
	int fd;

	if (!write_file("/sys/block/zram0/disksize", "256M"))
		return;
	fd = open("/dev/zram0", O_RDWR);
	if (fd < 0)
		return;
	info[0] = 1;				/* version */
	info[1] = (256 << 20) / page_size - 1;	/* last page */
	memcpy(header + sizeof(header) - 10, "SWAPSPACE2", 10);
	if (write(fd, header, sizeof(header)) != sizeof(header))
		fail("swap header");
	close(fd);
	if (swapon("/dev/zram0", 0))
		fail("swapon");
}

/* XFS keeps files in large folios. Whether it could be had. */
static inline bool mount_xfs(const char *dir)
{
	return !system("mkfs.xfs -q -f /dev/ram0") && !mkdir(dir, 0700) &&
	       !mount("/dev/ram0", dir, "xfs", 0, NULL);
}

static inline int make_file(const char *path, size_t size)
{
	char *zeros = calloc(1, size);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	/* In one piece: XFS then takes the largest folios it can. */
	if (!zeros || fd < 0 || write(fd, zeros, size) != (ssize_t)size)
		fail(path);
	free(zeros);
	return fd;
}

#define KMEMLEAK "/sys/kernel/debug/kmemleak"

static inline size_t read_leaks(char *text, size_t size)
{
	const int fd = open(KMEMLEAK, O_RDONLY);
	const ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);

	if (got < 0)
		fail(KMEMLEAK);
	close(fd);
	text[got] = 0;
	return got;
}

/* With a kernel of `build --debug kmemleak`: what is lost for good. */
static inline void test_leaks(void)
{
	bool scanned, lost = true;
	char text[4096];
	int tries;

	if (access(KMEMLEAK, W_OK))
		return;
	/*
	 * It reports what is older than 5 seconds and was not found twice. What looks lost on
	 * its way to be freed is not there the next time.
	 */
	for (tries = 0; tries < 3 && lost; tries++) {
		sleep(6);
		scanned = write_file(KMEMLEAK, "scan") && write_file(KMEMLEAK, "scan");
		lost = !scanned || read_leaks(text, sizeof(text));
	}
	if (lost && scanned)
		printf("%s", text);
	test_result(!lost, "no memory was lost");
}

#endif /* _SETUP_H */
