// SPDX-License-Identifier: GPL-2.0
/* Exact folio accounting: the ids of address spaces, and an average for statistics. */
#include <linux/foliomap.h>
#include <linux/idr.h>
#include <linux/mm.h>

static DEFINE_IDA(foliomap_ids);

int __foliomap_mm_init(struct mm_struct *mm)
{
	int id = ida_alloc_range(&foliomap_ids, foliomap_first_id,
				 foliomap_last_id - 1, GFP_KERNEL);

	/* The last id is for all that find no other. */
	if (id == -ENOSPC)
		id = foliomap_last_id;
	if (id < 0)
		return -ENOMEM;
	foliomap_set_id(mm, id);
	return 0;
}

void __foliomap_mm_destroy(struct mm_struct *mm)
{
	if (mm->foliomap.id != foliomap_last_id)
		ida_free(&foliomap_ids, mm->foliomap.id);
}

/**
 * foliomap_average_mapcount - how often a page of a large folio is mapped
 * @folio: The folio.
 *
 * For statistics only: it stands in for the map count of each page.
 *
 * Return: the average, rounded, and at least 1 if any page is mapped.
 */
int foliomap_average_mapcount(struct folio *folio)
{
	const int mapcount = folio_large_mapcount(folio);
	const int entire = folio_entire_mapcount(folio);
	const int nr_pages = folio_nr_pages(folio);
	int pages;

	/* /proc/kpagecount asks of folios that nobody holds, and half-made ones. */
	if (mapcount <= 0 || nr_pages <= 0)
		return 0;
	/* Both can change meanwhile. */
	pages = max(mapcount - entire, 0);
	return max(entire + DIV_ROUND_CLOSEST(pages, nr_pages), 1);
}
