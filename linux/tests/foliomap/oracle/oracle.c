// SPDX-License-Identifier: GPL-2.0
/*
 * The oracle for folio accounting: walk the page tables of all processes,
 * count for every large folio how often and by whom it is mapped, and compare
 * with what the kernel believes (belief.h). It shares no code with it: the truth
 * is a table of (folio, address space, mappings).
 *
 * Reading /proc/folio_oracle checks everything. Programs that map memory must
 * stand still meanwhile; kernel threads may interfere, so that a difference
 * counts only if it is in every walk for some seconds. Writing the address of a
 * large folio to it adds a mapping that does not exist to the folio, writing 0
 * takes it back: a check in between must fail, or the oracle is blind.
 */
#include <linux/delay.h>
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "belief.h"

/* What must pass before a difference counts, or a lack of memory */
#define WALKS		6
#define SECONDS		10

struct sharer {
	struct sharer *next;
	struct mm_struct *mm;
	unsigned int mappings;
};

struct seen {
	struct folio *folio;
	unsigned int mappings;
	unsigned int entire;
	unsigned int nr_sharers;
	struct sharer *sharers;		/* the one walked last first */
	/* How often each page is mapped by a PTE. */
	unsigned short pages[];
};

struct check {
	struct xarray folios;		/* by the head's pfn */
	struct mm_struct **mms;
	unsigned int nr_mms;
	unsigned long wrong;
	unsigned long exclusive;
	unsigned long unsure;		/* and of these not known to be */
	unsigned long disk;		/* folios of files on disk */
	struct seq_file *report;	/* on the last walk only */
};

static struct folio *broken;

/* With a reference, which keeps reclaim and khugepaged from splitting the folio. */
static struct seen *add_folio(struct check *check, struct folio *folio)
{
	const long nr_pages = folio_nr_pages(folio);
	struct seen *seen = kzalloc(struct_size(seen, pages, nr_pages), GFP_ATOMIC);

	if (!seen)
		return NULL;
	seen->folio = folio;
	if (xa_err(xa_store(&check->folios, folio_pfn(folio), seen, GFP_ATOMIC))) {
		kfree(seen);
		return NULL;
	}
	return seen;
}

/* Address spaces are walked one after the other. */
static int add_mapping(struct seen *seen, struct mm_struct *mm)
{
	struct sharer *sharer = seen->sharers;

	if (!sharer || sharer->mm != mm) {
		sharer = kzalloc(sizeof(*sharer), GFP_ATOMIC);
		if (!sharer)
			return -ENOMEM;
		sharer->mm = mm;
		sharer->next = seen->sharers;
		seen->sharers = sharer;
		seen->nr_sharers++;
	}
	sharer->mappings++;
	seen->mappings++;
	return 0;
}

static int record(struct check *check, struct mm_struct *mm, struct page *page,
		  bool entire)
{
	struct folio *folio = page_folio(page);
	struct seen *seen;

	/* Neither hugetlb nor the huge zero folio are. */
	if (!folio_test_large(folio) || !folio_test_large_rmappable(folio))
		return 0;

	seen = xa_load(&check->folios, folio_pfn(folio));
	if (!seen) {
		if (!folio_try_get(folio))
			return 0;
		if (page_folio(page) != folio || !folio_test_large(folio)) {
			folio_put(folio);
			return 0;
		}
		seen = add_folio(check, folio);
		if (!seen) {
			folio_put(folio);
			return -ENOMEM;
		}
	}
	if (entire)
		seen->entire++;
	else
		seen->pages[folio_page_idx(folio, page)]++;
	return add_mapping(seen, mm);
}

static void forget(struct seen *seen)
{
	struct sharer *sharer;

	while (seen->sharers) {
		sharer = seen->sharers;
		seen->sharers = sharer->next;
		kfree(sharer);
	}
	folio_put(seen->folio);
	kfree(seen);
}

/* One PMD's worth of addresses, or less at the ends of a VMA. */
static int walk_pmd(struct check *check, struct vm_area_struct *vma,
		    unsigned long addr, unsigned long end)
{
	pgd_t *pgd = pgd_offset(vma->vm_mm, addr);
	int err = 0;
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;
	pmd_t pmdval;
	pte_t *pte;

	if (pgd_none(*pgd))
		return 0;
	p4d = p4d_offset(pgd, addr);
	if (p4d_none(*p4d))
		return 0;
	pud = pud_offset(p4d, addr);
	if (pud_none(*pud) || pud_leaf(*pud))
		return 0;
	pmd = pmd_offset(pud, addr);
	pmdval = READ_ONCE(*pmd);
	if (!pmd_present(pmdval))
		return 0;
	if (pmd_leaf(pmdval))
		return record(check, vma->vm_mm, pmd_page(pmdval), true);

	pte = pte_offset_kernel(&pmdval, addr);
	for (; addr < end && !err; addr += PAGE_SIZE, pte++) {
		const pte_t val = READ_ONCE(*pte);

		if (!pte_present(val) || pte_special(val) ||
		    !pfn_valid(pte_pfn(val)))
			continue;
		err = record(check, vma->vm_mm, pte_page(val), false);
	}
	return err;
}

static int walk_mm(struct check *check, struct mm_struct *mm)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;
	int err = 0;

	/* Against khugepaged's collapse; page tables are freed by RCU. */
	mmap_write_lock(mm);
	rcu_read_lock();
	for_each_vma(vmi, vma) {
		unsigned long addr = vma->vm_start;

		if (vma->vm_flags & (VM_PFNMAP | VM_HUGETLB))
			continue;
		while (addr < vma->vm_end && !err) {
			const unsigned long end = min(ALIGN(addr + 1, PMD_SIZE),
						      vma->vm_end);

			err = walk_pmd(check, vma, addr, end);
			addr = end;
		}
	}
	rcu_read_unlock();
	mmap_write_unlock(mm);
	return err;
}

/* Take a reference to every address space, each once. */
static int collect_mms(struct check *check)
{
	struct task_struct *task;
	unsigned int room = 0, i;

	rcu_read_lock();
	for_each_process(task)
		room++;
	rcu_read_unlock();
	room += 64;
	check->mms = kcalloc(room, sizeof(*check->mms), GFP_KERNEL);
	if (!check->mms)
		return -ENOMEM;

	rcu_read_lock();
	for_each_process(task) {
		struct mm_struct *mm = get_task_mm(task);

		if (!mm)
			continue;
		for (i = 0; i < check->nr_mms && check->mms[i] != mm; i++)
			;
		if (i < check->nr_mms || check->nr_mms == room) {
			mmput_async(mm);
			continue;
		}
		check->mms[check->nr_mms++] = mm;
	}
	rcu_read_unlock();
	return 0;
}

static __printf(3, 4) void wrong(struct check *check, const struct seen *seen,
				 const char *fmt, ...)
{
	struct va_format what = { .fmt = fmt };
	va_list args;

	check->wrong++;
	if (!check->report)
		return;
	va_start(args, fmt);
	what.va = &args;
	seq_printf(check->report, "pfn %#lx order %u %s: %pV\n",
		   folio_pfn(seen->folio), folio_order(seen->folio),
		   folio_test_anon(seen->folio) ? "anon" : "file", &what);
	va_end(args);
}

static void compare(struct check *check, struct seen *seen)
{
	struct folio *folio = seen->folio;
	const long nr_pages = folio_nr_pages(folio);
	const struct sharer *sharer;
	long page;

	if (folio_mapcount(folio) != seen->mappings)
		wrong(check, seen, "map count %d, found %u", folio_mapcount(folio),
		      seen->mappings);
	if (folio_entire_mapcount(folio) != seen->entire)
		wrong(check, seen, "entire map count %d, found %u",
		      folio_entire_mapcount(folio), seen->entire);

	for (page = 0; page < nr_pages; page++) {
		const int count = atomic_read(&folio_page(folio, page)->_mapcount) + 1;
		const int expected = counts_pages() ? seen->pages[page] : 0;

		if (count != expected) {
			wrong(check, seen, "page %ld has map count %d, expected %d",
			      page, count, expected);
			break;
		}
	}

	if (!answers())
		return;
	for (sharer = seen->sharers; sharer; sharer = sharer->next) {
		/* More mappings than pages are shared by definition. */
		const bool shared = seen->nr_sharers > 1 ||
				    seen->mappings > nr_pages;
		const bool believed = believed_shared(folio, sharer->mm);

		check->exclusive += !shared;
		if (exact() ? believed != shared : !believed && seen->nr_sharers > 1)
			wrong(check, seen,
			      "said to be %s, mapped by %u address spaces (%u of %u by this one)",
			      shared ? "exclusive" : "shared", seen->nr_sharers,
			      sharer->mappings, seen->mappings);
		else
			check->unsure += believed && !shared;
	}
}

static int walk_all(struct check *check, unsigned long *nr_folios)
{
	unsigned long index;
	struct seen *seen;
	unsigned int i;
	int err;

	xa_init(&check->folios);
	check->nr_mms = 0;
	check->wrong = 0;
	check->exclusive = 0;
	check->unsure = 0;
	check->disk = 0;
	*nr_folios = 0;

	err = collect_mms(check);
	for (i = 0; i < check->nr_mms && !err; i++)
		err = walk_mm(check, check->mms[i]);
	xa_for_each(&check->folios, index, seen) {
		if (!err)
			compare(check, seen);
		(*nr_folios)++;
		/* Anonymous memory and shmem are backed by swap. */
		check->disk += !folio_test_swapbacked(seen->folio);
		forget(seen);
		cond_resched();
	}
	xa_destroy(&check->folios);
	for (i = 0; i < check->nr_mms; i++)
		mmput(check->mms[i]);
	kfree(check->mms);
	return err;
}

static int oracle_show(struct seq_file *file, void *unused)
{
	const unsigned long deadline = jiffies + SECONDS * HZ;
	struct check check = {};
	unsigned long folios;
	bool last;
	int walk, err;

	for (walk = 1;; walk++) {
		last = walk >= WALKS && time_after(jiffies, deadline);
		check.report = last ? file : NULL;
		err = walk_all(&check, &folios);
		if (last || (!err && !check.wrong))
			break;
		msleep(50);
	}
	if (err)
		return err;
	seq_printf(file, "spaces %u folios %lu disk %lu exclusive %lu wrong %lu unsure %lu\n",
		   check.nr_mms, folios, check.disk, check.exclusive, check.wrong,
		   check.unsure);
	return 0;
}

static int oracle_open(struct inode *inode, struct file *file)
{
	return single_open_size(file, oracle_show, NULL, 1 << 20);
}

/* Lie about a large folio of the writer's: the one at the address written. */
static ssize_t oracle_write(struct file *file, const char __user *buf,
			    size_t len, loff_t *pos)
{
	unsigned long addr;
	struct page *page;
	int err;

	err = kstrtoul_from_user(buf, len, 0, &addr);
	if (err)
		return err;
	if (!addr) {
		if (broken) {
			atomic_dec(&broken->_large_mapcount);
			folio_put(broken);
			broken = NULL;
		}
		return len;
	}
	if (broken)
		return -EBUSY;
	if (get_user_pages_fast(addr, 1, 0, &page) != 1)
		return -EFAULT;
	broken = page_folio(page);
	if (!folio_test_large(broken)) {
		folio_put(broken);
		broken = NULL;
		return -EINVAL;
	}
	atomic_inc(&broken->_large_mapcount);
	return len;
}

static const struct proc_ops oracle_ops = {
	.proc_open	= oracle_open,
	.proc_read	= seq_read,
	.proc_lseek	= seq_lseek,
	.proc_release	= single_release,
	.proc_write	= oracle_write,
};

static int __init oracle_init(void)
{
	return proc_create("folio_oracle", 0600, NULL, &oracle_ops) ? 0 : -ENOMEM;
}

static void __exit oracle_exit(void)
{
	remove_proc_entry("folio_oracle", NULL);
}

module_init(oracle_init);
module_exit(oracle_exit);
MODULE_DESCRIPTION("Compares folio accounting with the page tables");
MODULE_LICENSE("GPL");
