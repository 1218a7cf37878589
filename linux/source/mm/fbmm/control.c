// SPDX-License-Identifier: GPL-2.0
/*
 * Who has a default memory file system: the system's switch, fbmm=on or
 * /sys/kernel/mm/fbmm/enabled, the setting of each address space, and counters.
 */
#include <linux/fbmm.h>
#include <linux/kobject.h>
#include <linux/namei.h>
#include <linux/sysfs.h>

#include "internal.h"

/**
 * fbmm_get_dir - ask for the default memory file system
 * @mm: the address space
 * @dir: its directory; the caller releases it with path_put()
 *
 * Return: whether there is one.
 */
bool fbmm_get_dir(struct mm_struct *mm, struct path *dir)
{
	bool found = false;

	mmap_read_lock(mm);
	if (mm->fbmm) {
		*dir = mm->fbmm->dir;
		path_get(dir);
		found = true;
	}
	mmap_read_unlock(mm);
	return found;
}

/**
 * fbmm_set_dir - choose the default memory file system
 * @mm: the address space
 * @dir: a directory of a memory file system, or NULL for none
 *
 * Mappings that exist stay as they are, with the files they have.
 *
 * Return: 0; -EOPNOTSUPP if the system's switch is off, -EINVAL if the file
 * system is none for memory, -EACCES if the caller may not make files there.
 */
int fbmm_set_dir(struct mm_struct *mm, const struct path *dir)
{
	struct fbmm *fbmm = NULL, *old;
	int err;

	if (dir) {
		if (!READ_ONCE(fbmm_enabled))
			return -EOPNOTSUPP;
		if (!(dir->dentry->d_sb->s_type->fs_flags & FS_MEMORY))
			return -EINVAL;
		err = path_permission(dir, MAY_WRITE | MAY_EXEC);
		if (err)
			return err;
		fbmm = fbmm_alloc(dir, current_cred());
		if (!fbmm)
			return -ENOMEM;
	}
	if (mmap_write_lock_killable(mm)) {
		fbmm_free(fbmm);
		return -EINTR;
	}
	old = mm->fbmm;
	mm->fbmm = fbmm;
	mmap_write_unlock(mm);
	fbmm_free(old);
	return 0;
}

/* The switch and the counters */

/* The key stays on: mappings may exist that its hooks are for. */
static void fbmm_enable(bool on)
{
	if (on)
		static_branch_enable(&fbmm_key);
	WRITE_ONCE(fbmm_enabled, on);
}

static int __init fbmm_setup(char *arg)
{
	bool on;

	if (!arg || kstrtobool(arg, &on)) {
		pr_warn("fbmm: expected fbmm=on or fbmm=off\n");
		return 0;
	}
	fbmm_enable(on);
	return 0;
}
early_param("fbmm", fbmm_setup);

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(fbmm_enabled));
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	bool on;
	int err = kstrtobool(buf, &on);

	if (err)
		return err;
	fbmm_enable(on);
	return count;
}
static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

static ssize_t fbmm_event_show(char *buf, enum fbmm_event event)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(fbmm_events, cpu)[event];
	return sysfs_emit(buf, "%lu\n", sum);
}

#define FBMM_EVENT_ATTR(_name, _event)					\
static ssize_t _name##_show(struct kobject *kobj,			\
			    struct kobj_attribute *attr, char *buf)	\
{									\
	return fbmm_event_show(buf, _event);				\
}									\
static struct kobj_attribute _name##_attr = __ATTR_RO(_name)

FBMM_EVENT_ATTR(files, FBMM_FILES);
FBMM_EVENT_ATTR(mmaps, FBMM_MMAP);
FBMM_EVENT_ATTR(brks, FBMM_BRK);
FBMM_EVENT_ATTR(munmaps, FBMM_MUNMAP);
FBMM_EVENT_ATTR(forks, FBMM_FORK);
FBMM_EVENT_ATTR(mremaps, FBMM_MREMAP);

static struct attribute *fbmm_attrs[] = {
	&enabled_attr.attr,
	&files_attr.attr,
	&mmaps_attr.attr,
	&brks_attr.attr,
	&munmaps_attr.attr,
	&forks_attr.attr,
	&mremaps_attr.attr,
	NULL
};

static const struct attribute_group fbmm_attr_group = {
	.name = "fbmm",
	.attrs = fbmm_attrs,
};

static int __init fbmm_sysfs_init(void)
{
	return sysfs_create_group(mm_kobj, &fbmm_attr_group);
}
subsys_initcall(fbmm_sysfs_init);
