use pagelab_addr::{PageId, PageSize, Pfn};

/// Use of a frame of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUse {
    /// Nothing.
    Free,
    /// Data that may be moved to another frame; the frame belongs to a page of this size.
    Movable(PageSize),
    /// A page table, or data that must stay where they are (pinned, or the kernel's own);
    /// the frame belongs to a block of this size.
    Unmovable(PageSize),
    /// A page of page-table entries.
    PageTable,
}

/// A page of data that was moved so that a page table could have its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Displaced {
    /// The pages that were mapped to it, from the reverse map. Empty for memory in use outside
    /// the simulated processes. For a page larger than 4 KiB, each is the first of its base pages.
    pub owners: Vec<PageId>,
    /// Its size.
    pub size: PageSize,
    /// The first frame it was in.
    pub from: Pfn,
    /// The first frame it is in now.
    pub to: Pfn,
}

/// The physical frames, as a page table sees them: DPT's frame bitmap (DPT paper, section IV-B)
/// and the operations behind its collision handling.
pub trait Frames {
    /// Number of frames of the memory.
    fn count(&self) -> u32;

    /// Use of a frame.
    ///
    /// # Panics
    /// When `pfn` is not below [`Frames::count`]; so do all that take a frame.
    fn usage(&self, pfn: Pfn) -> FrameUse;

    /// True if the aligned 2 MiB block around a frame is already broken up: at least one, but not
    /// every frame of it in use, or in use by pages smaller than 2 MiB.
    fn in_fragmented_block(&self, pfn: Pfn) -> bool;

    /// Takes 2^`order` contiguous, aligned frames for a page table, wherever they are. `None`
    /// when there are none.
    fn allocate_table(&mut self, order: u32) -> Option<Pfn>;

    /// Takes this very frame for a page table; `false`, and nothing happens, when it is not free.
    fn claim_table(&mut self, pfn: Pfn) -> bool;

    /// Moves the page of data that occupies a frame elsewhere and takes the frame for a page
    /// table. `None`, and nothing happens, when the frame holds nothing movable or when there is
    /// nowhere to move it. The caller updates the page table's entries for
    /// [`Displaced::owners`] and records the move in its `Work`.
    fn displace(&mut self, pfn: Pfn) -> Option<Displaced>;

    /// Gives back what [`Frames::allocate_table`] (same order), [`Frames::claim_table`] or
    /// [`Frames::displace`] (order 0) took.
    fn free_table(&mut self, pfn: Pfn, order: u32);
}
