// SPDX-License-Identifier: GPL-2.0
/*
 * File-based memory management.
 *
 * A memory file system is a file system whose files are memory: it decides in
 * ->fault() and ->fallocate() which pages a file has. Where a process has one as
 * its default, this shim turns its private anonymous mappings into mappings of
 * unnamed files there. munmap() punches holes, the end of the address space
 * deletes the files. After "FBMM: Making Memory Management Extensible With
 * Filesystems" (USENIX ATC 2024).
 *
 * A file is large and belongs to a range of addresses: an address has its place
 * in the file, so that neighbouring mappings share a VMA. Every mapping the shim
 * makes is private to one address space; VM_SHARED without VM_MAYSHARE keeps
 * the kernel from replacing the file's pages by its own on write faults.
 *
 * mm->fbmm is written with mmap_lock held for writing, or by the munmap() that
 * has just downgraded it, which keeps others off. ->fallocate() and
 * ->remap_file_range() are called with mmap_lock held and not through the VFS,
 * which would take locks that are outside of mmap_lock. So a memory file
 * system must not take the inode lock there. For fork(), ->remap_file_range() finds
 * all mappings of the range read-only.
 */
#include <linux/cred.h>
#include <linux/fbmm.h>
#include <linux/falloc.h>
#include <linux/file.h>
#include <linux/mmu_notifier.h>
#include <linux/namei.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "../internal.h"
#include "internal.h"

/* The paper's size of a file; nothing is reserved for it. */
#define FBMM_FILE_SIZE		(128UL * SZ_1G)

DEFINE_STATIC_KEY_FALSE(fbmm_key);
bool fbmm_enabled __read_mostly;
DEFINE_PER_CPU(unsigned long [NR_FBMM_EVENTS], fbmm_events);

/* The files */

/**
 * fbmm_create - make an unnamed file
 * @dir: where
 * @size: how large
 * @cred: for whom; who has chosen the file system may make files in it, and its
 *	process may have dropped that right
 *
 * Return: the file or an error.
 */
struct file *fbmm_create(const struct path *dir, unsigned long size,
			 const struct cred *cred)
{
	const struct cred *old = override_creds(cred);
	struct file *file;

	file = kernel_tmpfile_open(mnt_idmap(dir->mnt), dir, S_IFREG | 0600,
				   O_RDWR | O_LARGEFILE, cred);
	revert_creds(old);
	if (IS_ERR(file))
		return file;
	if (size > file_inode(file)->i_sb->s_maxbytes) {
		fput(file);
		return ERR_PTR(-ENOMEM);
	}
	/* Not by ->setattr(): RLIMIT_FSIZE is no limit of memory. */
	i_size_write(file_inode(file), size);
	set_bit(AS_FBMM, &file->f_mapping->flags);
	fbmm_count(FBMM_FILES);
	return file;
}

/*
 * Give a new area as many addresses around the mapping as its file has room for:
 * below it for mmap(), which grows down, and above for the heap. Where parts of
 * the mapping are another area's, nothing is mapped; the new area takes these
 * over and no more.
 */
static void fbmm_room(struct fbmm *fbmm, unsigned long *start,
		      unsigned long *end, bool up)
{
	const unsigned long size = max(FBMM_FILE_SIZE, *end - *start);
	struct ma_state mas;
	unsigned long limit;

	mas_init(&mas, &fbmm->tree, *start);
	rcu_read_lock();
	if (!mas_find(&mas, *end - 1)) {
		if (up) {
			limit = min(*start + size, TASK_SIZE);
			if (mas_find(&mas, limit - 1))
				limit = mas.index;
			*end = limit;
		} else {
			limit = *end > size ? *end - size : 0;
			mas_set(&mas, *start);
			if (mas_prev(&mas, limit))
				limit = mas.last + 1;
			*start = limit;
		}
	}
	rcu_read_unlock();
}

static struct fbmm_area *fbmm_area_create(struct fbmm *fbmm, unsigned long start,
					  unsigned long end, bool up)
{
	struct fbmm_area *area = kmalloc(sizeof(*area), GFP_KERNEL_ACCOUNT);
	int err;

	if (!area)
		return ERR_PTR(-ENOMEM);
	fbmm_room(fbmm, &start, &end, up);
	area->stale = false;
	/* Huge pages want addresses and offsets that agree. */
	area->base = ALIGN_DOWN(start, PMD_SIZE);
	area->file = fbmm_create(&fbmm->dir, end - area->base, fbmm->cred);
	if (IS_ERR(area->file)) {
		err = PTR_ERR(area->file);
		kfree(area);
		return ERR_PTR(err);
	}
	err = mtree_store_range(&fbmm->tree, start, end - 1, area, GFP_KERNEL);
	if (err) {
		fput(area->file);
		kfree(area);
		return ERR_PTR(err);
	}
	list_add(&area->list, &fbmm->areas);
	fbmm->last = area;
	fbmm->last_start = start;
	fbmm->last_end = end;
	return area;
}

/* The area that all these addresses belong to, if there is one. */
struct fbmm_area *fbmm_area_find(struct fbmm *fbmm, unsigned long start,
				 unsigned long end)
{
	MA_STATE(mas, &fbmm->tree, start, start);
	struct fbmm_area *area;

	if (fbmm->last && start >= fbmm->last_start && end <= fbmm->last_end)
		return fbmm->last;
	rcu_read_lock();
	area = mas_walk(&mas);
	rcu_read_unlock();
	if (!area || area->stale || end - 1 > mas.last)
		return NULL;
	fbmm->last = area;
	fbmm->last_start = mas.index;
	fbmm->last_end = mas.last + 1;
	return area;
}

struct file *fbmm_file_at(struct fbmm *fbmm, unsigned long addr,
			  unsigned long len, bool up, pgoff_t *pgoff)
{
	struct fbmm_area *area = fbmm_area_find(fbmm, addr, addr + len);

	if (!area)
		area = fbmm_area_create(fbmm, addr, addr + len, up);
	if (IS_ERR(area))
		return ERR_CAST(area);
	*pgoff = (addr - area->base) >> PAGE_SHIFT;
	return area->file;
}

/* Whether no area has any of these addresses. */
static bool fbmm_no_area(struct fbmm *fbmm, unsigned long start, unsigned long end)
{
	unsigned long index = start;

	return !mt_find(&fbmm->tree, &index, end - 1);
}

/**
 * fbmm_file_of_child - find or make the file for a child's copy of a mapping
 * @fbmm: the child's
 * @parent: what its parent has
 * @addr: where the mapping is
 * @len: its length
 * @pgoff: the mapping's offset in the file
 *
 * Mappings that are in one file of the parent's are in one of the child's. They come
 * from the lowest on, and areas grow down: each would have a file of its own.
 *
 * Return: as fbmm_file_at().
 */
struct file *fbmm_file_of_child(struct fbmm *fbmm, struct fbmm *parent,
				unsigned long addr, unsigned long len, pgoff_t *pgoff)
{
	struct fbmm_area *area;

	if (fbmm_area_find(parent, addr, addr + len) &&
	    fbmm_no_area(fbmm, parent->last_start, parent->last_end)) {
		area = fbmm_area_create(fbmm, parent->last_start, parent->last_end, false);
		if (IS_ERR(area))
			return ERR_CAST(area);
	}
	return fbmm_file_at(fbmm, addr, len, false, pgoff);
}

struct fbmm *fbmm_alloc(const struct path *dir, const struct cred *cred)
{
	struct fbmm *fbmm = kzalloc(sizeof(*fbmm), GFP_KERNEL_ACCOUNT);

	if (!fbmm)
		return NULL;
	fbmm->dir = *dir;
	path_get(dir);
	fbmm->cred = get_cred(cred);
	mt_init(&fbmm->tree);
	INIT_LIST_HEAD(&fbmm->areas);
	return fbmm;
}

void fbmm_free(struct fbmm *fbmm)
{
	struct fbmm_area *area, *next;

	if (!fbmm)
		return;
	list_for_each_entry_safe(area, next, &fbmm->areas, list) {
		fput(area->file);
		kfree(area);
	}
	mtree_destroy(&fbmm->tree);
	path_put(&fbmm->dir);
	put_cred(fbmm->cred);
	kfree(fbmm);
}

/* mmap(), brk(), munmap() */

/* Only the kernel's own memory can be a shadow stack: can_change_shadow_stack(). */
bool __fbmm_wants(unsigned long flags, vm_flags_t vm_flags)
{
	return READ_ONCE(fbmm_enabled) && (flags & MAP_TYPE) == MAP_PRIVATE &&
	       !(flags & MAP_GROWSDOWN) && !(vm_flags & VM_SHADOW_STACK);
}

/**
 * fbmm_ask - a file whose ->get_unmapped_area() chooses the address
 * @mm: the address space; it has a default memory file system
 *
 * Return: a file of that file system, or NULL while there is none: the kernel
 * chooses the first address.
 */
struct file *fbmm_ask(struct mm_struct *mm)
{
	return mm->fbmm->last ? mm->fbmm->last->file : NULL;
}

/**
 * fbmm_clear - for MAP_FIXED, unmap what the addresses have
 * @mm: the address space
 * @addr: where to begin
 * @len: the length
 * @uf: for userfaultfd
 *
 * mmap_region() would do that when the new mapping is there already. Then it has
 * its place in a file, where the old one's contents are if they cannot be removed.
 *
 * Return: 0 or an error.
 */
int fbmm_clear(struct mm_struct *mm, unsigned long addr, unsigned long len,
	       struct list_head *uf)
{
	if (!find_vma_intersection(mm, addr, addr + len))
		return 0;
	return do_munmap(mm, addr, len, uf);
}

/**
 * fbmm_prepare - find or make the file for a new mapping
 * @mm: the address space; it has a default memory file system
 * @addr: where the mapping will be
 * @len: its length
 * @up: whether more mappings are expected above it rather than below
 * @vm_flags: flags of the mapping, changed to what a mapping of a file needs
 * @pgoff: the mapping's offset in the file
 *
 * Return: the file, which lives as long as @mm has this file system, or an
 * error.
 */
struct file *fbmm_prepare(struct mm_struct *mm, unsigned long addr,
			  unsigned long len, bool up, vm_flags_t *vm_flags,
			  pgoff_t *pgoff)
{
	if (path_noexec(&mm->fbmm->dir)) {
		if (*vm_flags & VM_EXEC)
			return ERR_PTR(-EPERM);
		*vm_flags &= ~VM_MAYEXEC;
	}
	/* Nothing is accounted for VM_SHARED; a flag less to differ in. */
	*vm_flags &= ~VM_NORESERVE;
	*vm_flags |= VM_SHARED;
	fbmm_count(up ? FBMM_BRK : FBMM_MMAP);
	return fbmm_file_at(mm->fbmm, addr, len, up, pgoff);
}

/* Whether the file system wants pages mapped when the mapping is made. */
bool fbmm_eager(struct file *file)
{
	return file_inode(file)->i_sb->s_type->fs_flags & FS_MEMORY_EAGER;
}

int __fbmm_may_lock(struct file *file, unsigned long len)
{
	int err;

	if (!(file_inode(file)->i_sb->s_type->fs_flags & FS_MEMORY))
		return 0;
	err = file->f_op->fallocate(file, FBMM_FALLOC_LOCK, 0, len);
	return err == -EOPNOTSUPP ? 0 : fbmm_error(err);
}

/**
 * fbmm_brk - enlarge the heap
 * @mm: the address space, current's; it has a default memory file system
 * @addr: the old end of the heap
 * @len: by how much it grows
 * @populate: set if the pages are to be mapped at once
 * @uf: for userfaultfd
 *
 * Return: 0 or an error.
 */
int fbmm_brk(struct mm_struct *mm, unsigned long addr, unsigned long len,
	     bool *populate, struct list_head *uf)
{
	vm_flags_t vm_flags = fbmm_data_flags(mm);
	struct file *file;
	pgoff_t pgoff;

	if (mm->map_count > fbmm_max_map_count())
		return -ENOMEM;
	file = fbmm_prepare(mm, addr, len, true, &vm_flags, &pgoff);
	if (IS_ERR(file))
		return PTR_ERR(file);
	if ((vm_flags & VM_LOCKED) && fbmm_may_lock(file, len))
		return -ENOMEM;
	addr = mmap_region(file, addr, len, vm_flags, pgoff, uf);
	if (IS_ERR_VALUE(addr))
		return addr;
	if (fbmm_eager(file))
		*populate = true;
	return 0;
}

static int fbmm_punch(struct vm_area_struct *vma, unsigned long start,
		      unsigned long end, int mode)
{
	struct file *file = vma->vm_file;

	return file->f_op->fallocate(file,
			FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE | mode,
			(loff_t)linear_page_index(vma, start) << PAGE_SHIFT,
			end - start);
}

/* Called when nothing of the mapping is in the page tables any more. */
void __fbmm_munmap(struct vm_area_struct *vma)
{
	struct fbmm *fbmm = vma->vm_mm->fbmm;
	unsigned long index = vma->vm_start;
	struct fbmm_area *area;

	fbmm_count(FBMM_MUNMAP);
	if (likely(!fbmm_punch(vma, vma->vm_start, vma->vm_end, FBMM_FALLOC_UNMAPPED)) ||
	    !fbmm)
		return;
	/*
	 * What is left in the file must not be found by the next mapping here. Without memory to
	 * say so of these addresses, no mapping gets the file any more.
	 */
	fbmm->last = NULL;
	area = mt_find(&fbmm->tree, &index, vma->vm_end - 1);
	if (area && mtree_store_range(&fbmm->tree, vma->vm_start, vma->vm_end - 1, NULL,
				      GFP_KERNEL))
		area->stale = true;
}

/**
 * fbmm_dontneed - madvise(MADV_DONTNEED) and the like: the next read sees zeros
 * @vma: a mapping of the shim's
 * @start: where to begin
 * @end: where to end
 *
 * Return: 0 or an error.
 */
int fbmm_dontneed(struct vm_area_struct *vma, unsigned long start,
		  unsigned long end)
{
	int err = fbmm_punch(vma, start, end, 0);

	/* What somebody else uses is cleared and stays. */
	return err == -EBUSY ? 0 : fbmm_error(err);
}

/**
 * fbmm_reap - free the memory of a mapping whose process was killed
 * @vma: a mapping of the shim's
 *
 * Called with MMF_UNSTABLE set. Waits for nobody: not for who has a page locked, nor for
 * who listens to the address space, which unmapping may.
 *
 * Return: whether that was done; if not, it is to be tried again.
 */
bool fbmm_reap(struct vm_area_struct *vma)
{
	if (mm_has_notifiers(vma->vm_mm))
		return false;
	return fbmm_punch(vma, vma->vm_start, vma->vm_end, FBMM_FALLOC_REAP) != -EAGAIN;
}

/**
 * fbmm_is_hole - whether a page of a mapping was never touched
 * @vma: a mapping of the shim's
 * @addr: an address in it
 *
 * A file system that does not tell holes from data says that all is data.
 */
bool fbmm_is_hole(struct vm_area_struct *vma, unsigned long addr)
{
	const loff_t pos = (loff_t)linear_page_index(vma, addr) << PAGE_SHIFT;
	const loff_t data = vfs_llseek(vma->vm_file, pos, SEEK_DATA);

	return data == -ENXIO || data > pos;
}

/* The address space's life */

void __fbmm_exit(struct mm_struct *mm)
{
	fbmm_free(mm->fbmm);
	mm->fbmm = NULL;
}

static int fbmm_inherit(struct mm_struct *mm, struct mm_struct *from)
{
	if (!from->fbmm)
		return 0;
	mm->fbmm = fbmm_alloc(&from->fbmm->dir, from->fbmm->cred);
	return mm->fbmm ? 0 : -ENOMEM;
}

int __fbmm_fork(struct mm_struct *mm, struct mm_struct *from)
{
	return fbmm_inherit(mm, from);
}

/* A program with more rights than its caller does not get the caller's memory. */
int __fbmm_exec(struct mm_struct *mm, bool secure)
{
	struct mm_struct *old = current->mm;
	int err;

	if (secure || !old)
		return 0;
	mmap_read_lock(old);
	err = fbmm_inherit(mm, old);
	mmap_read_unlock(old);
	return err;
}
