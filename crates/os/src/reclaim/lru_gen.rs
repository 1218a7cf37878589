//! Pages taken off generations (`lru_gen_shrink_lruvec` in mm/vmscan.c, Linux 6.12).
//!
//! Eviction takes units from the oldest generation; aging clears the accessed bits of all entries of page tables, has
//! what was used count for the youngest generation, and begins another. Page tables in which few entries were used are
//! walked as well (Linux leaves them out by a Bloom filter), and zones are one.

use super::generations::{BATCH, FEWEST, evictable, isolated};
use super::lru::{Kind, Lru};
use super::shrink::FIRST_PRIORITY;
use crate::pages::mapper::Mapper;
use pagelab_addr::{PageSize, Pfn};
use pagelab_translation::{Page, PageTable};

/// Units that are looked at in a row at most (`MAX_LRU_BATCH`).
const MOST_UNITS: u64 = 64 * BATCH;
/// Pages of a page-table page.
const TABLE_PAGES: u64 = 512;

/// Pages that a scan looked at, and took.
#[derive(Clone, Copy, Default)]
struct Scan {
    scanned: u64,
    taken: u64,
}

impl<T: PageTable> Mapper<'_, T> {
    /// Takes pages until a share of all by the priority was looked at or, where no program's limit is what is short,
    /// enough were taken (`try_to_shrink_lruvec`). How many.
    pub(super) fn shrink_generations(&mut self, priority: u32, wanted: u64) -> u64 {
        let Some(reclaim) = &self.frames.reclaim else {
            return 0;
        };
        let is_limit = reclaim.max != u32::MAX;
        let swaps = reclaim.has_swap(BATCH) && reclaim.config.swappiness > 0;
        let swappiness = u64::from(reclaim.config.swappiness) * u64::from(swaps);
        let mut sum = Scan::default();
        while let Some(pages) = self.pages_to_scan(priority, swaps) {
            let scan = self.evict_oldest(swappiness);
            sum.scanned += scan.scanned;
            sum.taken += scan.taken;
            if scan.scanned == 0 || sum.scanned >= pages || !is_limit && sum.taken >= wanted {
                break;
            }
        }
        self.counts().taken += sum.taken;
        sum.taken
    }

    fn lru(&mut self) -> Option<&mut Lru> {
        Some(&mut self.frames.reclaim.as_mut()?.lru)
    }

    /// Pages to look at, if any; or a generation begins instead (`get_nr_to_scan`).
    fn pages_to_scan(&mut self, priority: u32, swaps: bool) -> Option<u64> {
        let lru = self.lru()?;
        let (total, is_due) = lru.generations.as_ref()?.due(swaps, &lru.pages);
        if is_due && priority < FIRST_PRIORITY {
            self.age(swaps);
            return None;
        }
        let pages = total >> priority;
        (pages > 0).then_some(pages)
    }

    /// Has what was used count for the youngest generation, and begins another (`try_to_inc_max_seq`).
    fn age(&mut self, swaps: bool) -> Option<()> {
        for &kind in evictable(swaps) {
            for (head, order) in self.units_of(kind) {
                let lru = self.lru()?;
                if lru.take_accessed(head, order) > 0 && !lru.ends_freedom(head, order) {
                    let youngest = lru.generations.as_ref()?.youngest(kind);
                    lru.count_for(head, 1 << order, youngest);
                }
            }
        }
        for kind in self.lru()?.generations.as_ref()?.full() {
            if kind == Kind::File || swaps {
                self.keep_oldest(kind);
            }
            self.lru()?.generations.as_mut()?.drop_oldest(kind);
        }
        self.lru()?.generations.as_mut()?.begin();
        Some(())
    }

    /// Units of a kind, with their orders.
    fn units_of(&self, kind: Kind) -> Vec<(Pfn, u32)> {
        let Some(reclaim) = &self.frames.reclaim else {
            return Vec::new();
        };
        let lists = (kind as usize..isolated(Kind::Anonymous)).step_by(2);
        let heads = lists.flat_map(|list| reclaim.lru.units.upwards(list));
        heads
            .map(|head| (head, self.frames.unit_order(head)))
            .collect()
    }

    /// Has what is left in the oldest generation be the first to leave of the next one (`inc_min_seq`).
    fn keep_oldest(&mut self, kind: Kind) -> Option<()> {
        loop {
            let oldest = self.lru()?.generations.as_ref()?.oldest(kind);
            let head = self.lru()?.units.bottom(oldest)?;
            self.grow_older(head, self.frames.unit_order(head), kind);
        }
    }

    /// Moves a unit to the bottom of the second oldest generation, or of the one for which it counts (`folio_inc_gen`).
    fn grow_older(&mut self, head: Pfn, order: u32, kind: Kind) -> Option<()> {
        let lru = self.lru()?;
        let generations = lru.generations.as_mut()?;
        let mut list = generations.counted(head);
        if list == generations.oldest(kind) {
            list = generations.second_oldest(kind);
            generations.set_refaulted(head, false);
        }
        lru.put_below(head, 1 << order, list);
        Some(())
    }

    /// Takes what is unused of some units of an oldest generation (`evict_folios`).
    fn evict_oldest(&mut self, swappiness: u64) -> Scan {
        let mut scan = Scan::default();
        let Some(kind) = self.isolate_oldest(swappiness, &mut scan.scanned) else {
            return scan;
        };
        let swaps = swappiness > 0;
        if let Some(lru) = self.lru() {
            let units = &lru.units;
            if let Some(generations) = &mut lru.generations {
                let forgot = generations.forget_empty(swaps, |list| units.length(list) == 0);
                scan.scanned += u64::from(forgot);
                if generations.count(evictable(swaps)[0]) == FEWEST {
                    scan.scanned = 0;
                }
            }
        }
        while let Some(head) = self.lru().and_then(|lru| lru.units.bottom(isolated(kind))) {
            let order = self.frames.unit_order(head);
            scan.taken += self.evict_or_keep(head, order, kind);
        }
        scan
    }

    /// Sets units of an oldest generation aside: of which kind (`isolate_folios`).
    fn isolate_oldest(&mut self, swappiness: u64, scanned: &mut u64) -> Option<Kind> {
        let generations = self.lru()?.generations.as_ref()?;
        let (mut kind, mut tier) = generations.kind_to_evict(swappiness);
        for _ in evictable(swappiness > 0) {
            let last = match tier {
                Some(tier) => tier,
                None => self.lru()?.generations.as_ref()?.last_tier(kind),
            };
            *scanned = self.scan_oldest(kind, last)?;
            if *scanned > 0 {
                break;
            }
            kind = Kind::ALL[1 - kind as usize];
            tier = None;
        }
        Some(kind)
    }

    /// Sets units of the oldest generation of a kind aside that are of a tier up to this one, and moves others to the
    /// generations that are theirs (`scan_folios`, `sort_folio`). Returns the pages looked at, 0 if that is of no use.
    fn scan_oldest(&mut self, kind: Kind, last_tier: usize) -> Option<u64> {
        if self.lru()?.generations.as_ref()?.count(kind) == FEWEST {
            return Some(0);
        }
        let (mut scanned, mut aside, mut left) = (0, 0, MOST_UNITS);
        let oldest = self.lru()?.generations.as_ref()?.oldest(kind);
        while left > 0 && aside < BATCH {
            let Some(head) = self.lru()?.units.bottom(oldest) else {
                break;
            };
            let order = self.frames.unit_order(head);
            let pages = 1 << order;
            scanned += pages;
            left -= 1;
            let lru = self.lru()?;
            let generations = lru.generations.as_mut()?;
            let counted = generations.counted(head);
            if counted != oldest {
                lru.units.move_to(head, counted);
            } else if generations.tier(head) > last_tier {
                generations.note_protected(kind, pages);
                self.grow_older(head, order, kind);
            } else {
                lru.set_referenced(head, false);
                lru.put(head, pages, isolated(kind));
                aside += pages;
            }
        }
        self.counts().scanned += aside;
        Some(if aside > 0 || left == 0 { scanned } else { 0 })
    }

    /// Has a unit that was set aside leave memory, or be of the youngest generation (`shrink_folio_list`). Pages that
    /// left.
    fn evict_or_keep(&mut self, head: Pfn, order: u32, kind: Kind) -> u64 {
        let Some(lru) = self.lru() else {
            return 0;
        };
        let seen = lru.set_referenced(head, false);
        let used = !seen && lru.take_accessed(head, order) > 0;
        if used {
            self.look_around(head, order, kind);
        } else if !seen && self.evict(head, order, kind) {
            return 1 << order;
        }
        // One that could not leave was perhaps given another list, or none.
        if let Some(lru) = self.lru()
            && !(used && lru.ends_freedom(head, order))
            && lru.kind(head).is_some()
        {
            lru.activate(head, 1 << order, kind);
        }
        self.counts().activated += 1 << order;
        0
    }

    /// Has what was used around a page be of the youngest generation (`lru_gen_look_around`): 64 pages of the same
    /// page-table page.
    fn look_around(&mut self, head: Pfn, order: u32, kind: Kind) {
        if order > 0 && self.frames.size_of_entries(head) != PageSize::Base4K {
            return;
        }
        for owner in self.owners(head) {
            for pfn in self.neighbours(owner) {
                let order = self.frames.unit_order(pfn);
                let unit = Pfn(pfn.0 & !((1 << order) - 1));
                if unit != head {
                    self.promote_if_used(unit, order, kind);
                }
            }
        }
    }

    fn promote_if_used(&mut self, head: Pfn, order: u32, kind: Kind) -> Option<()> {
        let lru = self.lru()?;
        // Entries of files may be of anonymous copies, and are looked at as well.
        let of = lru.kind(head)?;
        if kind == Kind::File && of == Kind::Anonymous || lru.take_accessed(head, order) == 0 {
            return None;
        }
        if lru.ends_freedom(head, order) {
            self.counts().activated += 1 << order;
        } else if lru.units.list(head) == Some(isolated(of)) {
            lru.set_referenced(head, true);
        } else if lru.generations.as_ref()?.youngest(of) != lru.generations.as_ref()?.counted(head)
        {
            lru.activate(head, 1 << order, of);
            self.counts().activated += 1 << order;
        }
        Some(())
    }

    /// Frames of 4 KiB pages around one.
    fn neighbours(&self, owner: Page) -> Vec<Pfn> {
        let table = owner.vpn.0 & !(TABLE_PAGES - 1);
        let start = owner.vpn.0.saturating_sub(BATCH / 2);
        let start = start.clamp(table, table + TABLE_PAGES - BATCH);
        let mut found = Vec::new();
        let mut at = start;
        while let Some(run) = self.table.next_mapped(owner.asid, at..start + BATCH) {
            if run.size == PageSize::Base4K {
                found.extend(run.pages().map(|page| self.translation(page).pfn));
            }
            at = run.end();
        }
        found
    }
}
