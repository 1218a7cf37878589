// SPDX-License-Identifier: GPL-2.0
/*
 * mm/foliomap.c as it is compiled for the kernel, one change after the other.
 *
 * The truth is page tables: for each address space and folio, which pages are
 * mapped. Address spaces fork, exit and take each other's ids; folios are mapped
 * in part and whole, anonymous ones once and file folios by two VMAs. After each
 * change every address space asks both questions, and each answer is compared.
 *
 * Usage: sequence_test [OPERATIONS [SEED]]
 */
#include "common.h"

#define FOLIOS		16
#define SPACES		12
#define VMAS		2
#define WORDS		(MAX_PAGES / 64)

/* The page table entries of one address space that map one folio. */
struct entries {
	/* Whether a VMA maps a page by itself, and whether all by one entry. */
	u64 pages[VMAS][WORDS];
	bool entire[VMAS];
	/* How many there are; counted anew when they change. */
	unsigned int count;
};

/* One thread's: threads share nothing but the ids. */
struct world {
	u64 random;
	unsigned long operations, answers;
	struct folio folios[FOLIOS];
	unsigned int vmas[FOLIOS];
	unsigned int pins[FOLIOS];
	struct mm_struct spaces[SPACES];
	bool alive[SPACES];
	struct entries entries[FOLIOS][SPACES];
};

static void count_entries(struct entries *e)
{
	unsigned int vma, word;

	e->count = 0;
	for (vma = 0; vma < VMAS; vma++) {
		e->count += e->entire[vma];
		for (word = 0; word < WORDS; word++)
			e->count += __builtin_popcountll(e->pages[vma][word]);
	}
}

static bool maps(const struct entries *e, unsigned int vma, unsigned int page)
{
	return e->pages[vma][page / 64] >> (page % 64) & 1;
}

static unsigned int total(const struct world *w, unsigned int f)
{
	unsigned int s, count = 0;

	for (s = 0; s < SPACES; s++)
		count += w->entries[f][s].count;
	return count;
}

/* Which answers are not exact is said above foliomap_mapped_shared(). */
static void check_space(struct world *w, unsigned int f, unsigned int s,
		unsigned int all)
{
	struct folio *folio = &w->folios[f];
	struct mm_struct *mm = &w->spaces[s];
	const unsigned int own = w->entries[f][s].count;
	const bool unsure = own && (own > (unsigned int)folio_nr_pages(folio) ||
				    shares_id(mm));
	const bool shared = own != all || unsure;
	const bool reuse = !shared && !w->pins[f];

	if (foliomap_mapped_shared(folio, mm) != shared)
		FAIL("order %u, id %u, %u of %u mappings: not %s",
		     folio_order(folio), mm->foliomap.id, own, all,
		     shared ? "shared" : "exclusive");
	w->answers++;
	/* Asked on a write fault only, so by one that maps the folio. */
	if (!own)
		return;
	if (foliomap_can_reuse(folio, mm) != reuse)
		FAIL("order %u, id %u, %u of %u mappings, %u pins: %sto be reused",
		     folio_order(folio), mm->foliomap.id, own, all, w->pins[f],
		     reuse ? "" : "not ");
	w->answers++;
}

static void check(struct world *w, unsigned int f)
{
	const unsigned int all = total(w, f);
	const int nr = folio_nr_pages(&w->folios[f]);
	unsigned int s, entire = 0, average = 0;

	for (s = 0; s < SPACES; s++) {
		entire += w->entries[f][s].entire[0] + w->entries[f][s].entire[1];
		if (w->alive[s])
			check_space(w, f, s, all);
	}
	if (all) {
		average = entire + (2 * (all - entire) + nr) / (2 * nr);
		average = average ? average : 1;
	}
	if (foliomap_average_mapcount(&w->folios[f]) != (int)average)
		FAIL("%u mappings, %u of them entire, of %d pages: average %d, not %u",
		     all, entire, nr, foliomap_average_mapcount(&w->folios[f]), average);
}

/* A batch of @nr new entries, whose references are taken first. */
static void account_added(struct world *w, unsigned int f, unsigned int s, int nr)
{
	struct folio *folio = &w->folios[f];
	unsigned int before = total(w, f);

	count_entries(&w->entries[f][s]);
	atomic_add(nr, &folio->page._refcount);
	if (!before && draw(&w->random, 2))
		foliomap_set_new(folio, &w->spaces[s], nr);
	else if (foliomap_add(folio, &w->spaces[s], nr) != (int)total(w, f))
		FAIL("%d mappings after %d were added", folio_large_mapcount(folio), nr);
	w->operations++;
}

static void account_removed(struct world *w, unsigned int f, unsigned int s, int nr)
{
	struct folio *folio = &w->folios[f];

	count_entries(&w->entries[f][s]);
	if (foliomap_remove(folio, &w->spaces[s], nr) != (int)total(w, f))
		FAIL("%d mappings after %d were removed", folio_large_mapcount(folio), nr);
	atomic_add(-nr, &folio->page._refcount);
	w->operations++;
}

/* Pages from @page on that are all mapped, or all not; changes them. */
static unsigned int toggle_run(struct entries *e, unsigned int vma,
		unsigned int page, unsigned int end)
{
	const bool mapped = maps(e, vma, page);
	unsigned int nr = 0;

	for (; page < end && maps(e, vma, page) == mapped; page++, nr++)
		e->pages[vma][page / 64] ^= 1ull << (page % 64);
	return nr;
}

/* Map what is not mapped from some page on, or unmap what is. */
static void change_part(struct world *w, unsigned int f, unsigned int s,
		unsigned int vma)
{
	struct entries *e = &w->entries[f][s];
	const unsigned int nr_pages = folio_nr_pages(&w->folios[f]);
	const unsigned int page = draw(&w->random, nr_pages);
	const unsigned int end = page + 1 + draw(&w->random, nr_pages - page);
	const bool mapped = maps(e, vma, page);
	const unsigned int nr = toggle_run(e, vma, page, end);

	if (mapped)
		account_removed(w, f, s, nr);
	else
		account_added(w, f, s, nr);
}

static void change_entire(struct world *w, unsigned int f, int sign)
{
	atomic_add(sign, &w->folios[f]._entire_mapcount);
}

/* An entry for all becomes one for each page: __split_huge_pmd_locked(). */
static void remap(struct world *w, unsigned int f, unsigned int s, unsigned int vma)
{
	struct entries *e = &w->entries[f][s];
	const int nr_pages = folio_nr_pages(&w->folios[f]);
	unsigned int page;

	for (page = 0; page < (unsigned int)nr_pages; page++)
		e->pages[vma][page / 64] |= 1ull << (page % 64);
	account_added(w, f, s, nr_pages);
	check(w, f);
	e->entire[vma] = false;
	change_entire(w, f, -1);
	account_removed(w, f, s, 1);
}

static void op_map(struct world *w, unsigned int f, unsigned int s)
{
	struct entries *e = &w->entries[f][s];
	const unsigned int vma = draw(&w->random, w->vmas[f]);
	bool mapped = false;
	unsigned int word;

	for (word = 0; word < WORDS; word++)
		mapped |= e->pages[vma][word];

	if (e->entire[vma] && draw(&w->random, 2)) {
		remap(w, f, s, vma);
	} else if (e->entire[vma]) {
		e->entire[vma] = false;
		change_entire(w, f, -1);
		account_removed(w, f, s, 1);
	} else if (!mapped && !draw(&w->random, 4)) {
		e->entire[vma] = true;
		change_entire(w, f, 1);
		account_added(w, f, s, 1);
	} else {
		change_part(w, f, s, vma);
	}
}

static void unmap_all(struct world *w, unsigned int f, unsigned int s)
{
	struct entries *e = &w->entries[f][s];
	const unsigned int nr_pages = folio_nr_pages(&w->folios[f]);
	unsigned int vma, page;

	for (vma = 0; vma < VMAS; vma++) {
		if (e->entire[vma]) {
			e->entire[vma] = false;
			change_entire(w, f, -1);
			account_removed(w, f, s, 1);
		}
		for (page = 0; page < nr_pages; page++)
			if (maps(e, vma, page))
				account_removed(w, f, s, toggle_run(e, vma, page, nr_pages));
	}
}

static void op_exit(struct world *w, unsigned int s)
{
	unsigned int f;

	for (f = 0; f < FOLIOS; f++) {
		unmap_all(w, f, s);
		check(w, f);
	}
	mm_end(&w->spaces[s]);
	w->alive[s] = false;
}

static void make_space(struct world *w, unsigned int s)
{
	unsigned int used[SPACES], nr = 0, other;

	for (other = 0; other < SPACES; other++)
		if (w->alive[other])
			used[nr++] = w->spaces[other].foliomap.id;
	mm_make(&w->spaces[s], used, nr, &w->random);
	w->alive[s] = true;
}

/* The child maps what its parent does, a batch for each run of pages. */
static void op_fork(struct world *w, unsigned int parent, unsigned int child)
{
	unsigned int f, vma, page;

	if (w->alive[child])
		op_exit(w, child);
	make_space(w, child);
	for (f = 0; f < FOLIOS; f++) {
		const struct entries *from = &w->entries[f][parent];
		struct entries *to = &w->entries[f][child];
		const unsigned int nr_pages = folio_nr_pages(&w->folios[f]);

		for (vma = 0; vma < VMAS; vma++) {
			if (from->entire[vma]) {
				to->entire[vma] = true;
				change_entire(w, f, 1);
				account_added(w, f, child, 1);
			}
			for (page = 0; page < nr_pages; page++) {
				unsigned int end = page;

				while (end < nr_pages && maps(from, vma, end))
					end++;
				if (end == page)
					continue;
				account_added(w, f, child, toggle_run(to, vma, page, end));
				page = end;
			}
		}
		check(w, f);
	}
}

static void renew(struct world *w, unsigned int f)
{
	folio_make(&w->folios[f], 1 + draw(&w->random, FOLIOMAP_MAX_ORDER));
	w->pins[f] = 0;
	w->vmas[f] = 1 + draw(&w->random, VMAS);
}

static void op_free(struct world *w, unsigned int f)
{
	unsigned int s;

	for (s = 0; s < SPACES; s++)
		unmap_all(w, f, s);
	folio_check_unmapped(&w->folios[f]);
	if (folio_ref_count(&w->folios[f]) != (int)w->pins[f])
		FAIL("%d references, %u pins", folio_ref_count(&w->folios[f]), w->pins[f]);
	renew(w, f);
}

static void op_pin(struct world *w, unsigned int f)
{
	const int change = w->pins[f] && draw(&w->random, 2) ? -1 : 1;

	w->pins[f] += change;
	atomic_add(change, &w->folios[f].page._refcount);
}

static void start(struct world *w, u64 seed)
{
	unsigned int f;

	w->random = seed;
	for (f = 0; f < FOLIOS; f++)
		renew(w, f);
	make_space(w, 0);
}

static void end(struct world *w)
{
	unsigned int f, s;

	for (s = 0; s < SPACES; s++)
		if (w->alive[s])
			op_exit(w, s);
	for (f = 0; f < FOLIOS; f++)
		op_free(w, f);
}

static void step(struct world *w)
{
	const unsigned int f = draw(&w->random, FOLIOS);
	const unsigned int s = draw(&w->random, SPACES);
	const unsigned int dice = draw(&w->random, 1000);

	if (!w->alive[s]) {
		unsigned int parent;

		do {
			parent = draw(&w->random, SPACES);
		} while (!w->alive[parent]);
		op_fork(w, parent, s);
	} else if (dice < 2) {
		/* One is left to fork the others. */
		unsigned int other = 0;

		while (other < SPACES && (other == s || !w->alive[other]))
			other++;
		if (other < SPACES)
			op_exit(w, s);
	} else if (dice < 4) {
		op_free(w, f);
	} else if (dice < 20) {
		op_pin(w, f);
	} else if (dice < 70) {
		unmap_all(w, f, s);
	} else {
		op_map(w, f, s);
	}
	check(w, f);
}

struct job {
	pthread_t thread;
	u64 seed;
	unsigned long operations, answers;
};

static void *run(void *argument)
{
	struct job *job = argument;
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		FAIL("no memory");
	start(w, job->seed);
	while (w->operations < job->operations)
		step(w);
	end(w);
	job->operations = w->operations;
	job->answers = w->answers;
	free(w);
	return NULL;
}

/* With a mapping that is accounted and not there: were it not found, nothing would be. */
static void run_with_another_mapping(void)
{
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		_exit(2);
	ids_start(0);
	start(w, 1);
	foliomap_add(&w->folios[0], &w->spaces[0], 1);
	while (w->operations < 100000)
		step(w);
}

int main(int argc, char **argv)
{
	const unsigned long operations = argc > 1 ? strtoul(argv[1], NULL, 0) : 4000000;
	const u64 seed = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
	const long threads = sysconf(_SC_NPROCESSORS_ONLN);
	struct job *jobs = calloc(threads, sizeof(*jobs));
	unsigned int range;
	long t;

	if (!jobs)
		FAIL("no memory");
	foliomap_key = true;
	printf("TAP version 13\n1..%zu\n", ARRAY_SIZE(id_ranges) + 1);
	fflush(stdout);
	if (!finds(run_with_another_mapping))
		FAIL("a planted mapping was not found");
	printf("ok 1 a planted mapping is found\n");
	for (range = 0; range < ARRAY_SIZE(id_ranges); range++) {
		unsigned long done = 0, answers = 0;

		ids_start(range);
		for (t = 0; t < threads; t++) {
			jobs[t].operations = operations / ARRAY_SIZE(id_ranges) / threads;
			jobs[t].seed = (seed * ARRAY_SIZE(id_ranges) + range) * threads + t + 1;
			if (pthread_create(&jobs[t].thread, NULL, run, &jobs[t]))
				FAIL("no thread");
		}
		for (t = 0; t < threads; t++) {
			pthread_join(jobs[t].thread, NULL);
			done += jobs[t].operations;
			answers += jobs[t].answers;
		}
		ids_end();
		printf("ok %u ids %s # %lu operations, %lu answers\n", range + 2,
		       ids->are, done, answers);
		fflush(stdout);
	}
	free(jobs);
	return 0;
}
