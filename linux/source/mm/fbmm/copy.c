// SPDX-License-Identifier: GPL-2.0
/*
 * Contents that go to another file: fork() shares them with the child's file,
 * mremap() moves them to where the new address belongs.
 */
#include <linux/fbmm.h>
#include <linux/file.h>
#include <linux/huge_mm.h>
#include <linux/hugetlb.h>	/* for flush_tlb_range() */
#include <linux/mmu_notifier.h>
#include <linux/mount.h>
#include <linux/pagewalk.h>

#include <asm/tlbflush.h>

#include "../internal.h"
#include "internal.h"

/*
 * The file for a mapping that has contents, from @like. Files cannot exchange
 * contents over file systems: if @mm has another one by now, the mapping
 * gets a file of its own. @parent is what the parent has, for fork(), or NULL.
 * Returns a reference.
 */
static struct file *fbmm_file_like(struct mm_struct *mm, struct fbmm *parent,
				   struct file *like, unsigned long addr,
				   unsigned long len, pgoff_t *pgoff)
{
	struct path root = {
		.mnt = like->f_path.mnt,
		.dentry = like->f_path.mnt->mnt_root,
	};
	struct file *file;

	if (mm->fbmm && mm->fbmm->dir.dentry->d_sb == file_inode(like)->i_sb) {
		file = parent ? fbmm_file_of_child(mm->fbmm, parent, addr, len, pgoff) :
				fbmm_file_at(mm->fbmm, addr, len, false, pgoff);
		return IS_ERR(file) ? file : get_file(file);
	}
	*pgoff = 0;
	return fbmm_create(&root, len, like->f_cred);
}

static int fbmm_remap(struct file *in, pgoff_t from, struct file *out,
		      pgoff_t to, unsigned long len, unsigned int flags)
{
	loff_t done;

	if (!in->f_op->remap_file_range)
		return -EOPNOTSUPP;
	done = in->f_op->remap_file_range(in, (loff_t)from << PAGE_SHIFT, out,
					  (loff_t)to << PAGE_SHIFT, len, flags);
	if (done < 0)
		return fbmm_error(done);
	return done == len ? 0 : -EIO;
}

/**
 * fbmm_fork_vma - give a child's copy of a mapping a file of the child's
 * @vma: the copy, not yet in the child's tree of mappings; its vm_file gets a
 *	reference
 *
 * Return: 0 or an error; vm_file is then unchanged.
 */
int fbmm_fork_vma(struct vm_area_struct *vma)
{
	struct file *file;
	pgoff_t pgoff;

	file = fbmm_file_like(vma->vm_mm, current->mm->fbmm, vma->vm_file, vma->vm_start,
			      vma->vm_end - vma->vm_start, &pgoff);
	if (IS_ERR(file))
		return PTR_ERR(file);
	vma->vm_file = file;
	vma->vm_pgoff = pgoff;
	return 0;
}

/* Make what is mapped read-only and clean. */
static int fbmm_protect(pmd_t *pmd, unsigned long addr, unsigned long end,
			struct mm_walk *walk)
{
	struct vm_area_struct *vma = walk->vma;
	spinlock_t *ptl = pmd_trans_huge_lock(pmd, vma);
	bool *changed = walk->private;
	pte_t *pte, *first;

	if (ptl) {
		if (pmd_present(*pmd) && (pmd_write(*pmd) || pmd_dirty(*pmd))) {
			pmd_t entry = pmdp_invalidate(vma, addr & HPAGE_PMD_MASK, pmd);

			entry = pmd_mkclean(pmd_wrprotect(entry));
			set_pmd_at(vma->vm_mm, addr & HPAGE_PMD_MASK, pmd, entry);
		}
		spin_unlock(ptl);
		return 0;
	}
	first = pte_offset_map_lock(vma->vm_mm, pmd, addr, &ptl);
	if (!first) {
		walk->action = ACTION_AGAIN;
		return 0;
	}
	for (pte = first; addr < end; pte++, addr += PAGE_SIZE) {
		pte_t entry = ptep_get(pte);

		if (!pte_present(entry) || !(pte_write(entry) || pte_dirty(entry)))
			continue;
		entry = ptep_get_and_clear(vma->vm_mm, addr, pte);
		set_pte_at(vma->vm_mm, addr, pte, pte_mkclean(pte_wrprotect(entry)));
		*changed = true;
	}
	pte_unmap_unlock(first, ptl);
	return 0;
}

static const struct mm_walk_ops fbmm_protect_ops = {
	.pmd_entry = fbmm_protect,
	.walk_lock = PGWALK_WRLOCK,
};

/*
 * What will be shared is mapped read-only, as copy_page_range() does, and clean:
 * mprotect() takes a dirty page of a shared mapping for one that may be written
 * at once. That dup_mmap() flushes the TLBs before the child runs is too late: once
 * the child's file has a page, who swaps out or migrates may find it there, and would
 * miss what another thread of the parent's yet writes.
 */
static void fbmm_protect_vma(struct vm_area_struct *vma)
{
	struct mmu_notifier_range range;
	bool changed = false;

	mmu_notifier_range_init(&range, MMU_NOTIFY_PROTECTION_PAGE, 0, vma->vm_mm,
				vma->vm_start, vma->vm_end);
	mmu_notifier_invalidate_range_start(&range);
	walk_page_range(vma->vm_mm, vma->vm_start, vma->vm_end, &fbmm_protect_ops,
			&changed);
	if (changed)
		flush_tlb_range(vma, vma->vm_start, vma->vm_end);
	mmu_notifier_invalidate_range_end(&range);
}

/**
 * fbmm_copy_range - give a child the contents of a mapping
 * @dst: the child's mapping, after fbmm_fork_vma()
 * @src: the parent's
 *
 * Return: 0, or an error that fork() returns: -EOPNOTSUPP if the file system
 * does not support it.
 */
int fbmm_copy_range(struct vm_area_struct *dst, struct vm_area_struct *src)
{
	fbmm_count(FBMM_FORK);
	fbmm_protect_vma(src);
	return fbmm_remap(src->vm_file, src->vm_pgoff, dst->vm_file,
			  dst->vm_pgoff, src->vm_end - src->vm_start, 0);
}

/* mremap() */

/**
 * fbmm_expandable - whether a mapping can grow where it is
 * @vma: a mapping of the shim's
 * @end: its new end; the addresses to there are free
 */
bool fbmm_expandable(struct vm_area_struct *vma, unsigned long end)
{
	struct fbmm *fbmm = vma->vm_mm->fbmm;
	struct fbmm_area *area;

	if (!fbmm)
		return false;
	area = fbmm_area_find(fbmm, vma->vm_start, end);
	return area && area->file == vma->vm_file;
}

/*
 * Make a VMA of its own of a part of one. Flags can then be changed when there is no
 * way back any more, which must not fail.
 */
static struct vm_area_struct *fbmm_isolate(struct mm_struct *mm, unsigned long start,
					   unsigned long end)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma = vma_lookup(mm, start);
	int err = 0;

	/* A page fault that has only the VMA's lock would yet go by the old flags. */
	vma_start_write(vma);
	if (vma->vm_start < start)
		err = split_vma(&vmi, vma, start, 1);
	if (!err && vma->vm_end > end)
		err = split_vma(&vmi, vma, end, 0);
	return err ? ERR_PTR(err) : vma;
}

/**
 * fbmm_move_vma - move a mapping, as move_vma() does others
 * @vma: a mapping of the shim's
 * @old_addr: where the part to move begins
 * @old_len: its length, at most @new_len
 * @new_len: length of the new mapping
 * @new_addr: its place, where nothing is mapped
 * @locked: set if the new mapping is to be populated for mlock()
 * @flags: of mremap()
 * @uf_unmap: for userfaultfd
 *
 * The new place belongs to another place in a file, perhaps in another file, so
 * the pages go there, too.
 *
 * Return: @new_addr or an error.
 */
unsigned long fbmm_move_vma(struct vm_area_struct *vma, unsigned long old_addr,
			    unsigned long old_len, unsigned long new_len,
			    unsigned long new_addr, bool *locked,
			    unsigned long flags, struct list_head *uf_unmap)
{
	struct mm_struct *mm = vma->vm_mm;
	const vm_flags_t vm_flags = vma->vm_flags & ~VM_SOFTDIRTY;
	/* What stays is not locked any more, as in move_vma(). */
	const bool unlock = (flags & MREMAP_DONTUNMAP) && (vm_flags & VM_LOCKED);
	const pgoff_t old_pgoff = linear_page_index(vma, old_addr);
	struct file *in = get_file(vma->vm_file);
	struct file *out;
	unsigned long ret;
	pgoff_t pgoff;
	int err = 0;

	fbmm_count(FBMM_MREMAP);
	if (mm->map_count >= fbmm_max_map_count() - 3) {
		ret = -ENOMEM;
		goto put_in;
	}
	out = fbmm_file_like(mm, NULL, in, new_addr, new_len, &pgoff);
	if (IS_ERR(out)) {
		ret = PTR_ERR(out);
		goto put_in;
	}
	/* This may merge @vma with the new one. */
	ret = mmap_region(out, new_addr, new_len, vm_flags, pgoff, uf_unmap);
	if (IS_ERR_VALUE(ret))
		goto put_out;
	if (unlock) {
		vma = fbmm_isolate(mm, old_addr, old_addr + old_len);
		err = PTR_ERR_OR_ZERO(vma);
	}
	if (!err)
		err = fbmm_remap(in, old_pgoff, out, pgoff, old_len, FBMM_REMAP_MOVE);
	if (err) {
		do_munmap(mm, new_addr, new_len, uf_unmap);
		ret = err;
		goto put_out;
	}
	if (!(flags & MREMAP_DONTUNMAP))
		do_munmap(mm, old_addr, old_len, uf_unmap);
	if (unlock) {
		vm_flags_clear(vma, VM_LOCKED_MASK);
		mm->locked_vm -= old_len >> PAGE_SHIFT;
	}
	if (vm_flags & VM_LOCKED)
		*locked = true;
put_out:
	fput(out);
put_in:
	fput(in);
	return ret;
}
