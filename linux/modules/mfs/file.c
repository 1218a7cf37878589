// SPDX-License-Identifier: GPL-2.0
/* Mapping files: page faults, and filling and punching holes. */
#include <linux/fbmm.h>
#include <linux/falloc.h>
#include <linux/huge_mm.h>
#include <linux/oom.h>
#include <linux/userfaultfd_k.h>

#include "internal.h"

/* Where a process may put pages into a file's hole that a fault is in. */
static void mfs_window(struct vm_fault *vmf, pgoff_t *first, pgoff_t *end)
{
	struct vm_area_struct *vma = vmf->vma;

	*first = vma->vm_pgoff;
	*end = min_t(pgoff_t, vma->vm_pgoff + vma_pages(vma),
		     i_size_read(file_inode(vma->vm_file)) >> PAGE_SHIFT);
}

static vm_fault_t mfs_error(int err)
{
	if (err == -EHWPOISON)
		return VM_FAULT_HWPOISON;
	/* The pool is empty: nothing the kernel could reclaim would help. */
	return err == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
}

/*
 * Make a page this file's own; a copy of it where others may have it, in base pages
 * of a large folio. The lock is dropped and taken exclusively: look again afterwards.
 * The caller has a reference to @held.
 */
static int mfs_make_own(struct mfs_inode *mi, pgoff_t index, const struct folio *held)
{
	struct address_space *mapping = mi->inode.i_mapping;
	struct folio *folio;
	int err = 0;

	filemap_invalidate_unlock_shared(mapping);
	filemap_invalidate_lock(mapping);
	folio = xa_load(&mi->folios, index);
	if (folio && !xa_is_value(folio) &&
	    !mfs_claim(mi, index, folio, folio == held))
		err = folio_test_large(folio) ?
			mfs_shatter(mi, folio,
				    ALIGN_DOWN(index, folio_nr_pages(folio)), 0, 0) :
			mfs_unshare(mi, index, folio, NULL);
	downgrade_write(&mapping->invalidate_lock);
	return err;
}

/*
 * Map a page that was not: for writing, too, without the kernel's asking once
 * more by ->page_mkwrite(). What the kernel copies or marks for userfaultfd it gets
 * with a reference and locked, and large folios, of which it may map more than
 * a page; the lock keeps what removes pages off until that is done. Of a large folio with
 * a memory error only the page is mapped: Linux 7.2 would map the broken one along with it.
 */
static vm_fault_t mfs_map(struct vm_fault *vmf, struct folio *folio)
{
	struct vm_area_struct *vma = vmf->vma;
	struct page *page = folio_file_page(folio, vmf->pgoff);
	const bool shared = vma->vm_flags & VM_SHARED;
	const bool large = folio_test_large(folio);
	const bool broken = large && mfs_poisoned(folio_page(folio, 0), folio_nr_pages(folio));

	if (PageHWPoison(page))
		return VM_FAULT_HWPOISON;
	if ((large && !broken) || userfaultfd_wp(vma) ||
	    ((vmf->flags & FAULT_FLAG_WRITE) && !shared)) {
		/* do_set_pmd() does not map it as a whole then. */
		if (broken)
			folio_set_has_hwpoisoned(folio);
		folio_get(folio);
		folio_lock(folio);
		vmf->page = page;
		return VM_FAULT_LOCKED;
	}
	if (!shared && check_stable_address_space(vma->vm_mm))
		return VM_FAULT_SIGBUS;
	fbmm_map_folio(vmf, folio, page, 1, vmf->address);
	return VM_FAULT_NOPAGE;
}

/*
 * The folio for a fault, which the file has or gets now, along with at most the pages of
 * the largest block: whose mapping was not filled before may want little of it.
 */
static struct folio *mfs_find(struct vm_fault *vmf, struct mfs_inode *mi)
{
	struct folio *folio;
	pgoff_t first, end;
	long err;

	mfs_window(vmf, &first, &end);
	if (vmf->pgoff >= end)
		return ERR_PTR(-EINVAL);
	for (;;) {
		folio = xa_load(&mi->folios, vmf->pgoff);
		if (!folio)
			err = mfs_fill_hole(mi, vmf->pgoff, first,
					    min(end, vmf->pgoff + MAX_ORDER_NR_PAGES));
		else if (xa_is_value(folio))
			err = mfs_swap_in(mi, vmf->pgoff, folio);
		else if ((vmf->flags & FAULT_FLAG_WRITE) && !mfs_owned(mi, folio))
			err = mfs_make_own(mi, vmf->pgoff, NULL);
		else
			return folio;
		if (err < 0)
			return ERR_PTR(err);
	}
}

/* What a debugger, say, makes a process take is charged to the process. */
static vm_fault_t mfs_charge_owner(struct vm_fault *vmf,
				   vm_fault_t (*handle)(struct vm_fault *))
{
	struct mem_cgroup *memcg, *old;
	vm_fault_t ret;

	if (likely(vmf->vma->vm_mm == current->mm))
		return handle(vmf);
	memcg = get_mem_cgroup_from_mm(vmf->vma->vm_mm);
	old = set_active_memcg(memcg);
	ret = handle(vmf);
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	return ret;
}

/*
 * Whether the page of zeros does: for a process's own memory that was never written, where
 * the memory manager gives folios one at a time. *@all is whether it does in all of the
 * page table, where a large folio would be.
 */
static bool mfs_wants_zero(struct vm_fault *vmf, struct mfs_inode *mi, bool *all)
{
	pgoff_t first, end;

	if ((vmf->flags & FAULT_FLAG_WRITE) || mfs_super(mi->inode.i_sb)->max_pages > 1 ||
	    !test_bit(AS_FBMM, &mi->inode.i_mapping->flags) ||
	    mm_forbids_zeropage(vmf->vma->vm_mm) || xa_load(&mi->folios, vmf->pgoff))
		return false;
	mfs_window(vmf, &first, &end);
	*all = vmf->pgoff < end && mfs_order(mi, vmf->pgoff, first, end);
	return vmf->pgoff < end;
}

static vm_fault_t mfs_do_fault(struct vm_fault *vmf)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	struct folio *folio;
	vm_fault_t ret = 0;
	bool all = false;
	int err;

	do {
		filemap_invalidate_lock_shared(inode->i_mapping);
		err = 0;
		if (test_bit(AS_FBMM, &inode->i_mapping->flags) &&
		    check_stable_address_space(vmf->vma->vm_mm)) {
			/* Zeros would be read where a reaper has taken what was written. */
			ret = VM_FAULT_SIGBUS;
		} else if (mfs_wants_zero(vmf, mfs_inode(inode), &all)) {
			ret = fbmm_map_zero(vmf, all);
		} else {
			folio = mfs_find(vmf, mfs_inode(inode));
			err = PTR_ERR_OR_ZERO(folio);
			if (!err)
				ret = mfs_map(vmf, folio);
		}
		filemap_invalidate_unlock_shared(inode->i_mapping);
	} while (mfs_swap_wait(mfs_super(inode->i_sb), &err));
	return err ? mfs_error(err) : ret;
}

static vm_fault_t mfs_fault(struct vm_fault *vmf)
{
	return mfs_charge_owner(vmf, mfs_do_fault);
}

/*
 * A page is about to become writable that is mapped for reading, which a file in
 * another address space may have, too; or a large folio's that is to be mapped.
 */
static vm_fault_t mfs_do_mkwrite(struct vm_fault *vmf)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	struct folio *folio = page_folio(vmf->page);
	struct mfs_inode *mi = mfs_inode(inode);
	vm_fault_t ret = VM_FAULT_NOPAGE;
	int err = 0;

	filemap_invalidate_lock_shared(inode->i_mapping);
	if (xa_load(&mi->folios, vmf->pgoff) == folio && !mfs_owned(mi, folio))
		err = mfs_make_own(mi, vmf->pgoff, folio);
	if (!err && xa_load(&mi->folios, vmf->pgoff) == folio && mfs_owned(mi, folio)) {
		folio_lock(folio);
		ret = VM_FAULT_LOCKED;
	}
	filemap_invalidate_unlock_shared(inode->i_mapping);
	mfs_swap_wait(mfs_super(inode->i_sb), &err);	/* then it faults again */
	return err ? mfs_error(err) : ret;
}

/* Pages that may be written along with the one before them, if they are the file's own */
#define MFS_AHEAD	16

/* A page of its own, which is the file's from now on if other files had it and have it no more */
static struct folio *mfs_claim_base(struct mfs_inode *mi, pgoff_t index)
{
	struct folio *folio = xa_load(&mi->folios, index);

	return folio && !xa_is_value(folio) && mfs_entry_pages(folio) == 1 &&
	       mfs_claim(mi, index, folio, 0) ? folio : NULL;
}

/* Pages near a write fault's that will probably be written, too: the next, or those around */
static void mfs_claim_near(struct vm_fault *vmf, struct mfs_inode *mi, enum fbmm_writes writes)
{
	const bool upwards = writes == FBMM_WRITES_UPWARDS;
	const unsigned long block = ALIGN_DOWN(vmf->address, FBMM_AROUND);
	unsigned long start = vmf->address + PAGE_SIZE, end;
	struct folio *folios[MFS_AHEAD];
	unsigned int nr, most;
	pgoff_t index;

	if (upwards) {
		end = min(pmd_addr_end(vmf->address, vmf->vma->vm_end),
			  start + MFS_AHEAD * PAGE_SIZE);
	} else {
		start = max(block, vmf->vma->vm_start);
		end = min(block + FBMM_AROUND, vmf->vma->vm_end);
	}
	index = linear_page_index(vmf->vma, start);
	most = (end - start) / PAGE_SIZE;
	for (nr = 0; nr < most; nr++) {
		folios[nr] = mfs_claim_base(mi, index + nr);
		if (upwards && !folios[nr])
			break;
	}
	if (nr)
		fbmm_allow_writes(vmf, start, folios, nr);
}

/*
 * The same of private memory's base page, which nothing else maps: it, or a copy, is mapped
 * for writing at once.
 */
static vm_fault_t mfs_do_write(struct vm_fault *vmf)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	struct folio *folio = page_folio(vmf->page);
	struct mfs_inode *mi = mfs_inode(inode);
	enum fbmm_writes writes = FBMM_WRITES_HERE;
	int err = 0;

	filemap_invalidate_lock(inode->i_mapping);
	if (xa_load(&mi->folios, vmf->pgoff) == folio) {
		if (!mfs_claim(mi, vmf->pgoff, folio, 1))
			err = mfs_unshare(mi, vmf->pgoff, folio, vmf);
		else if (!fbmm_map_written(vmf, folio, &writes))
			mfs_unmap(mi, vmf->pgoff, 1);
		if (writes != FBMM_WRITES_HERE)
			mfs_claim_near(vmf, mi, writes);
	}
	filemap_invalidate_unlock(inode->i_mapping);
	mfs_swap_wait(mfs_super(inode->i_sb), &err);	/* then it faults again */
	return err ? mfs_error(err) : VM_FAULT_NOPAGE;
}

static vm_fault_t mfs_page_mkwrite(struct vm_fault *vmf)
{
	const struct address_space *mapping = vmf->vma->vm_file->f_mapping;

	if (test_bit(AS_FBMM, &mapping->flags) && pte_present(vmf->orig_pte) &&
	    !folio_test_large(page_folio(vmf->page)))
		return mfs_charge_owner(vmf, mfs_do_write);
	return mfs_charge_owner(vmf, mfs_do_mkwrite);
}

/*
 * The page of zeros makes way for one that can be written; at once, or who pins it for
 * reading would have it mapped again and again. Where there is room for a large
 * folio, all pages of zeros there do, and the next fault maps it.
 */
static vm_fault_t mfs_pfn_mkwrite(struct vm_fault *vmf)
{
	struct mfs_inode *mi = mfs_inode(file_inode(vmf->vma->vm_file));
	pgoff_t first, end;
	vm_fault_t ret;

	mfs_window(vmf, &first, &end);
	if (!mfs_order(mi, vmf->pgoff, first, end) || !fbmm_drop_zeros(vmf))
		mfs_unmap(mi, vmf->pgoff, 1);
	ret = mfs_fault(vmf);
	if (!(ret & VM_FAULT_LOCKED))
		return ret;
	unlock_page(vmf->page);
	put_page(vmf->page);
	vmf->page = NULL;
	return VM_FAULT_NOPAGE;
}

/*
 * Whether @nr pages of a large folio at @addr are not to be mapped by themselves:
 * while nothing else is mapped there, ->fault() maps it as a whole, which a page
 * table would be in the way of from then on.
 */
static bool mfs_wants_whole(struct vm_fault *vmf, pgoff_t size, pgoff_t nr,
			    unsigned long addr)
{
	return size == HPAGE_PMD_NR && nr < size &&
	       thp_vma_suitable_order(vmf->vma, addr, PMD_ORDER) &&
	       pmd_none(pmdp_get_lockless(vmf->pmd));
}

/* Map what is there; called under RCU, so nothing here may wait. */
static vm_fault_t mfs_map_pages(struct vm_fault *vmf, pgoff_t start, pgoff_t last)
{
	struct vm_area_struct *vma = vmf->vma;
	struct inode *inode = file_inode(vma->vm_file);
	struct mfs_inode *mi = mfs_inode(inode);
	const bool write = vmf->flags & FAULT_FLAG_WRITE;
	vm_fault_t ret = 0;
	struct folio *folio;
	unsigned long index;

	if (!filemap_invalidate_trylock_shared(inode->i_mapping))
		return 0;
	xa_for_each_range(&mi->folios, index, folio, start, last) {
		const pgoff_t size = mfs_entry_pages(folio);
		const pgoff_t base = ALIGN_DOWN(index, size);
		const pgoff_t from = max(base, start);
		const pgoff_t nr = min(base + size, last + 1) - from;
		const unsigned long addr = vma->vm_start +
			((from - vma->vm_pgoff) << PAGE_SHIFT);

		if (xa_is_value(folio) || mfs_wants_whole(vmf, size, nr, addr) ||
		    !folio_trylock(folio))
			continue;
		if ((!write || mfs_owned(mi, folio)) &&
		    !mfs_poisoned(folio_file_page(folio, from), nr)) {
			if (fbmm_map_folio(vmf, folio, folio_file_page(folio, from),
					   nr, addr) &&
			    in_range(vmf->pgoff, from, nr))
				ret = VM_FAULT_NOPAGE;
		}
		folio_unlock(folio);
	}
	filemap_invalidate_unlock_shared(inode->i_mapping);
	return ret;
}

static const struct vm_operations_struct mfs_vm_operations = {
	.fault		= mfs_fault,
	.map_pages	= mfs_map_pages,
	.page_mkwrite	= mfs_page_mkwrite,
	.pfn_mkwrite	= mfs_pfn_mkwrite,
};

static int mfs_mmap(struct file *file, struct vm_area_struct *vma)
{
	vma->vm_ops = &mfs_vm_operations;
	return 0;
}

/* Pages looked at before who waits for the file's lock gets it */
#define MFS_FILL_AT_ONCE	1024

/* Fill some holes from *@index on, which is moved on, at most to @end. */
static long mfs_fill_some(struct mfs_inode *mi, pgoff_t first, pgoff_t end,
			  pgoff_t *index)
{
	const pgoff_t stop = min(end, *index + MFS_FILL_AT_ONCE);
	struct folio *folio;
	long done;

	while (*index < stop) {
		folio = xa_load(&mi->folios, *index);
		if (folio) {
			*index = mfs_next(*index, folio);
			continue;
		}
		if (fatal_signal_pending(current))
			return -EINTR;
		done = mfs_fill_hole(mi, *index, first, end);
		if (done < 0)
			return done;
		*index += done;
		cond_resched();
	}
	return 0;
}

static int mfs_fill_range(struct inode *inode, pgoff_t first, pgoff_t end)
{
	pgoff_t index = first;
	int err;

	do {
		filemap_invalidate_lock_shared(inode->i_mapping);
		err = mfs_fill_some(mfs_inode(inode), first, end, &index);
		filemap_invalidate_unlock_shared(inode->i_mapping);
	} while (mfs_swap_wait(mfs_super(inode->i_sb), &err) || (!err && index < end));
	return err;
}

static int mfs_punch_range(struct inode *inode, pgoff_t first, pgoff_t end, bool mapped)
{
	int tries = MFS_TRIES;
	int err;

	do {
		filemap_invalidate_lock(inode->i_mapping);
		if (mapped)
			mfs_unmap(mfs_inode(inode), first, end - first);
		err = mfs_punch(mfs_inode(inode), first, end);
		filemap_invalidate_unlock(inode->i_mapping);
	} while (mfs_try_again(err, &tries) || mfs_wait_turn(mfs_super(inode->i_sb), &err));
	/* The shim wants to know what stays; for others it is cleared. */
	if (err == -EBUSY && !test_bit(AS_FBMM, &inode->i_mapping->flags))
		return 0;
	return err;
}

/* For the OOM reaper: who holds the lock may be waiting for memory. */
static int mfs_reap_range(struct inode *inode, pgoff_t first, pgoff_t end)
{
	if (!down_write_trylock(&inode->i_mapping->invalidate_lock))
		return -EAGAIN;
	mfs_unmap(mfs_inode(inode), first, end - first);
	mfs_reap(mfs_inode(inode), first, end);
	filemap_invalidate_unlock(inode->i_mapping);
	return 0;
}

static int mfs_extend(struct inode *inode, loff_t size)
{
	int err;

	inode_lock(inode);
	err = inode_newsize_ok(inode, max(size, i_size_read(inode)));
	if (!err && size > i_size_read(inode))
		i_size_write(inode, size);
	inode_unlock(inode);
	return err;
}

/*
 * The shim calls this with mmap_lock held, so the inode lock is not taken; a
 * program that enlarges its file calls it without.
 */
static long mfs_fallocate(struct file *file, int mode, loff_t offset, loff_t len)
{
	struct inode *inode = file_inode(file);
	const pgoff_t first = offset >> PAGE_SHIFT;
	const pgoff_t end = (offset + len) >> PAGE_SHIFT;
	long err;

	if (!PAGE_ALIGNED(offset | len))
		return -EINVAL;
	switch (mode) {
	case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
		return mfs_punch_range(inode, first, end, true);
	case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE | FBMM_FALLOC_UNMAPPED:
		return mfs_punch_range(inode, first, end, false);
	case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE | FBMM_FALLOC_REAP:
		return mfs_reap_range(inode, first, end);
	case 0:
		err = mfs_extend(inode, offset + len);
		if (err)
			return err;
		fallthrough;
	case FALLOC_FL_KEEP_SIZE:
		return mfs_fill_range(inode, first, end);
	case FBMM_FALLOC_LOCK:
		return mfs_may_lock(mfs_super(inode->i_sb), end - first);
	default:
		return -EOPNOTSUPP;
	}
}

/* The first place from @index on that has a page, or has none; or @end. */
static pgoff_t mfs_seek(struct mfs_inode *mi, pgoff_t index, pgoff_t end,
			bool data)
{
	unsigned long at = index;
	struct folio *folio;

	if (data)
		return xa_find(&mi->folios, &at, end - 1, XA_PRESENT) ?
			max(at, index) : end;
	while (at < end) {
		folio = xa_load(&mi->folios, at);
		if (!folio)
			return at;
		at = mfs_next(at, folio);
	}
	return end;
}

/* SEEK_DATA also tells a core dump which pages are only zeros. */
static loff_t mfs_llseek(struct file *file, loff_t offset, int whence)
{
	struct inode *inode = file_inode(file);
	const loff_t size = i_size_read(inode);
	pgoff_t at;

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return generic_file_llseek(file, offset, whence);
	if (offset < 0 || offset >= size)
		return -ENXIO;
	filemap_invalidate_lock_shared(inode->i_mapping);
	at = mfs_seek(mfs_inode(inode), offset >> PAGE_SHIFT,
		      size >> PAGE_SHIFT, whence == SEEK_DATA);
	filemap_invalidate_unlock_shared(inode->i_mapping);
	if (whence == SEEK_DATA && at == size >> PAGE_SHIFT)
		return -ENXIO;
	return vfs_setpos(file, max(offset, (loff_t)at << PAGE_SHIFT), size);
}

/* No recency of pages for the kernel's reclaim, which has none of them. */
static int mfs_open(struct inode *inode, struct file *file)
{
	file->f_mode |= FMODE_NOREUSE;
	return 0;
}

const struct file_operations mfs_file_operations = {
	.open			= mfs_open,
	.mmap			= mfs_mmap,
	.fallocate		= mfs_fallocate,
	.remap_file_range	= mfs_remap_file_range,
	.get_unmapped_area	= thp_get_unmapped_area,
	.llseek			= mfs_llseek,
	.fsync			= noop_fsync,
};

/* Nothing is ever written back. */
static bool mfs_dirty_folio(struct address_space *mapping, struct folio *folio)
{
	return false;
}

const struct address_space_operations mfs_aops = {
	.dirty_folio	= mfs_dirty_folio,
};
