/* SPDX-License-Identifier: GPL-2.0 */
/*
 * As much of the kernel as mm/foliomap.c needs to run in a program, on the
 * processors of the machine. Atomic operations are the compiler's, with the
 * order that Documentation/atomic_t.txt says.
 */
#ifndef _SHIM_LINUX_MM_H
#define _SHIM_LINUX_MM_H

#include <linux/foliomap_arith.h>
#include <linux/types.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define __ro_after_init
#define __aligned(bytes)	__attribute__((__aligned__(bytes)))
#define static_assert(condition)	_Static_assert(condition, #condition)
#define EXPORT_SYMBOL_IF_KUNIT(symbol)
#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define DIV_ROUND_CLOSEST(n, d)	(((n) + (d) / 2) / (d))
#define max(a, b)		((a) > (b) ? (a) : (b))
#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value)	__atomic_store_n(&(x), value, __ATOMIC_RELAXED)
#define smp_rmb()		__atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_wmb()		__atomic_thread_fence(__ATOMIC_RELEASE)

#define VM_WARN_ON_ONCE(condition) do {					\
	if (condition) {						\
		printf("not ok - %s: %s\n", __func__, #condition);	\
		exit(1);						\
	}								\
} while (0)

typedef struct {
	int counter;
} atomic_t;

static inline int atomic_read(const atomic_t *v)
{
	return READ_ONCE(v->counter);
}

static inline void atomic_set(atomic_t *v, int value)
{
	WRITE_ONCE(v->counter, value);
}

static inline void atomic_add(int value, atomic_t *v)
{
	__atomic_fetch_add(&v->counter, value, __ATOMIC_RELAXED);
}

static inline int atomic_read_acquire(const atomic_t *v)
{
	return __atomic_load_n(&v->counter, __ATOMIC_ACQUIRE);
}

static inline void atomic_set_release(atomic_t *v, int value)
{
	__atomic_store_n(&v->counter, value, __ATOMIC_RELEASE);
}

static inline bool atomic_try_cmpxchg_acquire(atomic_t *v, int *old, int value)
{
	return __atomic_compare_exchange_n(&v->counter, old, value, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/*
 * A program can lose its processor where the kernel cannot: between
 * preempt_disable() and preempt_enable(). Others then wait for it.
 */
static inline void cpu_relax(void)
{
	static __thread unsigned int spins;

	if (++spins % 1024)
		__builtin_ia32_pause();
	else
		sched_yield();
}

/* Where include/linux/mm_types.h has the words, which mm/foliomap.c asserts. */
struct page {
	unsigned long flags;
	unsigned long words[5];
	atomic_t _mapcount;
	atomic_t _refcount;
	unsigned long memcg_data;
};

struct folio {
	struct page page;
	struct {
		unsigned long _flags_1;
		unsigned long _head_1;
		atomic_t _large_mapcount;
		atomic_t _entire_mapcount;
		atomic_t _foliomap_seq;
		atomic_t _pincount;
		unsigned int _folio_nr_pages;
		unsigned long _as_aggregator_0;
		unsigned long rest_1[2];
	};
	struct {
		unsigned long _flags_2;
		unsigned long _head_2;
		unsigned long _deferred_list[2];
		unsigned long rest_2[4];
	};
	struct {
		unsigned long _flags_3;
		unsigned long _head_3;
		unsigned long _as_aggregator_1;
		unsigned long _as_aggregator_2;
		unsigned long _as_aggregator_3;
		unsigned long rest_3[3];
	};
};

struct foliomap_mm {
	unsigned int id;
	unsigned int one_word_order;
	unsigned long unit[FOLIOMAP_MAX_ORDER];
};

struct mm_struct {
	struct foliomap_mm foliomap;
};

static inline unsigned int folio_order(const struct folio *folio)
{
	return folio->_flags_1 & 0xff;
}

static inline int folio_nr_pages(const struct folio *folio)
{
	return folio->_folio_nr_pages;
}

static inline int folio_large_mapcount(const struct folio *folio)
{
	return atomic_read(&folio->_large_mapcount) + 1;
}

static inline int folio_entire_mapcount(const struct folio *folio)
{
	return atomic_read(&folio->_entire_mapcount) + 1;
}

static inline int folio_ref_count(const struct folio *folio)
{
	return atomic_read(&folio->page._refcount);
}

#endif
