/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that is in use, so much of it, half of the rest in blocks of 2 MB with
 * other than free pages. It is a file in memory, which can be moved and needs no
 * page tables itself.
 */
#ifndef _DPT_HELD_H
#define _DPT_HELD_H

#include "lab.h"

#include <sys/mount.h>
#include <sys/stat.h>

#define HELD		"/tmp/held"
#define SPARE_KB	(40ul << 10)	/* of memory that is never held */

static uint64_t random_state = 0x9e3779b97f4a7c15;

static inline uint64_t random_below(uint64_t bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % bound;
}

static inline unsigned long free_pages(void)
{
	return proc_kb("/proc/meminfo", NULL, "MemFree") / 4;
}

static inline void give_back(int fd, size_t page, size_t pages)
{
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page * page_size,
		      pages * page_size))
		fail("fallocate");
}

/* Use all memory, then give back what is not to be in use: blocks, then pages. */
static inline int hold(unsigned int percent)
{
	const size_t block = REGION / page_size;
	const size_t pages = (free_pages() - SPARE_KB / 4) / block * block;
	const size_t total = proc_kb("/proc/meminfo", NULL, "MemTotal") / 4;
	const size_t left = total * (100 - percent) / 100;
	size_t before, i;
	int fd;

	mkdir(HELD, 0700);
	if (mount("held", HELD, "tmpfs", 0, "size=100%,huge=always"))
		fail("mount");
	fd = open(HELD "/file", O_RDWR | O_CREAT, 0600);
	if (fd < 0 || fallocate(fd, 0, 0, pages * page_size))
		fail(HELD "/file");
	before = free_pages();
	while (free_pages() < before + (left - before) / 2)
		give_back(fd, random_below(pages / block) * block, block);
	while (free_pages() < left)
		for (i = 0; i < 256; i++)
			give_back(fd, random_below(pages), 1);
	return fd;
}

static inline void let_go(int fd)
{
	close(fd);
	if (umount(HELD))
		fail("umount");
}

#endif /* _DPT_HELD_H */
