/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of mm/dpt share. */
#ifndef __MM_DPT_INTERNAL_H
#define __MM_DPT_INTERNAL_H

#include <linux/dpt.h>
#include <linux/migrate_mode.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>

/* The metadata table of a level: as the processor sees it, and how full. */
struct dpt_dmt {
	struct dpt_line *line;
	unsigned int lines;
	/* Lines that are or were some group's */
	unsigned int used;
};

/* The table of exceptions: as the processor sees it, and how full. */
struct dpt_exceptions {
	/* Addresses of pages; NULL while there is no exception */
	u64 *folder;
	unsigned int pages;
	/* Slots that are or were some table's */
	unsigned int used;
};

/* Tables that were placed before they are needed, of neighbouring regions */
struct dpt_pool {
	unsigned long start;
	unsigned int regions;
	struct page **table;
};

enum dpt_pool_kind { DPT_POOL_HEAP, DPT_POOL_AREA, DPT_POOLS };

struct dpt_mm {
	/* First, so that it does not cross a line: read by the processor */
	struct dpt_space space;
	/* Changes of the tables' contents */
	spinlock_t lock;
	/* Replacing a table by a larger one */
	struct mutex grow;
	struct dpt_dmt dmt[DPT_LEVELS];
	struct dpt_exceptions exceptions;
	/* The last area that was looked at to choose an address */
	unsigned long area;
	struct dpt_pool pool[DPT_POOLS];
	/* Tasks whose last table found no room for its metadata */
	struct task_struct *without_line[16];
};

/* core.c */
struct page *dpt_pooled_alloc_noprof(struct mm_struct *mm, u64 tag);
#define dpt_pooled_alloc(...) alloc_hooks(dpt_pooled_alloc_noprof(__VA_ARGS__))
void dpt_pooled_free(struct dpt_mm *dpt, struct page *page);

/* pool.c */
struct page *dpt_pool_take(struct dpt_mm *dpt, u64 tag);
unsigned long dpt_pool_find(struct mm_struct *mm, unsigned long addr,
		unsigned long len);
void dpt_pool_destroy(struct dpt_mm *dpt);

/* table.c */
void dpt_await_walks(struct mm_struct *mm);
int dpt_dmt_init(struct dpt_mm *dpt, enum dpt_level level);
void dpt_dmt_destroy(struct dpt_mm *dpt, enum dpt_level level);
int dpt_dmt_get(struct mm_struct *mm, enum dpt_level level, u64 tag);
void dpt_dmt_put(struct dpt_mm *dpt, enum dpt_level level, u64 tag);
void dpt_dmt_set(struct dpt_mm *dpt, enum dpt_level level, u64 tag, u8 metadata);

/* exceptions.c */
int dpt_exception_add(struct mm_struct *mm, enum dpt_level level, u64 tag, u64 pfn);
bool dpt_exception_show(struct dpt_mm *dpt, enum dpt_level level, u64 tag, u64 pfn);
void dpt_exception_hide(struct dpt_mm *dpt, enum dpt_level level, u64 tag, u64 pfn);
void dpt_exception_del(struct dpt_mm *dpt, enum dpt_level level, u64 tag, u64 pfn);
void dpt_exceptions_destroy(struct dpt_mm *dpt);

/* place.c */
struct dpt_record;

/* A search for a place: what it is told, and what it finds */
struct dpt_request {
	u64 tag;
	u64 seed;
	gfp_t gfp;
	/* A page that may be used, for the table or for what is in its way */
	struct page **spare;
	/* Whether it follows one that failed: then it looks further away. */
	bool again;
	u8 metadata;
};

struct page *dpt_place(struct dpt_request *request);
bool dpt_would_fit(u64 tag, u64 seed);

/* frame.c */
enum dpt_use { DPT_FREE, DPT_MOVABLE, DPT_UNMOVABLE, DPT_TABLE };

enum dpt_use dpt_frame_use(u64 pfn, struct page *spare, enum dpt_level *size,
		bool *fragmented);
struct page *dpt_frame_take(u64 pfn, gfp_t gfp, struct page **spare);
struct page *dpt_frame_displace(u64 pfn, gfp_t gfp, struct page **spare,
		enum migrate_mode mode);

/* log.c */
enum dpt_step_kind {
	DPT_STEP_LOOK = 'l',
	DPT_STEP_BREAK = 'b',
	DPT_STEP_DISPLACE = 'd',
};

/* A step of a search: what a frame is used for, or whether it could be had */
struct dpt_step {
	u8 kind;
	u8 metadata;
	u8 use;
	u8 size;
	u8 fragmented;
	u8 done;
};

#define DPT_RECORD_STEPS 48

struct dpt_record {
	u64 tag;
	u64 seed;
	u8 max_soa_step;
	bool cpd;
	bool fap;
	bool prefer_fragmentation;
	u8 metadata;
	u8 steps;
	struct dpt_step step[DPT_RECORD_STEPS];
};

bool dpt_logging(void);
void dpt_log(const struct dpt_record *record);

extern u64 dpt_frames;
extern struct dpt_range dpt_ranges[];
extern unsigned int dpt_nr_ranges;
extern unsigned int dpt_dmt_lines[DPT_LEVELS];
extern unsigned int dpt_max_soa_step, dpt_far_soa_step;
extern unsigned int dpt_max_cva_count, dpt_max_cva_mib, dpt_ptp_mib;
extern unsigned long dpt_fixed_key;
extern bool dpt_cpd, dpt_fap, dpt_prefer_fragmentation;

/* stats.c */
enum dpt_counter {
	DPT_TABLES,
	DPT_TABLES_FREED,
	DPT_PROBES,
	DPT_COLLISIONS_DATA,
	DPT_COLLISIONS_TABLES,
	DPT_FRAGMENTED,
	DPT_BLOCKS_BROKEN,
	DPT_CPD_MOVES,
	DPT_CPD_FAILED,
	DPT_SPARE_FIT,
	DPT_LOST_RACES,
	DPT_SEARCHED_AGAIN,
	DPT_ANYWHERE,
	DPT_NO_MEMORY,
	DPT_NO_LINE,
	DPT_DMT_GROWN,
	DPT_EXCEPTIONS_GROWN,
	DPT_CVA_SEARCHES,
	DPT_CVA_ATTEMPTS,
	DPT_CVA_SUCCESSES,
	DPT_PTP_TABLES,
	DPT_PTP_SERVED,
	DPT_PTP_AREAS,
	DPT_UNPLACED,
	DPT_COUNTERS
};

struct dpt_counters {
	unsigned long count[DPT_COUNTERS];
	unsigned long placed[DPT_LEVELS][DPT_MAX_STEP + 1];
};

DECLARE_PER_CPU(struct dpt_counters, dpt_counters);

static inline void dpt_count(enum dpt_counter counter)
{
	this_cpu_inc(dpt_counters.count[counter]);
}

#endif /* __MM_DPT_INTERNAL_H */
