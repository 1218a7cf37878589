/* SPDX-License-Identifier: GPL-2.0 */
/* Between the files of file-based memory management. */
#ifndef _FBMM_INTERNAL_H
#define _FBMM_INTERNAL_H

#include <linux/cred.h>
#include <linux/fbmm.h>
#include <linux/list.h>
#include <linux/maple_tree.h>
#include <linux/path.h>
#include <linux/percpu.h>

/* Addresses that belong to one file: @base is the address of its first byte. */
struct fbmm_area {
	struct list_head list;
	struct file *file;
	unsigned long base;
	/* The file has contents where nothing is mapped: no mapping is to find them. */
	bool stale;
};

/* An address space's default memory file system and its files there. */
struct fbmm {
	struct path dir;
	const struct cred *cred;	/* of who chose it; files are made with them */
	struct maple_tree tree;		/* address to area; an area may have several ranges */
	struct list_head areas;
	/* The range last used; most calls of mmap() stay in it. */
	struct fbmm_area *last;
	unsigned long last_start, last_end;
};

enum fbmm_event {
	FBMM_FILES,
	FBMM_MMAP,
	FBMM_BRK,
	FBMM_MUNMAP,
	FBMM_FORK,
	FBMM_MREMAP,
	NR_FBMM_EVENTS
};

extern bool fbmm_enabled;
DECLARE_PER_CPU(unsigned long [NR_FBMM_EVENTS], fbmm_events);

static inline void fbmm_count(enum fbmm_event event)
{
	this_cpu_inc(fbmm_events[event]);
}

/* A file system may be full; what is called for memory says that there is none. */
static inline int fbmm_error(int err)
{
	return err == -ENOSPC ? -ENOMEM : err;
}

/* core.c */
struct file *fbmm_create(const struct path *dir, unsigned long size,
			 const struct cred *cred);
struct fbmm_area *fbmm_area_find(struct fbmm *fbmm, unsigned long start,
				 unsigned long end);
struct file *fbmm_file_at(struct fbmm *fbmm, unsigned long addr,
			  unsigned long len, bool up, pgoff_t *pgoff);
struct file *fbmm_file_of_child(struct fbmm *fbmm, struct fbmm *parent,
				unsigned long addr, unsigned long len, pgoff_t *pgoff);
struct fbmm *fbmm_alloc(const struct path *dir, const struct cred *cred);
void fbmm_free(struct fbmm *fbmm);

#endif /* _FBMM_INTERNAL_H */
