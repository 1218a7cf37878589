//! Placement: which frames a page of data may have, where a design asks for others than any that is free.
//!
//! A placement is a file of this folder that implements [`Placer`]; [`Placement`] names it and [`build`] makes it.
//! Eager paging places whole allocations instead: calls/eager.rs.

mod hashed;
mod moves;
mod segments;

use crate::frames::buddy::Buddy;
use crate::frames::preallocate::preallocate;
use crate::{HashedStatistics, OsConfig, OsConfigError, SegmentStatistics};
use pagelab_addr::{PageId, PageSize, Pfn};
use pagelab_translation::{Iceberg, RestSegs, Tiers};
use std::fmt::Debug;

/// Placement of 4 KiB pages of data in frames: not a choice of the user's, but what a TLB design
/// asks of the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Any free frame, from the buddy allocator.
    #[default]
    Buddy,
    /// Contiguous frames for a whole allocation, at once when it is made, as large a block as
    /// there is.
    Eager,
    /// One of the few that hashing the page gives (see [`pagelab_translation::Iceberg`]).
    Hashed,
    /// The one that the first of so many hash functions gives whose frame is free (see
    /// [`pagelab_translation::Tiers`]); any, if none is.
    Tiered {
        /// Number of functions.
        functions: u32,
    },
    /// A way of their set in a restrictive segment, and any frame of the flexible one where there is
    /// none (see [`pagelab_translation::RestSegs`]). Pages of 2 MiB, too.
    Segmented {
        /// The segments.
        segments: RestSegs,
        /// Pages are placed there at their first touch.
        at_faults: bool,
        /// They push others out of a full set then.
        evicting: bool,
    },
}

/// Frames for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Taken, by the first.
    At(Pfn),
    /// Any that the memory manager likes.
    Anywhere,
    /// None: memory is full.
    Full,
}

/// A placement at work, on top of the buddy allocator, which knows the free frames.
pub(crate) trait Placer: Debug + Send {
    /// Another at the same point.
    fn boxed(&self) -> Box<dyn Placer>;

    /// Takes frames for a page that is first touched.
    fn place(&mut self, memory: &mut Buddy, page: PageId, size: PageSize) -> Place;

    /// Takes others for a page that has to leave its own to a page table.
    fn displace(&mut self, _memory: &mut Buddy, _page: PageId, _size: PageSize) -> Place {
        Place::Anywhere
    }

    /// Takes back frames that no page has any more, if they are its own; whether they are.
    fn release(&mut self, _memory: &mut Buddy, _head: Pfn, _order: u32) -> bool {
        false
    }

    /// Frames of its own, which the allocator never has.
    fn set_aside(&self) -> u32 {
        0
    }

    /// True if page walks say which pages they found, by [`Placer::accessed`].
    fn tells_accesses(&self) -> bool {
        false
    }

    /// A page walk has found a page in a frame.
    fn accessed(&mut self, _pfn: Pfn) {}

    /// True if a page that is first touched pushes another out ([`Placer::victim`]).
    fn evicts_at_faults(&self) -> bool {
        false
    }

    /// The page, by its first frame, that has to leave its frames for another; `None` where there is room or where all
    /// that have them stay.
    fn victim(
        &mut self,
        _memory: &Buddy,
        _page: PageId,
        _size: PageSize,
        _stays: &dyn Fn(Pfn) -> bool,
    ) -> Option<Pfn> {
        None
    }

    /// True if a page would better be elsewhere than in this frame.
    fn wants_to_move(&self, _head: Pfn, _page: PageId, _size: PageSize) -> bool {
        false
    }

    /// Takes the frames that such a page would better be in, if they are free.
    fn take(&mut self, _memory: &mut Buddy, _page: PageId, _size: PageSize) -> Option<Pfn> {
        None
    }

    /// A page has left its frames for another.
    fn note_eviction(&mut self, _size: PageSize) {}

    /// A page that a walk would have had move did, or did not.
    fn note_move(&mut self, _size: PageSize, _moved: bool) {}

    /// The hash of pages to buckets of frames, where there is one.
    fn iceberg(&self) -> Option<Iceberg> {
        None
    }

    /// The hashes of pages to frames by several functions, where there are such.
    fn tiers(&self) -> Option<Tiers> {
        None
    }

    /// Counts of hashing.
    fn hashed(&self) -> Option<HashedStatistics> {
        None
    }

    /// Counts of segments.
    fn segments(&self) -> Option<SegmentStatistics> {
        None
    }
}

impl Clone for Box<dyn Placer> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

/// Tags of all frames before the programs start, and the placement, if it is not any free frame.
pub(crate) type Built = (Vec<u8>, Option<Box<dyn Placer>>);

/// A placement in the memory of a configuration.
pub(crate) fn build(
    config: &OsConfig,
    placement: Placement,
    seed: u64,
) -> Result<Built, OsConfigError> {
    match placement {
        Placement::Buddy | Placement::Eager => Ok((preallocate(config, seed)?, None)),
        Placement::Hashed => hashed::iceberg(config, seed),
        Placement::Tiered { functions } => hashed::tiers(config, functions, seed),
        Placement::Segmented {
            segments,
            at_faults,
            evicting,
        } => segments::build(config, segments, at_faults, evicting, seed),
    }
}
