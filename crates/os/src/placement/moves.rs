//! Pages that move because of their placement: out of frames that another is to have, and into those they want.

use super::Placer;
use crate::frames::frame_table::{FrameTable, is_pinned};
use crate::frames::tag;
use pagelab_addr::{PageId, PageSize, Pfn};
use pagelab_translation::{Iceberg, Tiers};

impl FrameTable {
    /// Hash of pages to buckets of frames, where there is one.
    pub fn iceberg(&self) -> Option<Iceberg> {
        self.placer()?.iceberg()
    }

    /// Hashes of pages to frames by several functions, where there are such.
    pub fn tiers(&self) -> Option<Tiers> {
        self.placer()?.tiers()
    }

    /// True if a frame is one of a restrictive segment that nothing is in.
    pub fn is_restricted(&self, pfn: Pfn) -> bool {
        self.buddy.tag(pfn) == tag::RESTRICTED
    }

    pub(crate) fn placer(&self) -> Option<&dyn Placer> {
        self.placer.as_deref()
    }

    /// True if a page that is first touched pushes another out.
    #[inline]
    pub(crate) fn evicts_at_faults(&self) -> bool {
        self.placer().is_some_and(Placer::evicts_at_faults)
    }

    /// The page, by its first frame, that has to leave its frames for another.
    pub(crate) fn victim(&mut self, page: PageId, size: PageSize) -> Option<Pfn> {
        let pinned = self.pinned;
        let placer = self.placer.as_mut()?;
        placer.victim(&self.buddy, page, size, &|head| is_pinned(pinned, head))
    }

    /// Moves such a page to any free frames, but for its entries in page tables: where it is then. `None` if there is
    /// no room.
    pub(crate) fn move_out(&mut self, victim: Pfn, size: PageSize) -> Option<Pfn> {
        let placer = self.placer.as_mut()?;
        let to = self.buddy.allocate(size.order(), tag::data(size))?;
        placer.note_eviction(size);
        self.relocate(victim, to, size);
        Some(to)
    }

    /// True if a page in a block would better be elsewhere.
    pub(crate) fn wants_to_move(&self, head: Pfn, page: PageId, size: PageSize) -> bool {
        self.buddy.tag(head) == tag::data(size)
            && (self.placer()).is_some_and(|placer| placer.wants_to_move(head, page, size))
    }

    /// Moves a page there, but for its entries in page tables: where it is then. `None` if no frames are free.
    pub(crate) fn move_in(&mut self, from: Pfn, page: PageId, size: PageSize) -> Option<Pfn> {
        let to = self.placer.as_mut()?.take(&mut self.buddy, page, size)?;
        self.relocate(from, to, size);
        Some(to)
    }

    pub(crate) fn note_move(&mut self, size: PageSize, moved: bool) {
        if let Some(placer) = &mut self.placer {
            placer.note_move(size, moved);
        }
    }
}
