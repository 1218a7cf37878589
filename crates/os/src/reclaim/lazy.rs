//! Pages that a program calls free: they leave memory without being written (MADV_FREE).
//!
//! They are in the list of files' pages that are not active, since dropping them costs as little (`lru_lazyfree` in
//! mm/swap.c, Linux 6.12). One that is used again stays: whatever sets its accessed bit counts as a store.

use super::lru::Kind;
use crate::frames::frame_table::FrameTable;
use crate::pages::mapper::Mapper;
use pagelab_addr::{Asid, PageSize, Pfn};
use pagelab_translation::{Page, PageTable};
use std::ops::Range;

impl FrameTable {
    /// Has a unit leave unwritten, unless it is used before.
    fn free_lazily(&mut self, head: Pfn, order: u32) {
        if self.listed_kind(head).is_none() {
            return;
        }
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.lru.take_accessed(head, order);
            reclaim.lru.set_referenced(head, false);
            reclaim.lru.set_lazily_free(head, true);
            reclaim.lru.cool(head, 1 << order, Kind::File);
        }
    }

    /// True if a unit is free for its program.
    pub(super) fn is_lazily_free(&self, head: Pfn) -> bool {
        let reclaim = self.reclaim.as_ref();
        reclaim.is_some_and(|reclaim| reclaim.lru.is_lazily_free(head))
    }

    /// True if such a unit was not used since. One that was is anonymous memory as any other from now on
    /// (`folio_set_swapbacked`).
    pub(super) fn is_still_free(&mut self, head: Pfn, order: u32) -> bool {
        let Some(reclaim) = &mut self.reclaim else {
            return false;
        };
        let used = reclaim.lru.take_accessed(head, order) > 0;
        let used = reclaim.lru.set_referenced(head, false) || used;
        if used {
            reclaim.lru.set_lazily_free(head, false);
            reclaim.lru.cool(head, 1 << order, Kind::Anonymous);
        }
        !used
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Frees anonymous memory of a range, at the latest when memory is short (`madvise_free_pte_range` in
    /// mm/madvise.c, `madvise_free_huge_pmd`). What others have, too, stays.
    pub(crate) fn free_lazily(&mut self, asid: Asid, pages: Range<u64>) {
        if self.frames.reclaim.is_none() {
            return;
        }
        self.frames.forget_swapped(asid, pages.clone());
        let mut found = Vec::new();
        let mut at = pages.start;
        while let Some(run) = self.table.next_mapped(asid, at..pages.end) {
            found.extend(run.pages().map(|page| (page, run.size)));
            at = run.end();
        }
        for (page, size) in found {
            let pfn = self.translation(page).pfn;
            let others = self.frames.map_count(pfn) != 1 || self.frames.maybe_shared(pfn, asid);
            if others || self.frames.is_in_slot(pfn) {
                continue;
            }
            let head = self.unit(page, pfn, size, &pages);
            self.frames.free_lazily(head, self.frames.unit_order(head));
            // Accessed bits are set anew.
            self.effects.invalidate(page.id, size);
            self.effects.narrowed = true;
        }
    }

    /// The unit of a page, which all lies in the range: a folio of which only a part does is parted.
    fn unit(&mut self, page: Page, pfn: Pfn, size: PageSize, pages: &Range<u64>) -> Pfn {
        let order = self.frames.unit_order(pfn);
        if size != PageSize::Base4K || order == 0 {
            return pfn;
        }
        let offset = pfn.0 & ((1 << order) - 1);
        let head = Pfn(pfn.0 - offset);
        let start = page.vpn.0.wrapping_sub(offset.into());
        let whole = (0..1 << order).all(|at| {
            let vpn = start.wrapping_add(at);
            let owners = self.owners(Pfn(head.0 + at as u32));
            pages.contains(&vpn)
                && matches!(owners[..], [owner] if owner.asid == page.asid && owner.vpn.0 == vpn)
        });
        if whole {
            return head;
        }
        self.frames.part_with_folio(pfn);
        pfn
    }
}
