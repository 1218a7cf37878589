//! Pages of 2 MiB that are mostly zeros: split when memory is short, and their zeros given back (`deferred_split_scan`
//! and `thp_underused` in mm/huge_memory.c, Linux 6.12).
//!
//! A page of 2 MiB waits in a queue from its fault or collapse on, and is looked at once. Contents are known by
//! stores alone: a page of 4 KiB that was stored to does not count as zeros, whatever was stored.

use super::split_queue::{BATCH, SplitQueue};
use super::stores::Stores;
use crate::OsError;
use crate::frames::frame_table::FrameTable;
use crate::pages::mapper::Mapper;
use pagelab_addr::{Asid, PageSize, Pfn, Vpn};
use pagelab_translation::{Page, PageTable};
use std::ops::Range;

const SIZE: PageSize = PageSize::Large2M;

impl FrameTable {
    #[inline]
    fn split_queue(&mut self) -> Option<&mut SplitQueue> {
        self.reclaim.as_mut()?.split_queue.as_mut()
    }

    #[inline]
    fn stores(&mut self) -> Option<&mut Stores> {
        self.split_queue().map(|queue| &mut queue.stores)
    }

    /// True if stores are to be noted.
    #[inline]
    pub(crate) fn notes_stores(&self) -> bool {
        let reclaim = self.reclaim.as_ref();
        reclaim.is_some_and(|reclaim| reclaim.split_queue.is_some())
    }

    /// Notes a store to a page.
    #[inline]
    pub(crate) fn note_store(&mut self, asid: Asid, vpn: Vpn) {
        if let Some(stores) = self.stores() {
            stores.note(asid, vpn.0);
        }
    }

    /// Notes that stores to an address space are not seen.
    pub(crate) fn note_unseen_stores(&mut self, asid: Asid) {
        if let Some(stores) = self.stores() {
            stores.note_unseen(asid);
        }
    }

    /// Forgets stores to a range, whose contents are gone.
    pub(crate) fn forget_stores(&mut self, asid: Asid, range: &Range<u64>) {
        if let Some(stores) = self.stores() {
            stores.forget(asid, range);
        }
    }

    /// Forgets an address space, which begins anew.
    pub(crate) fn forget_all_stores(&mut self, asid: Asid) {
        if let Some(stores) = self.stores() {
            stores.forget_all(asid);
        }
    }

    /// Gives a fork's child the contents of a range.
    pub(crate) fn share_stores(&mut self, parent: Asid, child: Asid, range: &Range<u64>) {
        if let Some(stores) = self.stores() {
            stores.copy(parent, child, range);
        }
    }

    /// Moves the contents of a range to another place.
    pub(crate) fn move_stores(&mut self, asid: Asid, old: &Range<u64>, to: u64) {
        if let Some(stores) = self.stores() {
            stores.shift(asid, old, to);
        }
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Has a page of 2 MiB that was just mapped be looked at when memory is short (`deferred_split_folio`).
    pub(crate) fn defer_split(&mut self, first: Page) {
        if self.frames.notes_stores() {
            let head = self.translation(first).pfn;
            if let Some(queue) = self.frames.split_queue() {
                queue.add(head);
            }
        }
    }

    /// Looks at pages of the queue, at low priorities at few (`do_shrink_slab`).
    pub(super) fn shrink_underused(&mut self, priority: u32) {
        if !self.frames.notes_stores() || self.is_copying() {
            return;
        }
        let Some(queue) = self.frames.split_queue() else {
            return;
        };
        let freeable = queue.length();
        if freeable == 0 {
            return;
        }
        let (due, mut looks) = queue.looks(priority);
        let mut looked = 0;
        while looks >= BATCH || looks >= freeable {
            let now = looks.min(BATCH);
            if self.scan_underused(now) {
                break;
            }
            looks -= now;
            looked += now;
        }
        if let Some(queue) = self.frames.split_queue() {
            queue.defer(due.saturating_sub(looked), 2 * freeable);
        }
    }

    /// True if a page waits to be copied: it is pinned, and splits pin others.
    fn is_copying(&self) -> bool {
        let pinned = self.frames.pinned;
        pinned.is_some_and(|(head, _)| !self.frames.is_zeros(head))
    }

    /// Splits what is underused among the next pages of the queue. True if none was, and none is left.
    fn scan_underused(&mut self, looks: u64) -> bool {
        let queue = self.frames.split_queue();
        let next = queue.map_or_else(Vec::new, |queue| queue.next(looks));
        let mut split = false;
        for head in next {
            let queue = self.frames.split_queue();
            if queue.is_some_and(|queue| queue.remove(head, SIZE.order())) {
                split |= self.split_if_underused(head);
            }
        }
        let queue = self.frames.split_queue();
        !split && queue.is_none_or(|queue| queue.length() == 0)
    }

    fn split_if_underused(&mut self, head: Pfn) -> bool {
        let Some(queue) = self.frames.split_queue() else {
            return false;
        };
        let max_zeros = queue.max_zeros as usize;
        // Parts that nobody maps any more go elsewhere.
        if max_zeros == SIZE.base_pages() as usize - 1 || self.frames.folios.is_partly_mapped(head)
        {
            return false;
        }
        let zeros = self.zeros_within(head);
        zeros.len() > max_zeros && self.split_underused(head, &zeros).is_ok()
    }

    /// Frames of a page of 2 MiB that hold zeros.
    fn zeros_within(&self, head: Pfn) -> Vec<Pfn> {
        let reclaim = self.frames.reclaim.as_ref();
        let Some(queue) = reclaim.and_then(|reclaim| reclaim.split_queue.as_ref()) else {
            return Vec::new();
        };
        let frames = (head.0..head.0 + SIZE.base_pages()).map(Pfn);
        let is_zero = |&pfn: &Pfn| {
            // Each page may have an entry by itself.
            let offset = pfn.0 % self.frames.size_of_entries(pfn).base_pages();
            let owners = self.owners(pfn);
            let mut pages = owners
                .iter()
                .map(|page| (page.asid, page.vpn.0 + u64::from(offset)));
            !pages.any(|(asid, vpn)| queue.stores.has(asid, vpn))
        };
        frames.filter(is_zero).collect()
    }

    /// Splits a page, and has the shared page of zeros in place of its own (`split_folio`,
    /// `try_to_map_unused_to_zeropage`).
    fn split_underused(&mut self, head: Pfn, zeros: &[Pfn]) -> Result<(), OsError> {
        let small = PageSize::Base4K;
        let Some(shared) = self.frames.zeros(small) else {
            return Err(self.out_of_memory("the page of zeros"));
        };
        let (pinned, accounting) = (self.frames.pinned, self.statistics.accounting);
        if self.frames.size_of_entries(head) == SIZE
            && let Some(&owner) = self.owners(head).first()
        {
            let split = self.split(owner, SIZE);
            self.frames.pinned = pinned;
            split?;
        }
        self.frames.dissolve(head);
        let mut freed = 0;
        let pages: Vec<Page> = zeros.iter().flat_map(|&pfn| self.owners(pfn)).collect();
        for page in pages {
            // A page table that shrinks may have moved it.
            let pfn = self.take_out(page, small).pfn;
            // Without a place for the entry the next access faults.
            let _ = self.enter(page, shared, small, false);
            freed += u64::from(self.frames.remove_page(pfn, small, page));
            self.effects.invalidate(page.id, small);
        }
        self.effects.frames_freed += freed;
        self.effects.narrowed = true;
        self.statistics.accounting = accounting;
        let counts = self.counts();
        counts.underused_splits += 1;
        counts.zeros_freed += freed;
        Ok(())
    }
}
