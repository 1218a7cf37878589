use pagelab_addr::{Asid, PageId, PageSize};
use pagelab_translation::Work;

/// Pages whose cached translations are stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// The first base page.
    pub first: PageId,
    /// Number of base pages. They do not cross a 1 GiB region, so their numbers are consecutive.
    pub pages: u32,
}

/// Effects of the operating system's operations: what the machine must charge for, and the cached
/// translations that it must drop. Operations add to it; [`Effects::clear`] keeps its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Faults taken where accesses were left out.
    pub faults: u64,
    /// Pages newly mapped by a fault or by populating, by size in the order of
    /// [`PageSize::ALL`].
    pub pages_mapped: [u64; 3],
    /// Faults and populated pages that were given data of their own or of a file, but for copies: one
    /// for a folio of several pages, none for the page of zeros.
    pub blocks_given: u64,
    /// Base pages filled with zeros.
    pub pages_zeroed: u64,
    /// Base pages among them that are part of a page of 2 MiB or 1 GiB.
    pub pages_zeroed_in_large: u64,
    /// Base pages copied for copy-on-write.
    pub pages_copied: u64,
    /// Base pages moved: out of a page table's way (the pages of `work.displaced`), or by the
    /// memory manager.
    pub pages_migrated: u64,
    /// Base pages moved to make free blocks.
    pub pages_compacted: u64,
    /// TLB shootdowns, but for those of `work.displaced`.
    pub shootdowns: u64,
    /// An address space that goes on lost translations, or the right to write to pages.
    pub narrowed: bool,
    /// Entries of pages that faults mapped around their own.
    pub entries_around: u64,
    /// Entries copied by fork, of any size.
    pub entries_forked: u64,
    /// Entries moved by mremap, of any size.
    pub entries_moved: u64,
    /// Entries of pages of any size, but for pages of zeros, that were taken out of the page table.
    pub entries_unmapped: u64,
    /// Frames of data freed.
    pub frames_freed: u64,
    /// Pages read from the swap device, or again from files.
    pub pages_read: u64,
    /// Pages written to the swap device or to files.
    pub pages_written: u64,
    /// Work of the page table.
    pub work: Work,
    /// Pages whose cached translations are stale.
    pub invalidations: Vec<Invalidation>,
    /// Address spaces all of whose cached translations are stale.
    pub flushed: Vec<Asid>,
    /// Number of `work.displaced` that are accounted for already.
    noted: usize,
}

impl Effects {
    /// Nothing done.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a page that is filled with zeros.
    #[inline]
    pub(crate) fn count_zeroed(&mut self, size: PageSize) {
        let pages = u64::from(size.base_pages());
        self.pages_zeroed += pages;
        if size != PageSize::Base4K {
            self.pages_zeroed_in_large += pages;
        }
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.faults = 0;
        self.pages_mapped = [0; 3];
        self.blocks_given = 0;
        self.pages_zeroed = 0;
        self.pages_zeroed_in_large = 0;
        self.pages_copied = 0;
        self.pages_migrated = 0;
        self.pages_compacted = 0;
        self.shootdowns = 0;
        self.narrowed = false;
        self.entries_around = 0;
        self.entries_forked = 0;
        self.entries_moved = 0;
        self.entries_unmapped = 0;
        self.frames_freed = 0;
        self.pages_read = 0;
        self.pages_written = 0;
        let Work {
            table_frames,
            entries_written,
            entries_migrated,
            probes,
            displaced,
            relocated,
        } = &mut self.work;
        (*table_frames, *entries_written, *entries_migrated) = (0, 0, 0);
        (*probes, *relocated) = (0, 0);
        displaced.clear();
        self.invalidations.clear();
        self.flushed.clear();
        self.noted = 0;
    }

    /// Adds a page to the stale ones; a run of pages in ascending order makes one range.
    pub(crate) fn invalidate(&mut self, first: PageId, size: PageSize) {
        let pages = size.base_pages();
        if let Some(last) = self.invalidations.last_mut() {
            let next = last.first.0 + last.pages;
            let same_gib = next & ((1 << 18) - 1) != 0;
            if next == first.0 && same_gib {
                last.pages += pages;
                return;
            }
        }
        self.invalidations.push(Invalidation { first, pages });
    }

    /// Makes everything stale that is cached of an address space.
    pub(crate) fn flush(&mut self, asid: Asid) {
        if self.flushed.last() != Some(&asid) {
            self.flushed.push(asid);
        }
    }

    /// Accounts for the pages that the page table has displaced since the last call.
    pub(crate) fn note_displaced(&mut self) {
        while self.noted < self.work.displaced.len() {
            let displaced = &self.work.displaced[self.noted];
            let size = displaced.size;
            self.pages_migrated += u64::from(size.base_pages());
            for owner in 0..displaced.owners.len() {
                let owner = self.work.displaced[self.noted].owners[owner];
                self.invalidate(owner, size);
            }
            self.noted += 1;
        }
    }
}
