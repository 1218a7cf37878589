//! Reservations: blocks of 2 MiB of which pages of 4 KiB are used as they are touched, in their places, until they
//! become one page (FreeBSD's sys/vm/vm_reserv.c; Navarro et al., OSDI 2002).
//!
//! Frames of a block that nobody uses yet are free as soon as memory is short.

use crate::OsError;
use crate::frames::frame_table::FrameTable;
use crate::frames::rmap::NO_OWNER;
use crate::frames::tag;
use crate::pages::mapper::{Mapper, first_of, offset_by};
use crate::spaces::vma::Vma;
use pagelab_addr::{Asid, PageSize, Pfn};
use pagelab_translation::{Page, PageTable};

const SIZE: PageSize = PageSize::Large2M;
const PAGES: u32 = SIZE.base_pages();

impl FrameTable {
    /// True if a frame is a part of a reservation that nobody uses.
    pub fn is_reserved_part(&self, pfn: Pfn) -> bool {
        let head = Pfn(pfn.0 & !(PAGES - 1));
        self.is_unmapped_part(pfn) && self.folios.is_reserved(head)
    }

    /// Reserves a free block for a region, if there is one.
    fn reserve_block(&mut self, region: (Asid, u64)) -> Option<Pfn> {
        let head = self
            .buddy
            .allocate(SIZE.order(), tag::data(PageSize::Base4K))?;
        for pfn in head.0..head.0 + PAGES {
            *self.buddy.words_mut(Pfn(pfn)) = [NO_OWNER, 0];
        }
        self.make_folio(head, SIZE.order());
        self.folios.reserve(head, region);
        Some(head)
    }

    /// Takes a page of a reservation into use. How many are.
    fn fill(&mut self, head: Pfn) -> u32 {
        self.count_data(1);
        self.folios.fill(head)
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Maps a page in its place of a block that is reserved for its region (`vm_reserv_alloc_page`), and the whole
    /// block if that was the last (`pmap_promote_pde`). Whether it did, and the size that is mapped then.
    pub(crate) fn map_reserved(
        &mut self,
        vma: &Vma,
        page: Page,
        writable: bool,
    ) -> Result<Option<PageSize>, OsError> {
        let first = first_of(page, SIZE);
        let pages = first.vpn.0..first.vpn.0 + u64::from(PAGES);
        if !vma.covers(pages.clone()) {
            return Ok(None);
        }
        let region = (first.asid, first.vpn.0);
        let head = match self.frames.folios.reservation(region) {
            Some(head) => head,
            // Pages that are by themselves already stay so.
            None if !self.table.is_unmapped(page, SIZE)
                || self.frames.any_swapped(page.asid, pages) =>
            {
                return Ok(None);
            }
            None => match self.frames.reserve_block(region) {
                Some(head) => head,
                None => {
                    self.statistics.fallbacks_2m += 1;
                    return Ok(None);
                }
            },
        };
        let pfn = Pfn(head.0 + (page.id.0 - first.id.0));
        if !self.frames.is_unmapped_part(pfn) || !self.make_room(1) {
            return Ok(None);
        }
        // It may have been taken to make room.
        if self.frames.folios.reservation(region) != Some(head) {
            return Ok(None);
        }
        let used = self.frames.fill(head);
        if let Err(error) = self.map_shared(page, pfn, PageSize::Base4K, writable) {
            self.frames.free_unheld(pfn, PageSize::Base4K);
            return Err(error);
        }
        if self.sizes.promotes(used) && self.promote(first, head, PAGES - used)? {
            return Ok(Some(SIZE));
        }
        Ok(Some(PageSize::Base4K))
    }

    /// Makes one page of 2 MiB of a block that one address space has alone, of which so many pages are `unused`:
    /// they are zeroed. Whether it could.
    fn promote(&mut self, first: Page, head: Pfn, unused: u32) -> Result<bool, OsError> {
        let region = (first.asid, first.vpn.0);
        // Making room may take the reservation.
        let pages = first.vpn.0..first.vpn.0 + u64::from(PAGES);
        if unused > 0
            && (self.frames.any_swapped(first.asid, pages)
                || !self.make_room(unused)
                || self.frames.folios.reservation(region) != Some(head))
        {
            return Ok(false);
        }
        let mut used = Vec::with_capacity(PAGES as usize);
        for offset in 0..PAGES {
            let page = offset_by(first, offset);
            let pfn = Pfn(head.0 + offset);
            match self.table.lookup(page) {
                Some(found) if found.pfn == pfn && found.writable => {
                    if !self.frames.is_exclusive(pfn) {
                        return Ok(false);
                    }
                    used.push(page);
                }
                None if self.frames.is_unmapped_part(pfn) => {}
                _ => return Ok(false),
            }
        }
        debug_assert_eq!(used.len() as u32 + unused, PAGES);
        for &page in &used {
            self.take_out(page, PageSize::Base4K);
        }
        self.frames.pin(head, SIZE);
        let entered = self.enter(first, head, SIZE, true);
        self.frames.unpin();
        self.frames.count_data(unused);
        self.frames.join(head, first, &used);
        if let Err(error) = entered {
            self.frames.remove_page(head, SIZE, first);
            return Err(error);
        }
        for _ in 0..unused {
            self.effects.count_zeroed(PageSize::Base4K);
        }
        self.effects.invalidate(first.id, SIZE);
        self.statistics.promoted += 1;
        Ok(true)
    }
}
