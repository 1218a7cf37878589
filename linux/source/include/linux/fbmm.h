/* SPDX-License-Identifier: GPL-2.0 */
/*
 * File-based memory management: a process's private anonymous memory comes from
 * files of a memory file system of its choice. See mm/fbmm/core.c.
 */
#ifndef _LINUX_FBMM_H
#define _LINUX_FBMM_H

#include <linux/err.h>
#include <linux/fbmm_version.h>
#include <linux/fs.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pagemap.h>

/*
 * For ->remap_file_range() of a memory file system: the pages go over to the
 * other file and leave a hole, instead of being shared with it; all of them or,
 * with an error, none. Only the shim sets it, for mremap(); it is none of the
 * flags user space can set.
 */
#define FBMM_REMAP_MOVE		(1U << 31)

/*
 * For ->fallocate() of a memory file system: whether a part may be locked, before it
 * is, -ENOSPC if not. Only the kernel asks, with mmap_lock held.
 */
#define FBMM_FALLOC_LOCK	(1 << 30)

/*
 * For ->fallocate() of a memory file system, with FALLOC_FL_PUNCH_HOLE: nothing there is
 * mapped any more. Only the shim sets it, for munmap().
 */
#define FBMM_FALLOC_UNMAPPED	(1 << 29)

/*
 * For ->fallocate() of a memory file system, with FALLOC_FL_PUNCH_HOLE: the OOM reaper frees
 * what it can without waiting for anybody, -EAGAIN if that is nothing now. From then on
 * ->fault() must fail: check_stable_address_space().
 */
#define FBMM_FALLOC_REAP	(1 << 28)

#ifdef CONFIG_FBMM

DECLARE_STATIC_KEY_FALSE(fbmm_key);

bool __fbmm_wants(unsigned long flags, vm_flags_t vm_flags);
struct file *fbmm_ask(struct mm_struct *mm);
int fbmm_clear(struct mm_struct *mm, unsigned long addr, unsigned long len,
	       struct list_head *uf);
struct file *fbmm_prepare(struct mm_struct *mm, unsigned long addr,
			  unsigned long len, bool up, vm_flags_t *vm_flags,
			  pgoff_t *pgoff);
bool fbmm_eager(struct file *file);
int fbmm_brk(struct mm_struct *mm, unsigned long addr, unsigned long len,
	     bool *populate, struct list_head *uf);
void __fbmm_munmap(struct vm_area_struct *vma);
int fbmm_dontneed(struct vm_area_struct *vma, unsigned long start,
		  unsigned long end);
bool fbmm_expandable(struct vm_area_struct *vma, unsigned long end);
unsigned long fbmm_move_vma(struct vm_area_struct *vma, unsigned long old_addr,
			    unsigned long old_len, unsigned long new_len,
			    unsigned long new_addr, bool *locked,
			    unsigned long flags, struct list_head *uf_unmap);
int fbmm_populate(struct vm_area_struct *vma, unsigned long start,
		  unsigned long end);
int __fbmm_may_lock(struct file *file, unsigned long len);
bool fbmm_reap(struct vm_area_struct *vma);
bool fbmm_is_hole(struct vm_area_struct *vma, unsigned long addr);
int __fbmm_fork(struct mm_struct *mm, struct mm_struct *from);
int fbmm_fork_vma(struct vm_area_struct *vma);
int fbmm_copy_range(struct vm_area_struct *dst, struct vm_area_struct *src);
void __fbmm_exit(struct mm_struct *mm);
int __fbmm_exec(struct mm_struct *mm, bool secure);

/* A mount that makes room in a memory cgroup: fbmm_add_reclaimer() */
struct fbmm_reclaimer {
	struct list_head list;
	bool (*reclaim)(struct fbmm_reclaimer *reclaimer, struct mem_cgroup *memcg,
			gfp_t gfp);
};

bool __fbmm_reclaim(struct mem_cgroup *memcg, gfp_t gfp);

/* Which pages near one that is written can be expected to be written, too */
enum fbmm_writes {
	FBMM_WRITES_HERE,	/* none: nothing near is writable */
	FBMM_WRITES_UPWARDS,	/* the next ones: the one before is writable */
	FBMM_WRITES_AROUND,	/* those of the same FBMM_AROUND, of which another is writable */
};

#define FBMM_AROUND	(8 * PAGE_SIZE)

/* For memory file systems */
void fbmm_add_reclaimer(struct fbmm_reclaimer *reclaimer);
void fbmm_del_reclaimer(struct fbmm_reclaimer *reclaimer);
unsigned int fbmm_map_folio(struct vm_fault *vmf, struct folio *folio,
			    struct page *page, unsigned int nr,
			    unsigned long addr);
vm_fault_t fbmm_map_zero(struct vm_fault *vmf, bool all);
bool fbmm_drop_zeros(struct vm_fault *vmf);
bool fbmm_map_written(struct vm_fault *vmf, struct folio *folio, enum fbmm_writes *writes);
void fbmm_allow_writes(struct vm_fault *vmf, unsigned long addr, struct folio **folios,
		       unsigned int nr);
int fbmm_charge(struct folio *folio, gfp_t gfp);
struct mem_cgroup *fbmm_full_memcg(void);
unsigned long fbmm_charge_room(void);
struct mem_cgroup *fbmm_charge_root(void);
unsigned long fbmm_nr_locked(struct address_space *mapping);
unsigned int fbmm_uncharge_batch(struct folio_batch *folios);
void fbmm_migrate_charge(struct folio *folio, struct folio *target);
bool fbmm_split(struct folio *folio);
bool fbmm_clear_accessed(struct folio *folio);
void fbmm_flush_accessed(void);

#ifdef CONFIG_CONTIG_ALLOC
struct page *fbmm_alloc_range(unsigned long *nr);
#else
static inline struct page *fbmm_alloc_range(unsigned long *nr)
{
	return NULL;
}
#endif

/* For /proc/PID/fbmm_mount_dir */
bool fbmm_get_dir(struct mm_struct *mm, struct path *dir);
int fbmm_set_dir(struct mm_struct *mm, const struct path *dir);

extern const struct file_operations proc_fbmm_mount_dir_operations;

/* Whether a new mapping of @mm becomes one of a memory file. */
static inline bool fbmm_wants(struct mm_struct *mm, struct file *file,
			      unsigned long flags, vm_flags_t vm_flags)
{
	return static_branch_unlikely(&fbmm_key) && unlikely(mm->fbmm) &&
	       !file && __fbmm_wants(flags, vm_flags);
}

/*
 * Whether the shim made this mapping: no other is VM_SHARED without VM_MAYSHARE.
 * A program's own mapping of a file it made in a memory file system is as any
 * other mapping of a file.
 */
static inline bool vma_is_fbmm(const struct vm_area_struct *vma)
{
	return static_branch_unlikely(&fbmm_key) &&
	       (vma->vm_flags & (VM_SHARED | VM_MAYSHARE)) == VM_SHARED;
}

/*
 * Whether a folio of this mapping is private memory. The file may be about to go: then the
 * folio has another mapping by now, or an inode that is freed by RCU.
 */
static inline bool fbmm_private(struct folio *folio, struct address_space *mapping)
{
	bool private = false;

	if (!static_branch_unlikely(&fbmm_key))
		return false;
	rcu_read_lock();
	if (READ_ONCE(folio->mapping) == mapping)
		private = test_bit(AS_FBMM, &mapping->flags);
	rcu_read_unlock();
	return private;
}

static inline void fbmm_munmap(struct vm_area_struct *vma)
{
	if (vma_is_fbmm(vma))
		__fbmm_munmap(vma);
}

/*
 * Whether @len bytes more of a mapping of @file may be locked; of any file, and NULL
 * for none. Returns 0 or -ENOMEM.
 */
static inline int fbmm_may_lock(struct file *file, unsigned long len)
{
	return static_branch_unlikely(&fbmm_key) && file && len ?
	       __fbmm_may_lock(file, len) : 0;
}

/* Before a memory cgroup that is full kills: whether a mount has made room. May sleep. */
static inline bool fbmm_reclaim(struct mem_cgroup *memcg, gfp_t gfp)
{
	return static_branch_unlikely(&fbmm_key) && __fbmm_reclaim(memcg, gfp);
}

static inline void fbmm_init(struct mm_struct *mm)
{
	mm->fbmm = NULL;
}

static inline void fbmm_exit(struct mm_struct *mm)
{
	if (static_branch_unlikely(&fbmm_key) && mm->fbmm)
		__fbmm_exit(mm);
}

static inline int fbmm_fork(struct mm_struct *mm, struct mm_struct *from)
{
	return static_branch_unlikely(&fbmm_key) ? __fbmm_fork(mm, from) : 0;
}

static inline int fbmm_exec(struct mm_struct *mm, bool secure)
{
	return static_branch_unlikely(&fbmm_key) ? __fbmm_exec(mm, secure) : 0;
}

#else /* !CONFIG_FBMM */

static inline bool fbmm_wants(struct mm_struct *mm, struct file *file,
			      unsigned long flags, vm_flags_t vm_flags)
{
	return false;
}

static inline struct file *fbmm_ask(struct mm_struct *mm)
{
	return NULL;
}

static inline int fbmm_clear(struct mm_struct *mm, unsigned long addr,
			     unsigned long len, struct list_head *uf)
{
	return 0;
}

static inline struct file *fbmm_prepare(struct mm_struct *mm, unsigned long addr,
					unsigned long len, bool up,
					vm_flags_t *vm_flags, pgoff_t *pgoff)
{
	return NULL;
}

static inline bool fbmm_eager(struct file *file)
{
	return false;
}

static inline int fbmm_brk(struct mm_struct *mm, unsigned long addr,
			   unsigned long len, bool *populate,
			   struct list_head *uf)
{
	return -EINVAL;
}

static inline bool vma_is_fbmm(const struct vm_area_struct *vma)
{
	return false;
}

static inline bool fbmm_private(struct folio *folio, struct address_space *mapping)
{
	return false;
}

static inline bool fbmm_reap(struct vm_area_struct *vma)
{
	return false;
}

static inline bool fbmm_is_hole(struct vm_area_struct *vma, unsigned long addr)
{
	return false;
}

static inline void fbmm_munmap(struct vm_area_struct *vma)
{
}

static inline int fbmm_may_lock(struct file *file, unsigned long len)
{
	return 0;
}

static inline bool fbmm_reclaim(struct mem_cgroup *memcg, gfp_t gfp)
{
	return false;
}

static inline void fbmm_init(struct mm_struct *mm)
{
}

static inline void fbmm_exit(struct mm_struct *mm)
{
}

static inline int fbmm_fork(struct mm_struct *mm, struct mm_struct *from)
{
	return 0;
}

static inline int fbmm_exec(struct mm_struct *mm, bool secure)
{
	return 0;
}

static inline int fbmm_dontneed(struct vm_area_struct *vma, unsigned long start,
				unsigned long end)
{
	return -EINVAL;
}

static inline bool fbmm_expandable(struct vm_area_struct *vma, unsigned long end)
{
	return true;
}

static inline unsigned long fbmm_move_vma(struct vm_area_struct *vma,
		unsigned long old_addr, unsigned long old_len,
		unsigned long new_len, unsigned long new_addr, bool *locked,
		unsigned long flags, struct list_head *uf_unmap)
{
	return -EINVAL;
}

static inline int fbmm_populate(struct vm_area_struct *vma, unsigned long start,
				unsigned long end)
{
	return -EINVAL;
}

static inline int fbmm_fork_vma(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static inline int fbmm_copy_range(struct vm_area_struct *dst,
				  struct vm_area_struct *src)
{
	return -EINVAL;
}

#endif /* CONFIG_FBMM */
#endif /* _LINUX_FBMM_H */
