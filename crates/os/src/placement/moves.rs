//! Frames to which pages are hashed, and those of restrictive segments: pages that move in and out.

use crate::frame_table::{FrameTable, is_pinned};
use crate::hashed::Places;
use crate::segments::Segments;
use crate::tag;
use crate::{HashedStatistics, SegmentStatistics};
use pagelab_addr::{PageId, PageSize, Pfn};
use pagelab_translation::{Iceberg, Tiers};

impl FrameTable {
    /// Hash of pages to buckets of frames, where there is one.
    pub fn iceberg(&self) -> Option<Iceberg> {
        match self.placing.hashed()?.places {
            Places::Iceberg(iceberg) => Some(iceberg),
            Places::Tiers(_) => None,
        }
    }

    /// Hashes of pages to frames by several functions, where there are such.
    pub fn tiers(&self) -> Option<Tiers> {
        match self.placing.hashed()?.places {
            Places::Iceberg(_) => None,
            Places::Tiers(tiers) => Some(tiers),
        }
    }

    pub(crate) fn hashed_statistics(&self) -> Option<HashedStatistics> {
        self.placing.hashed().map(|hashed| hashed.statistics)
    }

    pub(crate) fn segment_statistics(&self) -> Option<SegmentStatistics> {
        self.placing.segments().map(Segments::statistics)
    }

    /// True if a frame is one of a restrictive segment that nothing is in.
    pub fn is_restricted(&self, pfn: Pfn) -> bool {
        self.buddy.tag(pfn) == tag::RESTRICTED
    }

    /// True if a page that is first touched pushes another out of a full set.
    #[inline]
    pub(crate) fn evicts_at_faults(&self) -> bool {
        self.placing
            .segments()
            .is_some_and(Segments::evicts_at_faults)
    }

    /// The page, by its first frame, that has to leave the set of a page for it.
    pub(crate) fn victim(&mut self, page: PageId, size: PageSize) -> Option<Pfn> {
        let pinned = self.pinned;
        let segments = self.placing.segments_mut()?;
        segments.victim(&self.buddy, page, size, |head| is_pinned(pinned, head))
    }

    /// Moves the page that has to leave the set of this page to the flexible segment, but for its
    /// entries in page tables: where it is then. `None` if none has to, or if there is no room.
    pub(crate) fn move_out(&mut self, victim: Pfn, size: PageSize) -> Option<Pfn> {
        let segments = self.placing.segments_mut()?;
        let to = self.buddy.allocate(size.order(), tag::data(size))?;
        segments.note_eviction(size);
        self.relocate(victim, to, size);
        Some(to)
    }

    /// True if a page in a block could be in a set of its own and is not.
    pub(crate) fn may_move_in(&self, head: Pfn, page: PageId, size: PageSize) -> bool {
        self.placing.segments().is_some_and(|segments| {
            self.buddy.tag(head) == tag::data(size) && !segments.in_set(head, page, size)
        })
    }

    /// Moves a block into the set of a page, but for its entries in page tables: where it is then.
    /// `None` if no way is free.
    pub(crate) fn move_in(&mut self, from: Pfn, page: PageId, size: PageSize) -> Option<Pfn> {
        let segments = self.placing.segments_mut()?;
        let to = segments.take(&mut self.buddy, page, size)?;
        self.relocate(from, to, size);
        Some(to)
    }

    pub(crate) fn note_move(&mut self, size: PageSize, moved: bool) {
        if let Some(segments) = self.placing.segments_mut() {
            segments.note_move(size, moved);
        }
    }
}
