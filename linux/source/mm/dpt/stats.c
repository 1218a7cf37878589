// SPDX-License-Identifier: GPL-2.0
/* Parameters of the distributed page table, and its counters under debugfs. */
#include <linux/debugfs.h>
#include <linux/log2.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>

#include "internal.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "dpt."

/* Table I of the paper, but for tables that grow to the size they need */
unsigned int dpt_max_soa_step = 4;
/* Of the second search, when those failed */
unsigned int dpt_far_soa_step = DPT_MAX_STEP;
unsigned int dpt_max_cva_count = 4;
unsigned int dpt_max_cva_mib = 128;
unsigned int dpt_ptp_mib;
/* For runs that are to be alike; 0: secret */
unsigned long dpt_fixed_key;
bool dpt_cpd = true;
bool dpt_fap = true;
bool dpt_prefer_fragmentation;
unsigned int dpt_dmt_lines[DPT_LEVELS] = { 64, 64, 64 };

static int set_step(const char *value, const struct kernel_param *kp)
{
	return param_set_uint_minmax(value, kp, 0, DPT_MAX_STEP);
}

static const struct kernel_param_ops step_ops = {
	.set = set_step,
	.get = param_get_uint,
};

static int set_pool(const char *value, const struct kernel_param *kp)
{
	return param_set_uint_minmax(value, kp, 0, 1024);
}

static const struct kernel_param_ops pool_ops = {
	.set = set_pool,
	.get = param_get_uint,
};

/* From a page to what the buddy allocator has in one piece */
static int set_lines(const char *value, const struct kernel_param *kp)
{
	unsigned int lines;
	int error = kstrtouint(value, 0, &lines);

	if (error)
		return error;
	if (!is_power_of_2(lines) || lines < 64 || lines > 65536)
		return -EINVAL;
	*(unsigned int *)kp->arg = lines;
	return 0;
}

static const struct kernel_param_ops lines_ops = {
	.set = set_lines,
	.get = param_get_uint,
};

module_param_cb(max_soa_step, &step_ops, &dpt_max_soa_step, 0644);
module_param_cb(far_soa_step, &step_ops, &dpt_far_soa_step, 0644);
module_param_named(key, dpt_fixed_key, ulong, 0400);
module_param_named(max_cva_count, dpt_max_cva_count, uint, 0644);
module_param_named(max_cva_mib, dpt_max_cva_mib, uint, 0644);
module_param_cb(ptp_mib, &pool_ops, &dpt_ptp_mib, 0644);
module_param_named(cpd, dpt_cpd, bool, 0644);
module_param_named(fap, dpt_fap, bool, 0644);
module_param_named(prefer_fragmentation, dpt_prefer_fragmentation, bool, 0644);
module_param_cb(dmt_4k, &lines_ops, &dpt_dmt_lines[DPT_4K], 0644);
module_param_cb(dmt_2m, &lines_ops, &dpt_dmt_lines[DPT_2M], 0644);
module_param_cb(dmt_1g, &lines_ops, &dpt_dmt_lines[DPT_1G], 0644);

static const char * const names[DPT_COUNTERS] = {
	[DPT_TABLES] = "tables",
	[DPT_TABLES_FREED] = "tables_freed",
	[DPT_PROBES] = "probes",
	[DPT_COLLISIONS_DATA] = "collisions_with_data",
	[DPT_COLLISIONS_TABLES] = "collisions_with_tables",
	[DPT_FRAGMENTED] = "fap_hits",
	[DPT_BLOCKS_BROKEN] = "fap_blocks_broken",
	[DPT_CPD_MOVES] = "cpd_moves",
	[DPT_CPD_FAILED] = "cpd_failed",
	[DPT_SPARE_FIT] = "spare_fit",
	[DPT_LOST_RACES] = "lost_races",
	[DPT_SEARCHED_AGAIN] = "searched_again",
	[DPT_ANYWHERE] = "placed_anywhere",
	[DPT_NO_MEMORY] = "no_memory",
	[DPT_NO_LINE] = "no_line",
	[DPT_DMT_GROWN] = "dmt_grown",
	[DPT_EXCEPTIONS_GROWN] = "exceptions_grown",
	[DPT_CVA_SEARCHES] = "cva_searches",
	[DPT_CVA_ATTEMPTS] = "cva_attempts",
	[DPT_CVA_SUCCESSES] = "cva_successes",
	[DPT_PTP_TABLES] = "ptp_tables",
	[DPT_PTP_SERVED] = "ptp_served",
	[DPT_PTP_AREAS] = "ptp_areas",
	[DPT_UNPLACED] = "unplaced",
};

static int stats_show(struct seq_file *file, void *unused)
{
	static const char * const strides[DPT_LEVELS] = { "1", "512", "256K" };
	struct dpt_counters sum = {};
	int cpu, counter, stride, step;

	for_each_possible_cpu(cpu) {
		struct dpt_counters *part = &per_cpu(dpt_counters, cpu);

		for (counter = 0; counter < DPT_COUNTERS; counter++)
			sum.count[counter] += part->count[counter];
		for (stride = 0; stride < DPT_LEVELS; stride++)
			for (step = 0; step <= DPT_MAX_STEP; step++)
				sum.placed[stride][step] += part->placed[stride][step];
	}
	for (counter = 0; counter < DPT_COUNTERS; counter++)
		seq_printf(file, "%s %lu\n", names[counter], sum.count[counter]);
	for (stride = 0; stride < DPT_LEVELS; stride++)
		for (step = 0; step <= DPT_MAX_STEP; step++)
			if (sum.placed[stride][step])
				seq_printf(file, "placed_%s_%d %lu\n",
					   strides[stride], step,
					   sum.placed[stride][step]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

/* Memory that the hash names: for each range its first page, and how many */
static int ranges_show(struct seq_file *file, void *unused)
{
	unsigned int i;

	for (i = 0; i < dpt_nr_ranges; i++)
		seq_printf(file, "%llx %llu\n", dpt_ranges[i].start, dpt_ranges[i].frames);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ranges);

static int __init dpt_debugfs(void)
{
	struct dentry *folder;

	if (!dpt_enabled())
		return 0;
	folder = debugfs_create_dir("dpt", NULL);
	debugfs_create_file("stats", 0444, folder, NULL, &stats_fops);
	debugfs_create_file("ranges", 0400, folder, NULL, &ranges_fops);
	return 0;
}
late_initcall(dpt_debugfs);
