// SPDX-License-Identifier: GPL-2.0
/*
 * What a search for a place saw and did, for the first so many tables: whoever
 * has the same rules comes to the same place. Under debugfs.
 */
#include <linux/debugfs.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "internal.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "dpt."

static unsigned int limit;
module_param_named(log, limit, uint, 0444);

static struct dpt_record *records;
static atomic_t number;

bool dpt_logging(void)
{
	return READ_ONCE(records) && atomic_read(&number) < limit;
}

void dpt_log(const struct dpt_record *record)
{
	int place;

	if (!dpt_logging())
		return;
	place = atomic_inc_return(&number) - 1;
	if (place < limit)
		records[place] = *record;
}

/* A step in at most seven characters; how many they are */
static int print_step(char *text, size_t size, const struct dpt_step *step)
{
	static const char use[] = { 'F', 'M', 'U', 'T' };

	if (step->kind == DPT_STEP_LOOK)
		return scnprintf(text, size, " %c%02x%c%u%u", step->kind,
				 step->metadata, use[step->use], step->size,
				 step->fragmented);
	return scnprintf(text, size, " %c%02x%c", step->kind, step->metadata,
			 step->done ? '+' : '-');
}

static int print_steps(char *text, size_t size, const struct dpt_record *record)
{
	int length = 0, i;

	text[0] = '\0';
	for (i = 0; i < min_t(int, record->steps, DPT_RECORD_STEPS); i++)
		length += print_step(text + length, size - length, &record->step[i]);
	return length;
}

static int log_show(struct seq_file *file, void *unused)
{
	int count = min_t(int, atomic_read(&number), limit);
	char text[DPT_RECORD_STEPS * 7 + 1];
	int i;

	for (i = 0; i < count; i++) {
		const struct dpt_record *record = &records[i];

		/* Not written yet, or there was too much to remember */
		if (!record->steps || record->steps > DPT_RECORD_STEPS)
			continue;
		print_steps(text, sizeof(text), record);
		seq_printf(file, "%llx %llx %llu %u %d %d %d %02x%s\n", record->tag,
			   record->seed, dpt_frames, record->max_soa_step,
			   record->cpd, record->fap, record->prefer_fragmentation,
			   record->metadata, text);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(log);

static int __init dpt_log_init(void)
{
	struct dpt_record *room;
	struct dentry *folder;

	if (!dpt_enabled() || !limit)
		return 0;
	room = vcalloc(limit, sizeof(*room));
	if (!room)
		return -ENOMEM;
	folder = debugfs_lookup("dpt", NULL);
	debugfs_create_file("log", 0400, folder, NULL, &log_fops);
	dput(folder);
	/* Whoever sees it may write to it. */
	smp_store_release(&records, room);
	return 0;
}
late_initcall_sync(dpt_log_init);
