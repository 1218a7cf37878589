use crate::{Displaced, Frames, Page, Range, Run, Translation, Walk};
use pagelab_addr::{Asid, PageSize, Pfn};
use std::ops;

/// Work of an operation on a page table, so that a cost can be put on it. Operations add to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Page-table frames taken.
    pub table_frames: u64,
    /// Entries (or metadata) written.
    pub entries_written: u64,
    /// Entries moved to another place in the table (cuckoo displacement, resizing).
    pub entries_migrated: u64,
    /// Frames examined in search of a place.
    pub probes: u64,
    /// Pages of data that were moved out of the way. The operating system invalidates their
    /// cached translations.
    pub displaced: Vec<Displaced>,
    /// 2 MiB regions that were given another virtual place (DPT's CVA).
    pub relocated: u64,
}

/// Reason for which a mapping could not be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// No frame for a page of the page table.
    #[error("no frame left for the page table")]
    OutOfFrames,
    /// Every place where the page's entry may live is taken by something that cannot be moved.
    #[error(
        "every frame that may hold the page's entry is taken by something that may not be moved"
    )]
    NoPlace,
    /// The page's address is beyond those that the page table translates, and would have the entry of
    /// another.
    #[error("the page table translates addresses of {bits} bits")]
    OutOfReach {
        /// Number of bits of an address that choose its entry or lie in the page. Those above are
        /// as the highest of these.
        bits: u32,
    },
}

/// Methods of a [`PageTable`] around another one that are those of the field with it, whatever is around.
macro_rules! as_inside {
    ($inside:ident) => {
        fn release<F: crate::Frames>(&mut self, frames: &mut F, first: crate::Page, pages: u64) {
            self.$inside.release(frames, first, pages);
        }

        fn end<F: crate::Frames>(&mut self, frames: &mut F, asid: pagelab_addr::Asid) {
            self.$inside.end(frames, asid);
        }

        #[inline]
        fn lookup(&self, page: crate::Page) -> Option<crate::Translation> {
            self.$inside.lookup(page)
        }

        fn next_mapped(
            &self,
            asid: pagelab_addr::Asid,
            pages: std::ops::Range<u64>,
        ) -> Option<crate::Run> {
            self.$inside.next_mapped(asid, pages)
        }

        #[inline]
        fn is_unmapped(&self, page: crate::Page, size: pagelab_addr::PageSize) -> bool {
            self.$inside.is_unmapped(page, size)
        }
    };
}
pub(crate) use as_inside;

/// A page table as the operating system and the machine use it: an [`crate::Organisation`] with what
/// is mapped ([`crate::Paged`]), or what is around such a page table.
///
/// One object holds the tables of all address spaces and the walk caches of all cores. A page is
/// mapped by at most one page of each size at a time; where a 4 KiB and a larger mapping overlap,
/// the caller has unmapped one of them first.
pub trait PageTable {
    /// Says that a range of virtual memory was allocated (a VMA was created) and may be touched
    /// later: DPT places its page-table pages now. Most organisations have nothing to do.
    /// `size` is the page size the operating system is likely to use there. What cannot be
    /// placed now is placed by `map`.
    fn reserve<F: Frames>(
        &mut self,
        frames: &mut F,
        first: Page,
        pages: u64,
        size: PageSize,
        work: &mut Work,
    ) {
        let _ = (frames, first, pages, size, work);
    }

    /// Says that a range of virtual memory is no longer allocated. Its pages are unmapped
    /// already. Page-table pages that serve nothing any more go back to `frames`.
    fn release<F: Frames>(&mut self, frames: &mut F, first: Page, pages: u64);

    /// Says that an address space has ended: nothing is mapped or allocated in it. What was kept for
    /// it goes back to `frames`, and the numbers of its pages may become those of others.
    fn end<F: Frames>(&mut self, frames: &mut F, asid: Asid);

    /// Maps a page that is not mapped.
    ///
    /// # Errors
    /// [`MapError`]; the table is then as it was, but for moves recorded in `work`.
    fn map<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        translation: Translation,
        work: &mut Work,
    ) -> Result<(), MapError>;

    /// Unmaps a page of a size; `None` when it is not mapped so. Walk caches forget it. The
    /// page-table page stays until [`PageTable::release`].
    fn unmap<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Option<Translation>;

    /// Changes the frame or the permission of a mapped page of the same size (migration,
    /// copy-on-write); `false`, and nothing happens, when it is not mapped so.
    fn update(&mut self, page: Page, translation: Translation) -> bool;

    /// Place of a page, with no effect on walk caches and no cost.
    fn lookup(&self, page: Page) -> Option<Translation>;

    /// The first mapped pages of an address space in a range of page numbers. A page that reaches
    /// out of the range counts as inside.
    fn next_mapped(&self, asid: Asid, pages: ops::Range<u64>) -> Option<Run>;

    /// True if nothing is mapped, of any size, in the aligned range of a size around a page.
    fn is_unmapped(&self, page: Page, size: PageSize) -> bool;

    /// Result of a walk, with no effect and no cost.
    #[inline(always)]
    fn found(&self, page: Page) -> Option<Translation> {
        self.lookup(page)
    }

    /// Walks as core `core`'s hardware does, and says in `walk` what it read and waited for.
    /// Returns what [`PageTable::lookup`] returns, but for a guest's page table ([`crate::Nested`]):
    /// there it is where the host has that.
    fn walk(&mut self, core: usize, page: Page, walk: &mut Walk) -> Option<Translation>;

    /// The range of contiguous pages around a page, where there is a table of them.
    fn range(&self, page: Page) -> Option<Range> {
        let _ = page;
        None
    }

    /// Hints to the host that `walk` will soon be called for this page.
    fn host_prefetch(&self, page: Page);

    /// Hints the same a while after [`PageTable::host_prefetch`], for what only what that has fetched
    /// tells the place of.
    #[inline]
    fn host_prefetch_behind(&self, page: Page) {
        let _ = page;
    }

    /// The frame of the last entry that `walk` reads for a page, where it is easily known: for
    /// hints only.
    #[inline]
    fn entry_frame(&self, page: Page) -> Option<Pfn> {
        let _ = page;
        None
    }

    /// Physical memory that the tables take, in bytes.
    fn table_bytes(&self) -> u64;
}
