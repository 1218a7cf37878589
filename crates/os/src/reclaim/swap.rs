//! Pages in the swap device: what is kept of them while they are there, and how they come back.

use super::lru::Kind;
use crate::OsError;
use crate::frames::frame_table::FrameTable;
use crate::pages::mapper::Mapper;
use crate::spaces::vma::Vma;
use pagelab_addr::{Asid, PageSize, Pfn, Vpn};
use pagelab_translation::{Page, PageTable};
use std::ops::Range;

impl FrameTable {
    /// True if a page is in the swap device.
    #[inline]
    pub fn is_swapped(&self, asid: Asid, vpn: Vpn) -> bool {
        self.any_swapped(asid, vpn.0..vpn.0 + 1)
    }

    /// Pages in the swap device.
    pub(crate) fn swapped_pages(&self) -> u64 {
        let reclaim = self.reclaim.as_ref();
        reclaim.map_or(0, |reclaim| reclaim.in_swap())
    }

    /// True if a page of a range is in the swap device.
    #[inline]
    pub(crate) fn any_swapped(&self, asid: Asid, pages: Range<u64>) -> bool {
        self.reclaim
            .as_ref()
            .is_some_and(|reclaim| reclaim.swapped_within(asid, pages).next().is_some())
    }

    /// Frees what a range has in the swap device.
    #[inline]
    pub(crate) fn forget_swapped(&mut self, asid: Asid, pages: Range<u64>) {
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.forget(asid, pages);
        }
    }

    /// True if a page of shared memory is in the swap device.
    pub fn is_swapped_slot(&self, slot: u32) -> bool {
        let reclaim = self.reclaim.as_ref();
        reclaim.is_some_and(|reclaim| reclaim.swapped_slots.contains_key(&slot))
    }

    /// Forgets a page that has left memory, since nobody shows its object any more.
    pub(crate) fn forget_slot(&mut self, slot: u32) {
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.dropped.remove(&slot);
            reclaim.swapped_slots.remove(&slot);
        }
    }

    /// Gives a fork's child what its parent has of a range in the swap device.
    pub(crate) fn share_swapped(&mut self, parent: Asid, child: Asid, pages: Range<u64>) {
        if let Some(reclaim) = &mut self.reclaim {
            let shared: Vec<_> = reclaim.swapped_within(parent, pages).collect();
            let shared = shared.into_iter().map(|(vpn, age)| ((child, vpn), age));
            reclaim.swapped.extend(shared);
        }
    }

    /// Moves what a range has in the swap device to another place.
    pub(crate) fn move_swapped(&mut self, asid: Asid, old: Range<u64>, to: u64) {
        if let Some(reclaim) = &mut self.reclaim {
            let moved: Vec<_> = reclaim.swapped_within(asid, old.clone()).collect();
            for (vpn, age) in moved {
                reclaim.swapped.remove(&(asid, vpn));
                reclaim.swapped.insert((asid, vpn - old.start + to), age);
            }
        }
    }
}

impl super::Reclaim {
    fn forget(&mut self, asid: Asid, pages: Range<u64>) {
        let gone: Vec<u64> = self
            .swapped_within(asid, pages)
            .map(|(vpn, _)| vpn)
            .collect();
        for vpn in gone {
            self.swapped.remove(&(asid, vpn));
        }
    }

    fn swapped_within(
        &self,
        asid: Asid,
        pages: Range<u64>,
    ) -> impl Iterator<Item = (u64, u64)> + '_ {
        let range = (asid, pages.start)..(asid, pages.end);
        let found = self.swapped.range(range);
        found.map(|(&(_, vpn), &age)| (vpn, age))
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Reads a page back from the swap device (`do_swap_page` in mm/memory.c).
    #[cold]
    pub(crate) fn swap_in(
        &mut self,
        vma: &Vma,
        page: Page,
        writable: bool,
    ) -> Result<PageSize, OsError> {
        let size = PageSize::Base4K;
        let Some(pfn) = self.map_new(vma, page, size, writable || vma.writable())? else {
            return Err(self.out_of_memory("a page of data"));
        };
        if let Some(reclaim) = &mut self.frames.reclaim
            && let Some(evicted) = reclaim.swapped.remove(&(page.asid, page.vpn.0))
        {
            let counts = self.statistics.reclaim.get_or_insert_default();
            counts.swapped_in += 1;
            counts.reactivated +=
                u64::from(reclaim.lru.refault(pfn, Kind::Anonymous, evicted, true));
        }
        self.effects.pages_read += 1;
        self.effects.blocks_given += 1;
        self.effects.pages_mapped[size as usize] += 1;
        Ok(size)
    }

    /// Notes that a page of a file was read again, or one of shared memory from the swap device
    /// (`shmem_swapin_folio`).
    #[cold]
    pub(crate) fn note_read(&mut self, slot: u32, pfn: Pfn) {
        self.effects.pages_read += 1;
        let counts = self.statistics.reclaim.get_or_insert_default();
        let Some(reclaim) = &mut self.frames.reclaim else {
            return;
        };
        if let Some(evicted) = reclaim.swapped_slots.remove(&slot) {
            counts.swapped_in += 1;
            counts.reactivated +=
                u64::from(reclaim.lru.refault(pfn, Kind::Anonymous, evicted, true));
            return;
        }
        counts.files_read += 1;
        if let Some(evicted) = reclaim.dropped.remove(&slot) {
            let swaps = reclaim.has_swap(1);
            counts.reactivated += u64::from(reclaim.lru.refault(pfn, Kind::File, evicted, swaps));
        }
    }
}
