//! The guest's memory, as a page table of the simulator sees it: tables go where the guest has them.

use pagelab_addr::{PageSize, Pfn};
use pagelab_translation::{Displaced, FrameUse, Frames};

#[derive(Debug, Default)]
pub(crate) struct GuestFrames {
    /// For the tree: the frames of the tables on the way to a page, the lowest last.
    pub(crate) path: Vec<Pfn>,
    /// For a distributed page table: the one free frame, of all those that the hash may name.
    pub(crate) free: Option<Pfn>,
    pub(crate) count: u32,
    /// For a walk that led to an exception: where the tables are that say so, which is not compared.
    pub(crate) exceptional: Option<Pfn>,
}

impl Frames for GuestFrames {
    fn count(&self) -> u32 {
        self.count
    }

    fn usage(&self, pfn: Pfn) -> FrameUse {
        if self.free == Some(pfn) {
            FrameUse::Free
        } else {
            // Pages of 4 KiB, so that the strides of all sizes are tried.
            FrameUse::Unmovable(PageSize::Base4K)
        }
    }

    fn in_fragmented_block(&self, _: Pfn) -> bool {
        true
    }

    /// The next table of the tree; somewhere where metadata are asked for, whose place is not
    /// compared.
    fn allocate_table(&mut self, order: u32) -> Option<Pfn> {
        if self.free.is_some() || order > 0 {
            return Some(Pfn(self.count));
        }
        self.path.pop().or(self.exceptional)
    }

    fn claim_table(&mut self, pfn: Pfn) -> bool {
        self.free.take_if(|free| *free == pfn).is_some()
    }

    fn displace(&mut self, _: Pfn) -> Option<Displaced> {
        None
    }

    fn free_table(&mut self, _: Pfn, _: u32) {}
}
