// SPDX-License-Identifier: GPL-2.0
/*
 * /proc/PID/fbmm_mount_dir: the memory file system that a process's private
 * anonymous memory comes from; empty if it is the kernel's. See mm/fbmm/core.c.
 */
#include <linux/fbmm.h>
#include <linux/limits.h>
#include <linux/namei.h>
#include <linux/ptrace.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "internal.h"

static struct mm_struct *fbmm_mm(struct file *file, unsigned int mode)
{
	struct task_struct *task = get_proc_task(file_inode(file));
	struct mm_struct *mm;

	if (!task)
		return ERR_PTR(-ESRCH);
	mm = mm_access(task, mode);
	put_task_struct(task);
	return mm ? mm : ERR_PTR(-ESRCH);
}

static ssize_t fbmm_mount_dir_read(struct file *file, char __user *buf,
				   size_t count, loff_t *ppos)
{
	struct mm_struct *mm = fbmm_mm(file, PTRACE_MODE_READ_FSCREDS);
	char *page, *name;
	struct path dir;
	ssize_t ret;
	bool found;

	if (IS_ERR(mm))
		return PTR_ERR(mm);
	found = fbmm_get_dir(mm, &dir);
	mmput(mm);
	if (!found)
		return 0;

	ret = -ENOMEM;
	page = (char *)__get_free_page(GFP_KERNEL);
	if (!page)
		goto put_dir;
	name = d_path(&dir, page, PAGE_SIZE - 1);
	if (IS_ERR(name)) {
		ret = PTR_ERR(name);
	} else {
		ret = strlen(name);
		name[ret++] = '\n';
		ret = simple_read_from_buffer(buf, count, ppos, name, ret);
	}
	free_page((unsigned long)page);
put_dir:
	path_put(&dir);
	return ret;
}

static ssize_t fbmm_mount_dir_write(struct file *file, const char __user *buf,
				    size_t count, loff_t *ppos)
{
	struct mm_struct *mm;
	struct path dir;
	char *name;
	int err;

	/* A program with more rights may have been given the file to write to. */
	if (!uid_eq(file->f_cred->fsuid, current_fsuid()) ||
	    !gid_eq(file->f_cred->fsgid, current_fsgid()) ||
	    file->f_cred->user_ns != current_user_ns() ||
	    !cap_issubset(current_cred()->cap_effective, file->f_cred->cap_effective))
		return -EPERM;
	if (*ppos || count >= PATH_MAX)
		return -EINVAL;
	name = memdup_user_nul(buf, count);
	if (IS_ERR(name))
		return PTR_ERR(name);
	strim(name);
	if (*name) {
		err = kern_path(name, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &dir);
		if (err)
			goto free_name;
	}

	mm = fbmm_mm(file, PTRACE_MODE_ATTACH_FSCREDS);
	if (IS_ERR(mm)) {
		err = PTR_ERR(mm);
	} else {
		err = fbmm_set_dir(mm, *name ? &dir : NULL);
		mmput(mm);
	}
	if (*name)
		path_put(&dir);
free_name:
	kfree(name);
	return err ? err : count;
}

const struct file_operations proc_fbmm_mount_dir_operations = {
	.read		= fbmm_mount_dir_read,
	.write		= fbmm_mount_dir_write,
	.llseek		= generic_file_llseek,
};
