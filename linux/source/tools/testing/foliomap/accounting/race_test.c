// SPDX-License-Identifier: GPL-2.0
/*
 * mm/foliomap.c as it is compiled for the kernel, by several processors at once.
 *
 * Threads map and unmap the same few folios, each in address spaces of its own
 * and in one that all have in common, there in pages of its own: one page table
 * lock each. Before a thread changes what it maps it makes a version odd, and
 * even after. A thread that asks reads all versions before and after: of what
 * did not change meanwhile it knows the truth, and so often what the answer has
 * to be although others change the folio in that moment.
 *
 * The versions order nothing that x86 would not order without them.
 *
 * Usage: race_test [OPERATIONS [SEED [THREADS]]]
 */
#include "common.h"

#define FOLIOS		3
#define OWN_SPACES	3
/* A thread's part of the address space that all have in common, and its pins. */
#define COMMON		OWN_SPACES
#define PINS		(OWN_SPACES + 1)
#define PARTS		(OWN_SPACES + 2)
#define MAX_THREADS	16
/* Then folios and address spaces are new. */
#define ROUND		20000

/* How many entries, or pins, one thread has in one of its address spaces. */
struct part {
	unsigned int version;
	unsigned int count;
};

/* Threads write to their own line only. */
struct parts {
	struct part of[FOLIOS][PARTS];
} __aligned(64);

static struct folio folios[FOLIOS] __aligned(64);
static struct parts parts[MAX_THREADS];
static struct mm_struct spaces[MAX_THREADS][OWN_SPACES], common_space;
static unsigned int threads;
static pthread_barrier_t barrier;
static unsigned long operations_wanted;
static bool enough;
/* Change the aggregator and the count one after the other, for anyone to see. */
static bool planted;

struct job {
	pthread_t thread;
	unsigned int number;
	u64 random;
	unsigned long operations, decided, under_way, undecided;
};

static void change_begins(struct part *part)
{
	__atomic_store_n(&part->version, part->version + 1, __ATOMIC_RELEASE);
}

static void change_ends(struct part *part, unsigned int count)
{
	WRITE_ONCE(part->count, count);
	__atomic_store_n(&part->version, part->version + 1, __ATOMIC_RELEASE);
}

static struct mm_struct *space_of(unsigned int thread, unsigned int p)
{
	return p == COMMON ? &common_space : &spaces[thread][p];
}

/* How many pages a thread may map: of the common address space its own only. */
static unsigned int room(const struct job *job, unsigned int f, unsigned int p)
{
	const unsigned int nr = folio_nr_pages(&folios[f]);

	if (p != COMMON)
		return nr;
	return nr * (job->number + 1) / threads - nr * job->number / threads;
}

static void change_bare(struct folio *folio, struct mm_struct *mm, int nr)
{
	static __thread unsigned int changes;

	__atomic_fetch_add(&folio->_as_aggregator_0,
			   mm->foliomap.unit[folio_order(folio) - 1] * nr,
			   __ATOMIC_RELAXED);
	/* Where processors are busy, the others may not run meanwhile by themselves. */
	if (!(++changes % 64))
		sched_yield();
	atomic_add(nr, &folio->_large_mapcount);
}

static void map(struct job *job, unsigned int f, unsigned int p, int nr)
{
	struct part *part = &parts[job->number].of[f][p];
	struct mm_struct *mm = space_of(job->number, p);

	change_begins(part);
	atomic_add(nr, &folios[f].page._refcount);
	if (planted)
		change_bare(&folios[f], mm, nr);
	else
		foliomap_add(&folios[f], mm, nr);
	change_ends(part, part->count + nr);
	job->operations++;
}

static void unmap(struct job *job, unsigned int f, unsigned int p, int nr)
{
	struct part *part = &parts[job->number].of[f][p];
	struct mm_struct *mm = space_of(job->number, p);

	change_begins(part);
	if (planted)
		change_bare(&folios[f], mm, -nr);
	else
		foliomap_remove(&folios[f], mm, nr);
	atomic_add(-nr, &folios[f].page._refcount);
	change_ends(part, part->count - nr);
	job->operations++;
}

static void pin(struct job *job, unsigned int f)
{
	struct part *part = &parts[job->number].of[f][PINS];
	const int change = part->count ? -1 : 1;

	change_begins(part);
	atomic_add(change, &folios[f].page._refcount);
	change_ends(part, part->count + change);
}

/* What is known of a folio, seen from one address space. */
struct known {
	/* Whether others map it: some do, none does, or neither is known. */
	bool others, no_others;
	bool pins, no_pins;
	/* Nothing changed; all else may be so nevertheless. */
	bool stable;
	unsigned int own;
};

static void read_parts(struct part seen[MAX_THREADS][PARTS], unsigned int f)
{
	unsigned int t, p;

	for (t = 0; t < threads; t++) {
		for (p = 0; p < PARTS; p++) {
			seen[t][p].version = __atomic_load_n(&parts[t].of[f][p].version,
							     __ATOMIC_ACQUIRE);
			seen[t][p].count = READ_ONCE(parts[t].of[f][p].count);
		}
	}
}

static struct known compare(struct part before[MAX_THREADS][PARTS],
		unsigned int f, const struct mm_struct *mm)
{
	struct known known = { .no_others = true, .no_pins = true, .stable = true };
	unsigned int t, p;

	/* What was answered, was answered before the versions are read again. */
	smp_rmb();
	for (t = 0; t < threads; t++) {
		for (p = 0; p < PARTS; p++) {
			const struct part *seen = &before[t][p];
			const unsigned int version = __atomic_load_n(&parts[t].of[f][p].version,
								     __ATOMIC_RELAXED);
			const bool stable = !(seen->version & 1) && version == seen->version;
			const bool some = stable && seen->count;
			const bool none = stable && !seen->count;

			known.stable &= stable;
			if (p == PINS) {
				known.pins |= some;
				known.no_pins &= none;
			} else if (space_of(t, p) != mm) {
				known.others |= some;
				known.no_others &= none;
			} else if (stable) {
				known.own += seen->count;
			}
		}
	}
	return known;
}

/* What the answer "shared" has to be: 1 or 0, or -1 where both may be right. */
static int expect_shared(const struct known *known, const struct mm_struct *mm)
{
	/* Without any mapping there is nobody to share with. */
	if (shares_id(mm) && known->own)
		return 1;
	if (shares_id(mm))
		return -1;
	if (known->others)
		return 1;
	return known->no_others ? 0 : -1;
}

static int expect_reuse(const struct known *known, int shared)
{
	if (shared == 1 || known->pins)
		return 0;
	/* A reference is taken before its mapping counts. */
	return !shared && known->no_pins && known->stable ? 1 : -1;
}

static void judge(struct job *job, const struct known *known, int expected,
		int answer, const char *question)
{
	if (expected < 0) {
		job->undecided++;
		return;
	}
	if (answer != expected)
		FAIL("%s: %d and not %d; others %d, none %d, pins %d, none %d, own %u, stable %d",
		     question, answer, expected, known->others, known->no_others,
		     known->pins, known->no_pins, known->own, known->stable);
	job->decided++;
	job->under_way += !known->stable;
}

static void ask(struct job *job, unsigned int f, unsigned int p)
{
	struct mm_struct *mm = space_of(job->number, p);
	struct part before[MAX_THREADS][PARTS];
	struct known known;
	int shared, reuse;

	read_parts(before, f);
	shared = foliomap_mapped_shared(&folios[f], mm);
	known = compare(before, f, mm);
	judge(job, &known, expect_shared(&known, mm), shared, "shared");

	/* Asked on write faults, by one that maps the folio and keeps it mapped. */
	if (!parts[job->number].of[f][p].count)
		return;
	read_parts(before, f);
	reuse = foliomap_can_reuse(&folios[f], mm);
	known = compare(before, f, mm);
	judge(job, &known, expect_reuse(&known, expect_shared(&known, mm)), reuse, "reuse");
}

static void step(struct job *job)
{
	const unsigned int f = draw(&job->random, FOLIOS);
	const unsigned int p = draw(&job->random, PINS);
	const unsigned int count = parts[job->number].of[f][p].count;
	const unsigned int left = room(job, f, p) - count;
	const unsigned int dice = draw(&job->random, 8);

	if (!dice)
		pin(job, f);
	else if (count && (dice < 4 || !left))
		/* More often all than a part: else a folio is hardly ever one's own. */
		unmap(job, f, p, dice < 3 ? count : 1 + draw(&job->random, count));
	else if (left && !draw(&job->random, p == COMMON ? 1 : 3))
		map(job, f, p, 1 + draw(&job->random, left));
	ask(job, f, draw(&job->random, PINS));
}

static void clear(struct job *job)
{
	unsigned int f, p;

	for (f = 0; f < FOLIOS; f++) {
		for (p = 0; p < PINS; p++)
			if (parts[job->number].of[f][p].count)
				unmap(job, f, p, parts[job->number].of[f][p].count);
		if (parts[job->number].of[f][PINS].count)
			pin(job, f);
	}
}

/* By one thread, while the others wait, as all below. */
static void renew(u64 *random, bool first)
{
	unsigned int used[MAX_THREADS * OWN_SPACES + 1];
	unsigned int f, t, p, nr = 0;

	for (f = 0; f < FOLIOS; f++) {
		if (!first) {
			folio_check_unmapped(&folios[f]);
			if (folio_ref_count(&folios[f]))
				FAIL("%d references are left", folio_ref_count(&folios[f]));
		}
		folio_make(&folios[f], 1 + draw(random, FOLIOMAP_MAX_ORDER));
	}
	for (t = 0; t < threads; t++) {
		for (p = 0; p < COMMON + (t == 0); p++) {
			if (!first)
				mm_end(space_of(t, p));
			mm_make(space_of(t, p), used, nr, random);
			used[nr++] = space_of(t, p)->foliomap.id;
		}
	}
}

static void *run(void *argument)
{
	struct job *job = argument;

	do {
		unsigned int i;

		pthread_barrier_wait(&barrier);
		for (i = 0; i < ROUND; i++)
			step(job);
		clear(job);
		pthread_barrier_wait(&barrier);
		if (!job->number) {
			enough = job->operations >= operations_wanted / threads;
			renew(&job->random, false);
		}
		pthread_barrier_wait(&barrier);
	} while (!enough);
	return NULL;
}

static void start(struct job *jobs, u64 seed, unsigned int range)
{
	unsigned int t;

	ids_start(range);
	pthread_barrier_init(&barrier, NULL, threads);
	for (t = 0; t < threads; t++) {
		jobs[t].number = t;
		jobs[t].random = (seed * ARRAY_SIZE(id_ranges) + range) * threads + t + 1;
		jobs[t].operations = 0;
		jobs[t].decided = 0;
		jobs[t].under_way = 0;
		jobs[t].undecided = 0;
	}
	renew(&jobs[0].random, true);
	for (t = 0; t < threads; t++)
		if (pthread_create(&jobs[t].thread, NULL, run, &jobs[t]))
			FAIL("no thread");
}

static void finish(struct job *jobs, struct job *sum)
{
	unsigned int t, p;

	for (t = 0; t < threads; t++) {
		pthread_join(jobs[t].thread, NULL);
		sum->operations += jobs[t].operations;
		sum->decided += jobs[t].decided;
		sum->under_way += jobs[t].under_way;
		sum->undecided += jobs[t].undecided;
	}
	for (t = 0; t < threads; t++)
		for (p = 0; p < COMMON + (t == 0); p++)
			mm_end(space_of(t, p));
	ids_end();
	pthread_barrier_destroy(&barrier);
}

/* Where others see half a change: were it not found, nothing would be. */
static void run_planted(void)
{
	static struct job jobs[MAX_THREADS];
	struct job sum = { 0 };

	planted = true;
	operations_wanted = 200000000;
	start(jobs, 1, 0);
	finish(jobs, &sum);
}

int main(int argc, char **argv)
{
	const unsigned long operations = argc > 1 ? strtoul(argv[1], NULL, 0) : 4000000;
	const u64 seed = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);
	static struct job jobs[MAX_THREADS];
	unsigned int range;

	threads = argc > 3 ? atoi(argv[3]) : (int)max(processors, 2);
	threads = max(1u, threads < MAX_THREADS ? threads : MAX_THREADS);
	foliomap_key = true;
	printf("TAP version 13\n1..%zu\n", ARRAY_SIZE(id_ranges) + 1);
	fflush(stdout);
	if (threads > 1 && processors > 1) {
		if (!finds(run_planted))
			FAIL("that changes are seen by half was not found");
		printf("ok 1 that changes are seen by half is found\n");
	} else {
		printf("ok 1 # SKIP one processor: nothing happens at once\n");
	}
	operations_wanted = operations / ARRAY_SIZE(id_ranges);
	for (range = 0; range < ARRAY_SIZE(id_ranges); range++) {
		struct job sum = { 0 };

		start(jobs, seed, range);
		finish(jobs, &sum);
		printf("ok %u ids %s, %u threads # %lu operations, %lu answers, ",
		       range + 2, ids->are, threads, sum.operations, sum.decided);
		printf("%lu of them during others' changes, %lu could be either\n",
		       sum.under_way, sum.undecided);
		fflush(stdout);
	}
	return 0;
}
