//! Frames of large folios: when they are kept, parted and freed.

use crate::frames::frame_table::{FrameTable, IN_FOLIO};
use crate::frames::tag;
use pagelab_addr::{Asid, PageSize, Pfn};

impl FrameTable {
    /// First frame of the folio around the first frame of a page, if it is one of those here.
    fn folio(&self, pfn: Pfn) -> Option<Pfn> {
        if self.buddy.words(pfn)[1] & IN_FOLIO == 0 {
            return None;
        }
        match tag::folio_order(self.buddy.tag(pfn)) {
            Some(order) => Some(Pfn(pfn.0 & !((1 << order) - 1))),
            None => Some(pfn),
        }
    }

    /// Order of the folio of which a page of 4 KiB is part, and the page's place there.
    pub(crate) fn part(&self, pfn: Pfn) -> Option<(u32, u32)> {
        let order = tag::folio_order(self.buddy.tag(pfn))?;
        Some((order, pfn.0 & ((1 << order) - 1)))
    }

    /// True if a frame is part of a folio and nobody maps it any more.
    pub fn is_unmapped_part(&self, pfn: Pfn) -> bool {
        tag::folio_order(self.buddy.tag(pfn)).is_some() && self.map_count(pfn) == 0
    }

    /// Makes a folio of a block that nobody maps, for entries of 4 KiB.
    pub(crate) fn make_folio(&mut self, head: Pfn, order: u32) {
        self.buddy.set_tag(head, order, tag::folio(order));
        for pfn in head.0..head.0 + (1 << order) {
            self.buddy.words_mut(Pfn(pfn))[1] |= IN_FOLIO;
        }
        self.folios.insert(head, order);
        self.list(head, order);
    }

    /// Notes that an address space alone maps a page of 2 MiB, before others do.
    pub(crate) fn note_alone(&mut self, head: Pfn, size: PageSize, mm: Asid) {
        if size == PageSize::Large2M && self.keeps_folios && !self.folios.has(head) {
            self.buddy.words_mut(head)[1] |= IN_FOLIO;
            self.folios.insert(head, size.order());
            self.folios.add(head, mm, 1);
        }
    }

    /// Notes that entries of 4 KiB map a page of 2 MiB from now on, in the address spaces that mapped it.
    pub(crate) fn note_split(&mut self, head: Pfn, mms: &[Asid]) {
        let order = PageSize::Large2M.order();
        let fresh = !self.folios.has(head);
        if fresh {
            self.folios.insert(head, order);
        }
        for &mm in mms {
            let counted = u32::from(!fresh);
            self.folios.add(head, mm, (1 << order) - counted);
        }
        self.buddy.set_tag(head, order, tag::folio(order));
    }

    /// Counts a mapping of a page in its folio.
    pub(crate) fn add_to_folio(&mut self, pfn: Pfn, mm: Asid) {
        if let Some(head) = self.folio(pfn) {
            self.folios.add(head, mm, 1);
        }
    }

    /// Takes a mapping of a page off its folio's count.
    pub(crate) fn subtract_from_folio(&mut self, pfn: Pfn, mm: Asid) {
        if let Some(head) = self.folio(pfn) {
            self.folios.subtract(head, mm, 1);
        }
    }

    /// True if other address spaces may have a page of this one's, or of its folio (`folio_likely_mapped_shared`).
    pub(crate) fn maybe_shared(&self, pfn: Pfn, mm: Asid) -> bool {
        let folio = self.folio(pfn);
        let shared = folio.and_then(|head| self.folios.maybe_shared(head, mm));
        shared.unwrap_or(self.map_count(pfn) > 1)
    }

    /// True if a store of an address space may keep its page of a folio; `None` for a page that is in none.
    pub(crate) fn folio_may_be_reused(&self, pfn: Pfn, mm: Asid) -> Option<bool> {
        tag::folio_order(self.buddy.tag(pfn))?;
        self.folios.may_be_reused(self.folio(pfn)?, mm)
    }

    /// Frees the folio of a page that nobody maps if nobody maps the others. Returns the number of frames freed.
    pub(crate) fn free_page_of_folio(&mut self, pfn: Pfn, size: PageSize) -> u32 {
        let Some(head) = self.folio(pfn) else {
            return 0;
        };
        // Frames of a reservation that nobody uses are no data.
        let reserved = self.folios.is_reserved(head);
        if size == PageSize::Base4K && !self.folios.unmap(head) {
            return u32::from(reserved);
        }
        let order = self.folios.remove(head).map_or(0, |folio| folio.order);
        self.free_block(head, order);
        if reserved { 1 } else { 1 << order }
    }

    /// Makes the pages of a folio that somebody maps, or is about to, pages by themselves, and frees the others
    /// (`split_folio`). Returns the number of frames freed.
    pub(crate) fn dissolve(&mut self, head: Pfn) -> u32 {
        let reserved = self.folios.is_reserved(head);
        let Some(folio) = self.folios.remove(head) else {
            return 0;
        };
        let mut freed = 0;
        self.list_parts(head, folio.order);
        for pfn in (head.0..head.0 + (1 << folio.order)).map(Pfn) {
            if self.map_count(pfn) > 0 || self.is_pinned(pfn) {
                self.buddy.set_tag(pfn, 0, tag::data(PageSize::Base4K));
                self.buddy.words_mut(pfn)[1] &= !IN_FOLIO;
            } else {
                self.free_block(pfn, 0);
                freed += 1;
            }
        }
        if !reserved {
            self.data_frames -= freed;
        }
        freed
    }

    /// Makes a page that is part of a folio one by itself, so that it can be moved.
    pub(crate) fn part_with_folio(&mut self, pfn: Pfn) {
        if tag::folio_order(self.buddy.tag(pfn)).is_some()
            && let Some(head) = self.folio(pfn)
        {
            self.dissolve(head);
        }
    }

    /// Frees what nobody maps of folios, since memory is short (`deferred_split_scan`). Whether any was freed.
    #[cold]
    pub(crate) fn shrink(&mut self) -> bool {
        let partly_mapped = self.folios.take_partly_mapped();
        let freed: u32 = partly_mapped
            .into_iter()
            .map(|head| self.dissolve(Pfn(head)))
            .sum();
        freed > 0
    }
}
