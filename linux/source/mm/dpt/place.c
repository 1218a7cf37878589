// SPDX-License-Identifier: GPL-2.0
/*
 * Where a page of page table entries goes: the hash, strided open addressing
 * (SOA), fragmentation-aware allocation (FAP) and, where those fail, the
 * frames that were met on the way: free ones in a whole block, and those whose
 * data can be moved (CPD). Sections V and VI and figure 12 of the paper.
 */
#include <linux/gfp.h>
#include <linux/mm.h>

#include "internal.h"

/* The hash, and per stride as many steps as there may be */
#define MAX_CANDIDATES	(1 + DPT_LEVELS * DPT_MAX_STEP)

struct search {
	u64 base;
	gfp_t gfp;
	struct page **spare;
	/* How hard to try to move what is in the way */
	enum migrate_mode mode;
	/* How many steps of each stride */
	unsigned int steps;
	/* Whether a frame is only to be found, not taken */
	bool dry;
	/* The first free frame in a block that is not fragmented */
	u8 whole;
	/* Frames of movable data */
	unsigned int movables;
	u8 movable[MAX_CANDIDATES];
	u8 size[MAX_CANDIDATES];
	/* What is remembered, if anything is */
	struct dpt_record *record;
};

static void remember(struct search *search, struct dpt_step step)
{
	struct dpt_record *record = search->record;

	if (!record)
		return;
	if (record->steps < DPT_RECORD_STEPS)
		record->step[record->steps] = step;
	if (record->steps <= DPT_RECORD_STEPS)
		record->steps++;
}

static void looked(struct search *search, u8 metadata, enum dpt_use use,
		enum dpt_level size, bool fragmented)
{
	remember(search, (struct dpt_step){
		.kind = DPT_STEP_LOOK, .metadata = metadata, .use = use,
		.size = size, .fragmented = fragmented,
	});
}

static void tried(struct search *search, enum dpt_step_kind kind, u8 metadata,
		bool done)
{
	remember(search, (struct dpt_step){
		.kind = kind, .metadata = metadata, .done = done,
	});
}

static u64 frame(const struct search *search, u8 metadata)
{
	return dpt_pfn(dpt_frame(search->base, metadata, dpt_frames), dpt_ranges);
}

/* Look at one frame; take it if it will do. */
static struct page *try_frame(struct search *search, u8 metadata)
{
	u64 pfn = frame(search, metadata);
	struct page *page;
	enum dpt_level size;
	enum dpt_use use;
	bool fragmented;

	dpt_count(DPT_PROBES);
	use = dpt_frame_use(pfn, *search->spare, &size, &fragmented);
	if (use == DPT_FREE && (fragmented || !READ_ONCE(dpt_fap))) {
		if (search->dry)
			return pfn_to_page(pfn);
		page = dpt_frame_take(pfn, search->gfp, search->spare);
		looked(search, metadata, page ? DPT_FREE : DPT_UNMOVABLE, size,
		       fragmented);
		return page;
	}
	looked(search, metadata, use, size, fragmented);
	switch (use) {
	case DPT_FREE:
		if (!dpt_metadata_valid(search->whole))
			search->whole = metadata;
		break;
	case DPT_MOVABLE:
		search->movable[search->movables] = metadata;
		search->size[search->movables++] = size;
		break;
	case DPT_UNMOVABLE:
	case DPT_TABLE:
		break;
	}
	return NULL;
}

/*
 * The frame that the hash names, then so many steps of the stride of what
 * occupies it, and of the larger ones.
 */
static struct page *open_addressing(struct search *search, u8 *metadata)
{
	enum dpt_level stride;
	struct page *page;
	unsigned int step;
	enum dpt_use use;
	bool fragmented;

	use = dpt_frame_use(frame(search, dpt_metadata(DPT_4K, 0)), *search->spare,
			    &stride, &fragmented);
	looked(search, dpt_metadata(DPT_4K, 0), use, stride, fragmented);
	switch (use) {
	case DPT_FREE:
		/* FAP, if it refuses this frame, refuses the whole block. */
		stride = DPT_2M;
		break;
	case DPT_TABLE:
		dpt_count(DPT_COLLISIONS_TABLES);
		break;
	case DPT_MOVABLE:
	case DPT_UNMOVABLE:
		dpt_count(DPT_COLLISIONS_DATA);
		break;
	}
	*metadata = dpt_metadata(DPT_4K, 0);
	page = try_frame(search, *metadata);
	for (; !page && stride < DPT_LEVELS; stride++) {
		for (step = 1; !page && step <= search->steps; step++) {
			*metadata = dpt_metadata(stride, step);
			page = try_frame(search, *metadata);
		}
	}
	if (page && !search->dry && READ_ONCE(dpt_fap))
		dpt_count(DPT_FRAGMENTED);
	return page;
}

/* What the second search adds leads out of a long piece of the kernel's memory. */
static unsigned int max_steps(bool again)
{
	unsigned int steps = READ_ONCE(dpt_max_soa_step);

	if (again)
		steps = max(steps, READ_ONCE(dpt_far_soa_step));
	return min_t(unsigned int, steps, DPT_MAX_STEP);
}

static struct page *break_block(struct search *search, u8 *metadata)
{
	struct page *page;

	if (!dpt_metadata_valid(search->whole))
		return NULL;
	*metadata = search->whole;
	page = dpt_frame_take(frame(search, *metadata), search->gfp, search->spare);
	tried(search, DPT_STEP_BREAK, *metadata, page);
	if (page)
		dpt_count(DPT_BLOCKS_BROKEN);
	return page;
}

/*
 * Smaller data first, among equals in the order in which they were met. Others' data,
 * and a page that somebody holds does not move: a few are tried, and no more.
 */
#define MAX_MOVES	4

static struct page *displace(struct search *search, u8 *metadata)
{
	unsigned int moves = 0, i;
	enum dpt_level size;
	struct page *page;

	if (!READ_ONCE(dpt_cpd))
		return NULL;
	for (size = DPT_4K; size < DPT_LEVELS; size++) {
		for (i = 0; i < search->movables; i++) {
			if (search->size[i] != size)
				continue;
			if (moves++ == MAX_MOVES)
				return NULL;
			if (!*search->spare)
				*search->spare = alloc_page(search->gfp);
			*metadata = search->movable[i];
			page = dpt_frame_displace(frame(search, *metadata),
						  search->gfp, search->spare,
						  search->mode);
			tried(search, DPT_STEP_DISPLACE, *metadata, page);
			if (page)
				return page;
		}
	}
	return NULL;
}

/*
 * A zeroed page for the table of a tag, and where it is; NULL if there is no
 * place.
 */
struct page *dpt_place(struct dpt_request *request)
{
	unsigned int steps = max_steps(request->again);
	struct dpt_record record = {
		.tag = request->tag,
		.seed = request->seed,
		.max_soa_step = steps,
		.cpd = READ_ONCE(dpt_cpd),
		.fap = READ_ONCE(dpt_fap),
		.prefer_fragmentation = READ_ONCE(dpt_prefer_fragmentation),
	};
	struct search search = {
		.base = dpt_base_frame(request->tag, request->seed, dpt_frames),
		.gfp = request->gfp,
		.spare = request->spare,
		.mode = request->again ? MIGRATE_SYNC_LIGHT : MIGRATE_ASYNC,
		.steps = steps,
		.whole = DPT_INVALID,
		.record = dpt_logging() ? &record : NULL,
	};
	u8 *metadata = &request->metadata;
	struct page *page;

	page = open_addressing(&search, metadata);
	if (!page && !READ_ONCE(dpt_prefer_fragmentation))
		page = break_block(&search, metadata);
	if (!page)
		page = displace(&search, metadata);
	if (!page && READ_ONCE(dpt_prefer_fragmentation))
		page = break_block(&search, metadata);
	if (search.record) {
		record.metadata = page ? *metadata : DPT_INVALID;
		dpt_log(&record);
	}
	return page;
}

/*
 * Whether the table of a tag would be placed now without breaking up a block
 * or moving data.
 */
bool dpt_would_fit(u64 tag, u64 seed)
{
	struct search search = {
		.base = dpt_base_frame(tag, seed, dpt_frames),
		.spare = &(struct page *){ NULL },
		.steps = max_steps(false),
		.whole = DPT_INVALID,
		.dry = true,
	};
	u8 metadata;

	return open_addressing(&search, &metadata);
}
