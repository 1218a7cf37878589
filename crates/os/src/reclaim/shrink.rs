//! Pages taken off the lists (`shrink_lruvec` in mm/vmscan.c, Linux 6.12).
//!
//! A program that needs memory takes it itself, as a cgroup at its limit does (`try_charge_memcg`).

use super::lru::Kind;
use crate::pages::mapper::Mapper;
use crate::statistics::ReclaimStatistics;
use pagelab_addr::{Asid, PageSize, Pfn};
use pagelab_translation::{Page, PageTable};
use std::ops::Range;

/// Pages that are looked at and taken at a time (`SWAP_CLUSTER_MAX`).
pub(super) const BATCH: u64 = 32;
/// Priority at which a reclaim begins (`DEF_PRIORITY`): it looks at all pages / 2^12.
pub(super) const FIRST_PRIORITY: u32 = 12;
/// Times that it is tried (`MAX_RECLAIM_RETRIES` in mm/memcontrol.c).
pub(super) const TRIES: u32 = 16;

/// Use of a unit since it was looked at last.
enum Use {
    Unused,
    UsedOnce,
    UsedTwice,
}

impl<T: PageTable> Mapper<'_, T> {
    /// Makes room for so many frames, where there are limits. Whether there is.
    #[inline]
    pub(crate) fn make_room(&mut self, frames: u32) -> bool {
        self.frames.has_room(frames) || self.reclaim_for(frames)
    }

    /// True if there is room for a page of a size, or was made. For a larger one that is not asked for nobody waits
    /// (`vma_thp_gfp_mask`).
    #[cold]
    pub(crate) fn has_room_for(&mut self, size: PageSize) -> bool {
        match size {
            PageSize::Base4K => self.make_room(1),
            _ => self.frames.has_room(size.base_pages()),
        }
    }

    #[cold]
    fn reclaim_for(&mut self, frames: u32) -> bool {
        for _ in 0..TRIES {
            self.reclaim(u64::from(frames).max(BATCH));
            if self.frames.has_room(frames) {
                return true;
            }
            self.frames.shrink();
        }
        self.frames.has_room(frames)
    }

    /// Takes pages, first of few, then of more and more that it looks at (`do_try_to_free_pages`).
    fn reclaim(&mut self, wanted: u64) {
        self.counts().reclaims += 1;
        let mut taken = 0;
        // Active pages are spared, until nothing else is left.
        for spares in [true, false] {
            for priority in (0..=FIRST_PRIORITY).rev() {
                taken += self.shrink_lists(priority, wanted - taken, spares);
                self.shrink_underused(priority);
                if taken >= wanted {
                    break;
                }
            }
            if taken > 0 {
                break;
            }
        }
        if let Some(reclaim) = &mut self.frames.reclaim {
            reclaim.lru.end_reclaim();
            if let Some(kswapd) = &mut reclaim.kswapd
                && taken > 0
            {
                kswapd.failures = 0;
            }
        }
    }

    pub(super) fn counts(&mut self) -> &mut ReclaimStatistics {
        self.statistics.reclaim.get_or_insert_default()
    }

    pub(super) fn shrink_lists(&mut self, priority: u32, wanted: u64, spares: bool) -> u64 {
        let Some(reclaim) = &self.frames.reclaim else {
            return 0;
        };
        if reclaim.lru.generations.is_some() {
            return self.shrink_generations(priority, wanted);
        }
        let (lru, swaps) = (&reclaim.lru, reclaim.has_swap(1));
        let short_of = self.frames.short_of_high(reclaim);
        let swappiness = reclaim.config.swappiness;
        let mut left = lru.scan_counts(priority, swaps, swappiness, short_of);
        let deactivating = lru.deactivating();
        let mut taken = 0;
        while left.iter().any(|&pages| pages > 0) && taken < wanted {
            for (list, left) in left.iter_mut().enumerate() {
                let pages = BATCH.min(*left);
                *left -= pages;
                let (kind, active) = Kind::of(list);
                if pages == 0 || active && spares && !deactivating[kind as usize] {
                } else if active {
                    self.deactivate(list, pages);
                } else {
                    taken += self.shrink_inactive(list, pages);
                }
            }
        }
        if let Some(reclaim) = &self.frames.reclaim
            && swaps
            && reclaim.lru.inactive_is_low(Kind::Anonymous)
        {
            self.deactivate(Kind::Anonymous.list(true), BATCH);
        }
        taken
    }

    /// The units at the bottom of a list that have so many pages together.
    fn isolate(&mut self, list: usize, pages: u64) -> Vec<(Pfn, u32)> {
        let Some(reclaim) = &self.frames.reclaim else {
            return Vec::new();
        };
        let mut found = 0;
        let units = reclaim.lru.units.upwards(list);
        let with_order = units.map(|head| (head, self.frames.unit_order(head)));
        with_order
            .take_while(|&(_, order)| {
                let goes_on = found < pages;
                found += 1 << order;
                goes_on
            })
            .collect()
    }

    /// Has the pages used least lately of an active list no longer be that (`shrink_active_list`).
    fn deactivate(&mut self, list: usize, pages: u64) {
        let (kind, _) = Kind::of(list);
        let mut deactivated = 0;
        for (head, order) in self.isolate(list, pages) {
            let Some(reclaim) = &mut self.frames.reclaim else {
                return;
            };
            let (lru, pages) = (&mut reclaim.lru, 1 << order);
            let used = lru.take_accessed(head, order) > 0;
            // Code that runs once in a while is kept before data that streams through.
            let stays = used && kind == Kind::File && lru.is_executable(head);
            lru.put(head, pages, kind.list(stays));
            deactivated += if stays { 0 } else { pages };
        }
        self.counts().deactivated += deactivated;
    }

    /// Takes what is not used of an inactive list (`shrink_folio_list`); how many pages.
    fn shrink_inactive(&mut self, list: usize, pages: u64) -> u64 {
        let (kind, _) = Kind::of(list);
        let (mut scanned, mut taken, mut activated) = (0, 0, 0);
        for (head, order) in self.isolate(list, pages) {
            let pages = 1 << order;
            // A page table that shrinks may have moved it.
            if self.frames.listed_kind(head) != Some(kind) {
                continue;
            }
            scanned += pages;
            let usage = self.usage(head, order, kind);
            if let Use::Unused = usage
                && self.evict(head, order, kind)
            {
                taken += pages;
                continue;
            }
            let Some(reclaim) = &mut self.frames.reclaim else {
                break;
            };
            if let Use::UsedTwice = usage {
                let kind = if reclaim.lru.is_lazily_free(head) {
                    reclaim.lru.set_lazily_free(head, false);
                    Kind::Anonymous
                } else {
                    kind
                };
                reclaim.lru.activate(head, pages, kind);
                activated += pages;
            } else {
                reclaim.lru.put(head, pages, list);
            }
        }
        if let Some(reclaim) = &mut self.frames.reclaim {
            let written = if kind == Kind::Anonymous { taken } else { 0 };
            (reclaim.lru).note_cost(kind, written * BATCH + scanned - taken);
        }
        let counts = self.counts();
        counts.scanned += scanned;
        counts.taken += taken;
        counts.activated += activated;
        taken
    }

    /// Has what an address space alone maps of a range leave memory, or be the next to leave
    /// (`madvise_cold_or_pageout_pte_range` in mm/madvise.c).
    pub(crate) fn page_out(&mut self, asid: Asid, pages: Range<u64>, now: bool) {
        if self.frames.reclaim.is_none() {
            return;
        }
        let mut heads = Vec::new();
        let mut at = pages.start;
        while let Some(run) = self.table.next_mapped(asid, at..pages.end) {
            let mapped = run.pages().map(|page| self.translation(page).pfn);
            heads.extend(mapped.filter(|&pfn| self.frames.map_count(pfn) == 1));
            at = run.end();
        }
        for head in heads {
            if !now {
                self.frames.make_cold(head);
                continue;
            }
            self.frames.part_with_folio(head);
            if let Some(kind) = self.frames.listed_kind(head) {
                self.evict(head, self.frames.unit_order(head), kind);
            }
        }
    }

    /// Use of a unit since it was looked at last (`folio_check_references`).
    fn usage(&mut self, head: Pfn, order: u32, kind: Kind) -> Use {
        let Some(reclaim) = &mut self.frames.reclaim else {
            return Use::UsedOnce;
        };
        let lru = &mut reclaim.lru;
        let entries = lru.take_accessed(head, order);
        let before = lru.set_referenced(head, entries > 0);
        let code = kind == Kind::File && lru.is_executable(head);
        match entries {
            // It may have been written since its program called it free.
            0 if before && lru.is_lazily_free(head) => Use::UsedTwice,
            0 => Use::Unused,
            1 if !before && !code => Use::UsedOnce,
            _ => Use::UsedTwice,
        }
    }

    /// Has a unit leave memory, if it may.
    pub(crate) fn evict(&mut self, head: Pfn, order: u32, kind: Kind) -> bool {
        if self.frames.pins(head, order) || self.frames.is_only_reserved(head, order) {
            return false;
        }
        let left = match kind {
            Kind::File if self.frames.is_lazily_free(head) => {
                if self.frames.is_still_free(head, order) {
                    self.unmap_unit(head, order, None);
                    true
                } else {
                    self.swap_out(head, order)
                }
            }
            Kind::File => self.drop_page(head),
            Kind::Anonymous if self.frames.is_in_slot(head) => self.swap_out_shared(head),
            Kind::Anonymous => self.swap_out(head, order),
        };
        // Translations go together (`try_to_unmap_flush`).
        self.effects.narrowed |= left;
        left
    }

    /// Unmaps a page of a file, which is read again when it is wanted.
    fn drop_page(&mut self, pfn: Pfn) -> bool {
        let Some(slot) = self.frames.slot(pfn) else {
            return false;
        };
        let owners = self.owners(pfn);
        let dirty = owners.iter().any(|&page| self.translation(page).writable);
        for page in owners {
            self.unmap_evicted(page, pfn, PageSize::Base4K);
        }
        self.frames.drop_slot(pfn, slot);
        if let Some(reclaim) = &mut self.frames.reclaim {
            let age = reclaim.lru.note_eviction(pfn, Kind::File, 1);
            reclaim.dropped.insert(slot, age);
        }
        self.effects.pages_written += u64::from(dirty);
        let counts = self.counts();
        counts.files_dropped += 1;
        counts.files_written += u64::from(dirty);
        true
    }

    /// Writes a page of shared memory to the swap device, once for all that map it.
    fn swap_out_shared(&mut self, pfn: Pfn) -> bool {
        let slot = self.frames.slot(pfn);
        let (Some(slot), Some(reclaim)) = (slot, &mut self.frames.reclaim) else {
            return false;
        };
        if !reclaim.has_swap(1) {
            return false;
        }
        let age = reclaim.lru.note_eviction(pfn, Kind::Anonymous, 1);
        reclaim.swapped_slots.insert(slot, age);
        for page in self.owners(pfn) {
            self.unmap_evicted(page, pfn, PageSize::Base4K);
        }
        self.frames.drop_slot(pfn, slot);
        self.effects.pages_written += 1;
        self.counts().swapped_out += 1;
        true
    }

    /// Writes a page or folio of anonymous memory to the swap device (`add_to_swap`, `try_to_unmap`).
    fn swap_out(&mut self, head: Pfn, order: u32) -> bool {
        let pages = 1 << order;
        let Some(reclaim) = &mut self.frames.reclaim else {
            return false;
        };
        if !reclaim.has_swap(pages) {
            return false;
        }
        let age = reclaim.lru.note_eviction(head, Kind::Anonymous, pages);
        let written = self.unmap_unit(head, order, Some(age));
        self.effects.pages_written += written;
        self.counts().swapped_out += written;
        true
    }

    /// Unmaps a page or folio of anonymous memory, which is in the swap device since then if it has an age. Returns the
    /// number of its pages that were mapped.
    fn unmap_unit(&mut self, head: Pfn, order: u32, age: Option<u64>) -> u64 {
        let mut mapped = 0;
        // One entry may map the whole unit, or one each of its pages.
        let mut offset = 0;
        while offset < 1 << order {
            let pfn = Pfn(head.0 + offset);
            let size = self.frames.size_of_entries(pfn);
            offset += size.base_pages();
            let owners = self.owners(pfn);
            mapped += u64::from(size.base_pages()) * u64::from(!owners.is_empty());
            for page in owners {
                self.unmap_evicted(page, pfn, size);
                let range = page.vpn.0..page.vpn.0 + u64::from(size.base_pages());
                let Some(age) = age else {
                    self.frames.forget_stores(page.asid, &range);
                    continue;
                };
                if let Some(reclaim) = &mut self.frames.reclaim {
                    let left = range.map(|vpn| ((page.asid, vpn), age));
                    reclaim.swapped.extend(left);
                }
            }
        }
        mapped
    }

    fn unmap_evicted(&mut self, page: Page, pfn: Pfn, size: PageSize) {
        self.take_out(page, size);
        let freed = self.frames.remove_page(pfn, size, page);
        self.effects.entries_unmapped += 1;
        self.effects.frames_freed += u64::from(freed);
        self.effects.invalidate(page.id, size);
    }
}
