// SPDX-License-Identifier: GPL-2.0
/*
 * The two choices that the paper leaves open, by measurement: the base in which
 * ids are read, and what makes the map count and the aggregator change together.
 * The candidates are written as the kernel would have them. "memory" prints for
 * every order instead how many bytes track the mappings of a folio.
 *
 * Usage: bench [THREADS | memory]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../../include/linux/foliomap_arith.h"
#include "paper_base.h"

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define ROUNDS			15
#define MAX_THREADS		64
#define PAGE			4096

/* Processor time of the calling thread, ns. */
static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), by_value);
	return values[ROUNDS / 2];
}

/* ---- The base ---- */

struct sum {
	unsigned long word[FOLIOMAP_WORDS];
	unsigned long unit[FOLIOMAP_WORDS];
	unsigned int words;
	bool one_word;
};

/* Digits do not cross words: no carry, and no word without a bit of the unit. */
static void power_of_two_add(struct sum *s, int nr)
{
	unsigned int w;

	if (s->one_word) {
		s->word[0] += s->unit[0] * nr;
		return;
	}
	for (w = 0; w < s->words; w++)
		s->word[w] += s->unit[w] * nr;
}

/* One long number: every word, and the carry between them. */
static void paper_add(struct sum *s, int nr)
{
	__int128_t carry = 0;
	unsigned int w;

	for (w = 0; w < s->words; w++) {
		carry += (__int128_t)s->unit[w] * nr + s->word[w];
		s->word[w] = (unsigned long)carry;
		carry >>= 64;
	}
}

static bool power_of_two_check(struct sum *s, int mapcount)
{
	unsigned int w;

	for (w = 0; w < s->words; w++)
		if (!foliomap_word_matches(s->word[w], s->unit[w], mapcount))
			return false;
	return true;
}

static bool paper_check(struct sum *s, int mapcount)
{
	__uint128_t product = 0;
	unsigned int w;

	for (w = 0; w < s->words; w++) {
		product += (__uint128_t)s->unit[w] * mapcount;
		if (s->word[w] != (unsigned long)product)
			return false;
		product >>= 64;
	}
	return true;
}

/* Called through a table, so that the compiler does not fold the loops. */
static const struct {
	void (*add)(struct sum *s, int nr);
	bool (*check)(struct sum *s, int mapcount);
} bases[] = {
	{ power_of_two_add, power_of_two_check },
	{ paper_add, paper_check },
};

static void sum_init(struct sum *s, unsigned int order, unsigned int id, bool paper)
{
	struct big full = paper_unit(FOLIOMAP_MAX_ID, order);
	const struct big unit = paper_unit(id, order);
	unsigned int w;

	memset(s, 0, sizeof(*s));
	big_mul(&full, 1u << order);
	s->words = paper ? (unsigned int)(big_bits(&full) + 63) / 64 : foliomap_words(order);
	for (w = 0; w < s->words; w++)
		s->unit[w] = paper ? unit.word[w] : foliomap_unit_word(id, order, w);
	s->one_word = !(id >> foliomap_digits_per_word(order));
}

static void bench_base(unsigned int order, unsigned int id)
{
	double update[2][ROUNDS], check[2][ROUNDS];
	const unsigned int steps = 1000000;
	unsigned int round, i;
	int paper;

	for (round = 0; round < ROUNDS; round++) {
		for (paper = 0; paper < 2; paper++) {
			unsigned int yes = 0;
			uint64_t start;
			struct sum s;

			sum_init(&s, order, id, paper);
			start = now();
			for (i = 0; i < steps; i++)
				bases[paper].add(&s, i & 1 ? -1 : 1);
			update[paper][round] = (double)(now() - start) / steps;

			bases[paper].add(&s, 1 << order);
			start = now();
			for (i = 0; i < steps; i++)
				yes += bases[paper].check(&s, 1 << order);
			check[paper][round] = (double)(now() - start) / steps;
			if (yes != steps)
				exit(1);
		}
	}
	printf("base: order %u, id %#x: update %.2f ns, paper's %.2f; ", order, id,
	       median(update[0]), median(update[1]));
	printf("check %.2f ns, paper's %.2f\n", median(check[0]), median(check[1]));
}

/* ---- The lock ---- */

/* A folio of 512 pages, mapped by as many threads as there are and once more. */
static struct {
	_Alignas(64) atomic_int refs;
	atomic_int mapcount;
	atomic_int lock;
	unsigned long word;
	/* In cache lines of their own, as struct page is. */
	struct {
		_Alignas(64) atomic_int mapcount;
	} page[512];
} folio;

static const unsigned long unit = 0x40000401;	/* three bits of an id, order 9 */

static void relax(void)
{
	__builtin_ia32_pause();
}

/* Linux 6.12: two atomic operations, the question cannot be answered. */
static void per_page_remove(unsigned int i)
{
	atomic_fetch_sub(&folio.mapcount, 1);
	atomic_fetch_sub(&folio.page[i % 512].mapcount, 1);
}

static bool per_page_check(void)
{
	return false;
}

static void change(int nr)
{
	atomic_store_explicit(&folio.mapcount, nr +
		atomic_load_explicit(&folio.mapcount, memory_order_relaxed),
		memory_order_relaxed);
	folio.word += unit * nr;
}

static bool exclusive(void)
{
	const int mapcount = atomic_load_explicit(&folio.mapcount, memory_order_relaxed);

	return atomic_load_explicit(&folio.refs, memory_order_relaxed) == mapcount &&
	       __atomic_load_n(&folio.word, __ATOMIC_RELAXED) == unit * mapcount;
}

static void seq_remove(unsigned int i)
{
	int seq;

	(void)i;
	seq = atomic_load_explicit(&folio.lock, memory_order_relaxed) & ~1;
	while (!atomic_compare_exchange_weak_explicit(&folio.lock, &seq, seq + 1,
			memory_order_acquire, memory_order_relaxed)) {
		seq &= ~1;
		relax();
	}
	change(-1);
	atomic_store_explicit(&folio.lock, seq + 2, memory_order_release);
}

static bool seq_check(void)
{
	bool result;
	int seq;

	do {
		while ((seq = atomic_load_explicit(&folio.lock, memory_order_acquire)) & 1)
			relax();
		result = exclusive();
		atomic_thread_fence(memory_order_acquire);
	} while (atomic_load_explicit(&folio.lock, memory_order_relaxed) != seq);
	return result;
}

/* bit_spin_lock(): a read-modify-write, then looks until it may try again. */
static void bit_lock(void)
{
	while (atomic_fetch_or_explicit(&folio.lock, 1, memory_order_acquire) & 1)
		while (atomic_load_explicit(&folio.lock, memory_order_relaxed) & 1)
			relax();
}

static void bit_unlock(void)
{
	atomic_store_explicit(&folio.lock, 0, memory_order_release);
}

static void bit_remove(unsigned int i)
{
	(void)i;
	bit_lock();
	change(-1);
	bit_unlock();
}

static bool bit_check(void)
{
	bool result;

	bit_lock();
	result = exclusive();
	bit_unlock();
	return result;
}

static const struct {
	const char *name;
	void (*remove)(unsigned int i);
	bool (*check)(void);
} locks[] = {
	{ "per page", per_page_remove, per_page_check },
	{ "sequence number", seq_remove, seq_check },
	{ "bit lock", bit_remove, bit_check },
};

/* What is done to the accounting in a write fault, all on one folio. */
enum scenario {
	REMOVE,		/* another process maps the page: remove a mapping */
	COPY_REMOVE,	/* the same with the copy that takes most of the time */
	CHECK,		/* nobody else does: check and reuse */
};

static const char *const scenarios[] = {
	"remove a mapping", "copy a page, remove a mapping", "check for reuse",
};

static struct {
	pthread_barrier_t barrier;
	enum scenario scenario;
	unsigned int lock, steps;
} run;

/* Returns its processor time, which includes waiting for others but no pause. */
static void *thread(void *arg)
{
	uint64_t *spent = arg;
	static char source[PAGE];
	char *target = malloc(PAGE);
	unsigned int i;

	if (!target)
		exit(1);
	pthread_barrier_wait(&run.barrier);
	*spent = now();
	for (i = 0; i < run.steps; i++) {
		switch (run.scenario) {
		case COPY_REMOVE:
			memcpy(target, source, PAGE);
			__asm__ volatile("" :: "r" (target) : "memory");
			__attribute__((__fallthrough__));
		case REMOVE:
			locks[run.lock].remove(i);
			break;
		case CHECK:
			locks[run.lock].check();
			break;
		}
	}
	*spent = now() - *spent;
	free(target);
	return NULL;
}

/* Processor time of a thread for a step, the mean of all. */
static double time_threads(unsigned int threads)
{
	uint64_t spent[MAX_THREADS], total = 0;
	pthread_t ids[MAX_THREADS];
	unsigned int i;

	pthread_barrier_init(&run.barrier, NULL, threads);
	for (i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, thread, &spent[i]))
			exit(1);
	for (i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		total += spent[i];
	}
	pthread_barrier_destroy(&run.barrier);
	return (double)total / threads / run.steps;
}

static void bench_locks(unsigned int threads)
{
	double took[ARRAY_SIZE(locks)][ROUNDS];
	unsigned int round;

	for (run.scenario = REMOVE; run.scenario <= CHECK; run.scenario++) {
		run.steps = run.scenario == COPY_REMOVE ? 100000 : 400000;
		for (round = 0; round < ROUNDS; round++)
			for (run.lock = 0; run.lock < ARRAY_SIZE(locks); run.lock++)
				took[run.lock][round] = time_threads(threads);
		printf("lock: %u threads, %s:", threads, scenarios[run.scenario]);
		for (run.lock = 0; run.lock < ARRAY_SIZE(locks); run.lock++)
			printf("%s %s %.1f ns", run.lock ? "," : "",
			       locks[run.lock].name, median(took[run.lock]));
		printf("\n");
	}
}

/* Two map counts, of pages and of the entire folio, of 4 bytes each. */
#define MAP_COUNTS 8

/* Linux 6.12 and we have 4 bytes more: _nr_pages_mapped or the sequence number. */
static void print_memory(void)
{
	unsigned int order;

	for (order = 1; order <= FOLIOMAP_MAX_ORDER; order++) {
		struct big full = paper_unit(FOLIOMAP_MAX_ID, order);

		big_mul(&full, 1u << order);
		printf("order %u: linux %u foliomap %u paper %u\n", order,
		       MAP_COUNTS + 4 + (4 << order),
		       MAP_COUNTS + 4 + 8 * foliomap_words(order),
		       MAP_COUNTS + 8 * ((unsigned int)(big_bits(&full) + 63) / 64));
	}
}

int main(int argc, char **argv)
{
	static const unsigned int orders[] = { 2, 4, 9 };
	unsigned int i;
	long most;

	if (argc > 1 && !strcmp(argv[1], "memory")) {
		print_memory();
		return 0;
	}
	most = argc > 1 ? atol(argv[1]) : sysconf(_SC_NPROCESSORS_ONLN);
	if (most < 1 || most > MAX_THREADS) {
		fprintf(stderr, "usage: bench [THREADS | memory], up to %d threads\n", MAX_THREADS);
		return 1;
	}
	for (i = 0; i < ARRAY_SIZE(orders); i++) {
		bench_base(orders[i], 5);
		bench_base(orders[i], 0x2aaaaa);
	}
	for (i = 1; i <= most; i *= 2)
		bench_locks(i);
	return 0;
}
