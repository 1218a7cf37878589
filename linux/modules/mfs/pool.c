// SPDX-License-Identifier: GPL-2.0
/*
 * Base pages set aside at mount. A page in the pool has one reference, the
 * pool's; in a file the file has it.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/swap.h>

#include "mfs.h"

void mfs_pool_init(struct mfs_pool *pool, int node)
{
	spin_lock_init(&pool->lock);
	INIT_LIST_HEAD(&pool->free);
	pool->node = node;
}
EXPORT_SYMBOL_GPL(mfs_pool_init);

static struct page *mfs_pool_page(struct mfs_pool *pool, gfp_t gfp)
{
	/* Not __GFP_MOVABLE: the kernel could not move it for us. */
	gfp |= GFP_HIGHUSER | __GFP_NOWARN;
	if (pool->node == NUMA_NO_NODE)
		return alloc_page(gfp);
	return alloc_pages_node(pool->node, gfp | __GFP_THISNODE, 0);
}

/* A free page says so by its private field, for mfs_pool_take_row(). */
static void mfs_pool_link(struct mfs_pool *pool, struct page *page)
{
	set_page_private(page, (unsigned long)pool);
	list_add(&page->lru, &pool->free);
	pool->nr_free++;
}

static void mfs_pool_unlink(struct mfs_pool *pool, struct page *page)
{
	list_del(&page->lru);
	set_page_private(page, 0);
	pool->nr_free--;
}

/* Add @nr pages in a row, of the pool's node, each with one reference. */
void mfs_pool_add(struct mfs_pool *pool, struct page *pages, unsigned long nr)
{
	unsigned long i;

	spin_lock(&pool->lock);
	for (i = 0; i < nr; i++)
		mfs_pool_link(pool, pages + i);
	pool->nr += nr;
	spin_unlock(&pool->lock);
}
EXPORT_SYMBOL_GPL(mfs_pool_add);

/**
 * mfs_pool_take_row - take pages in a row, if all of them are free in the pool
 * @pool: the pool, locked
 * @pages: the first
 * @nr: how many
 *
 * Return: whether they were. They belong to the pool no more.
 */
bool mfs_pool_take_row(struct mfs_pool *pool, struct page *pages, unsigned long nr)
{
	unsigned long i;

	lockdep_assert_held(&pool->lock);
	for (i = 0; i < nr; i++)
		if (page_private(pages + i) != (unsigned long)pool ||
		    PageHWPoison(pages + i))
			return false;
	for (i = 0; i < nr; i++)
		mfs_pool_unlink(pool, pages + i);
	pool->nr -= nr;
	return true;
}
EXPORT_SYMBOL_GPL(mfs_pool_take_row);

/**
 * mfs_pool_fill - take pages from the kernel
 * @pool: the pool, initialized
 * @nr: how many
 *
 * Return: 0; -ENOMEM and the pool is as it was before; -EINTR if killed.
 */
int mfs_pool_fill(struct mfs_pool *pool, unsigned long nr)
{
	struct page *page;

	/* Before processes are killed for what cannot be */
	if (nr > totalram_pages())
		return -ENOMEM;
	while (pool->nr < nr) {
		page = mfs_pool_page(pool, __GFP_NORETRY);
		if (!page || fatal_signal_pending(current)) {
			if (page)
				__free_page(page);
			mfs_pool_drain(pool);
			return page ? -EINTR : -ENOMEM;
		}
		mfs_pool_add(pool, page, 1);
		cond_resched();
	}
	return 0;
}
EXPORT_SYMBOL_GPL(mfs_pool_fill);

static struct page *mfs_pool_replace(struct mfs_pool *pool)
{
	struct page *page = NULL;
	bool missing;

	spin_lock(&pool->lock);
	missing = pool->missing;
	if (missing)
		pool->missing--;
	spin_unlock(&pool->lock);
	if (!missing)
		return NULL;
	page = mfs_pool_page(pool, __GFP_NORETRY);
	if (!page) {
		spin_lock(&pool->lock);
		pool->missing++;
		spin_unlock(&pool->lock);
	}
	return page;
}

/* A page with one reference, or NULL if all are in files. May sleep. */
struct page *mfs_pool_get(struct mfs_pool *pool)
{
	struct page *page;

	for (;;) {
		spin_lock(&pool->lock);
		page = list_first_entry_or_null(&pool->free, struct page, lru);
		if (page)
			mfs_pool_unlink(pool, page);
		spin_unlock(&pool->lock);
		if (!page)
			return mfs_pool_replace(pool);
		if (likely(!PageHWPoison(page)))
			return page;
		mfs_pool_put(pool, page_folio(page));
	}
}
EXPORT_SYMBOL_GPL(mfs_pool_get);

/*
 * Take pages back. One that somebody still has, by get_user_pages() for
 * example, or had a moment ago and is charged for it, or that is broken, is not used
 * again: another comes in its place when it is needed.
 */
void mfs_pool_put_batch(struct mfs_pool *pool, struct folio_batch *folios)
{
	unsigned int i, busy = 0;

	spin_lock(&pool->lock);
	for (i = 0; i < folio_batch_count(folios); i++) {
		struct folio *folio = folios->folios[i];

		if (mfs_busy(folio) || folio_test_hwpoison(folio)) {
			folios->folios[busy++] = folio;
			continue;
		}
		mfs_clear_flags(folio);
		mfs_pool_link(pool, folio_page(folio, 0));
	}
	pool->missing += busy;
	spin_unlock(&pool->lock);

	/* The flags of a page in use are not ours, but what the manager marked. */
	for (i = 0; i < busy; i++) {
		folio_clear_active(folios->folios[i]);
		folio_put(folios->folios[i]);
	}
}
EXPORT_SYMBOL_GPL(mfs_pool_put_batch);

void mfs_pool_put(struct mfs_pool *pool, struct folio *folio)
{
	struct folio_batch one;

	folio_batch_init(&one);
	folio_batch_add(&one, folio);
	mfs_pool_put_batch(pool, &one);
}
EXPORT_SYMBOL_GPL(mfs_pool_put);

static unsigned long mfs_pool_count(struct shrinker *shrinker,
				    struct shrink_control *sc)
{
	const struct mfs_pool *pool = shrinker->private_data;

	return READ_ONCE(pool->nr_free) ?: SHRINK_EMPTY;
}

static unsigned long mfs_pool_scan(struct shrinker *shrinker,
				   struct shrink_control *sc)
{
	struct mfs_pool *pool = shrinker->private_data;
	struct page *page, *next;
	unsigned long freed = 0;
	LIST_HEAD(pages);

	spin_lock(&pool->lock);
	while (freed < sc->nr_to_scan && !list_empty(&pool->free)) {
		page = list_first_entry(&pool->free, struct page, lru);
		mfs_pool_unlink(pool, page);
		list_add(&page->lru, &pages);
		freed++;
	}
	pool->missing += freed;
	spin_unlock(&pool->lock);

	list_for_each_entry_safe(page, next, &pages, lru)
		__free_page(page);
	mm_account_reclaimed_pages(freed);
	return freed ? freed : SHRINK_STOP;
}

/**
 * mfs_pool_shrink - let the kernel have free pages of the pool when it needs them
 * @pool: the pool, filled
 * @name: for debugfs
 *
 * A page that is gone is taken from the kernel again when a file needs it.
 *
 * Return: 0 or -ENOMEM. mfs_pool_drain() ends it.
 */
int mfs_pool_shrink(struct mfs_pool *pool, const char *name)
{
	pool->shrinker = shrinker_alloc(0, "%s", name);
	if (!pool->shrinker)
		return -ENOMEM;
	pool->shrinker->count_objects = mfs_pool_count;
	pool->shrinker->scan_objects = mfs_pool_scan;
	pool->shrinker->private_data = pool;
	shrinker_register(pool->shrinker);
	return 0;
}
EXPORT_SYMBOL_GPL(mfs_pool_shrink);

/* Give the pages back to the kernel; all are in the pool. */
void mfs_pool_drain(struct mfs_pool *pool)
{
	struct page *page, *next;

	if (pool->shrinker)
		shrinker_free(pool->shrinker);
	pool->shrinker = NULL;
	list_for_each_entry_safe(page, next, &pool->free, lru) {
		mfs_pool_unlink(pool, page);
		__free_page(page);
		pool->nr--;
	}
	WARN_ON_ONCE(pool->nr_free || pool->nr != pool->missing);
	pool->nr = 0;
	pool->missing = 0;
}
EXPORT_SYMBOL_GPL(mfs_pool_drain);
