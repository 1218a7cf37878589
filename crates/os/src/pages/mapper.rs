use crate::frames::frame_table::FrameTable;
use crate::page_size::PageSizes;
use crate::spaces::vma::Vma;
use crate::statistics::OsStatistics;
use crate::{Effects, OsError};
use pagelab_addr::{Asid, PAGE_BYTES, PageDirectory, PageId, PageSize, Pfn, Vpn};
use pagelab_translation::{MapError, Page, PageTable, Translation};
use std::ops::Range;

/// Maps, unmaps, moves and copies pages, and keeps the page table, the frame table and the reverse
/// map in agreement. It knows nothing of policies.
pub(crate) struct Mapper<'a, T> {
    pub(crate) frames: &'a mut FrameTable,
    pub(crate) sizes: &'a mut PageSizes,
    pub(crate) statistics: &'a mut OsStatistics,
    pub(crate) table: &'a mut T,
    pub(crate) directory: &'a mut PageDirectory,
    pub(crate) effects: &'a mut Effects,
}

impl<T: PageTable> Mapper<'_, T> {
    /// Names a page both ways.
    pub(crate) fn page(&mut self, asid: Asid, vpn: Vpn) -> Result<Page, OsError> {
        let id = self.directory.page(asid, vpn)?;
        Ok(Page { id, asid, vpn })
    }

    fn resolve(&self, id: PageId) -> Page {
        let (asid, vpn) = self.directory.resolve(id);
        Page { id, asid, vpn }
    }

    /// Place of a mapped page.
    pub(crate) fn translation(&self, page: Page) -> Translation {
        match self.table.lookup(page) {
            Some(translation) => translation,
            None => unreachable!("the page table lost {page:?}"),
        }
    }

    /// The size of the page mapped around a page.
    #[inline]
    pub(crate) fn size_at(&self, page: Page) -> Option<PageSize> {
        self.table.lookup(page).map(|found| found.size)
    }

    /// Tells the page table that a range was allocated, and which page size is likely there.
    pub(crate) fn reserve(
        &mut self,
        asid: Asid,
        pages: Range<u64>,
        size: PageSize,
    ) -> Result<(), OsError> {
        let first = self.page(asid, Vpn(pages.start))?;
        let work = &mut self.effects.work;
        self.table
            .reserve(self.frames, first, pages.end - pages.start, size, work);
        Ok(())
    }

    /// Tells the page table that a range is allocated no more.
    pub(crate) fn release(&mut self, asid: Asid, pages: Range<u64>) -> Result<(), OsError> {
        let first = self.page(asid, Vpn(pages.start))?;
        self.table
            .release(self.frames, first, pages.end - pages.start);
        Ok(())
    }

    /// Tells the page table that an address space has ended.
    pub(crate) fn end(&mut self, asid: Asid) {
        self.table.end(self.frames, asid);
    }

    /// Takes frames for a page of data that nothing maps yet, `private` or not, and pins them.
    #[inline]
    pub(crate) fn allocate(&mut self, page: PageId, size: PageSize, private: bool) -> Option<Pfn> {
        if self.frames.reclaim.is_some() && !self.has_room_for(size) {
            return None;
        }
        if self.frames.evicts_at_faults()
            && let Some(victim) = self.frames.victim(page, size)
        {
            self.move_out(victim, size);
        }
        self.frames.allocate_data(page, size, private)
    }

    /// Maps a page, whose first base page is `page`, to a new block. `None`, and nothing happens,
    /// when no block is free.
    #[inline]
    pub(crate) fn map_new(
        &mut self,
        vma: &Vma,
        page: Page,
        size: PageSize,
        writable: bool,
    ) -> Result<Option<Pfn>, OsError> {
        let Some(pfn) = self.allocate(page.id, size, vma.is_private()) else {
            return Ok(None);
        };
        let mapped = self.enter(page, pfn, size, writable);
        self.frames.unpin();
        if let Err(error) = mapped {
            self.frames.free_unheld(pfn, size);
            return Err(error);
        }
        self.frames.add_page(pfn, page);
        Ok(Some(pfn))
    }

    /// Maps a page to a block that others hold already.
    pub(crate) fn map_shared(
        &mut self,
        page: Page,
        pfn: Pfn,
        size: PageSize,
        writable: bool,
    ) -> Result<(), OsError> {
        self.frames.pin(pfn, size);
        let mapped = self.enter(page, pfn, size, writable);
        self.frames.unpin();
        mapped?;
        self.frames.add_page(pfn, page);
        Ok(())
    }

    /// Enters a page into the page table. The block is pinned: the page table may move other
    /// pages out of its way, but not the one that it is about to map.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        page: Page,
        pfn: Pfn,
        size: PageSize,
        writable: bool,
    ) -> Result<(), OsError> {
        let translation = Translation {
            pfn,
            size,
            writable,
        };
        let work = &mut self.effects.work;
        let entered = self.table.map(self.frames, page, translation, work);
        entered.map_err(|error| match error {
            MapError::OutOfFrames => self.out_of_memory("a page table"),
            MapError::OutOfReach { bits } => OsError::OutOfReach {
                process: u32::from(page.asid.0),
                address: page.vpn.address(),
                bits,
            },
            MapError::NoPlace => OsError::NoPlace {
                process: u32::from(page.asid.0),
                address: page.vpn.address(),
                free_bytes: u64::from(self.frames.buddy().free_frames()) * PAGE_BYTES,
            },
        })
    }

    /// Takes a mapped page of a size out of the page table.
    pub(crate) fn take_out(&mut self, page: Page, size: PageSize) -> Translation {
        let work = &mut self.effects.work;
        match self.table.unmap(self.frames, page, size, work) {
            Some(translation) => translation,
            None => unreachable!("the page table lost {page:?} of {size:?}"),
        }
    }

    /// Unmaps whatever is mapped in a range, and frees what nothing else holds. No page larger
    /// than 4 KiB may reach out of the range.
    pub(crate) fn unmap(&mut self, asid: Asid, pages: Range<u64>) {
        self.frames.forget_swapped(asid, pages.clone());
        let mut entries = self.unmapped(asid);
        let mut at = pages.start;
        while let Some(run) = self.table.next_mapped(asid, at..pages.end) {
            for page in run.pages() {
                let translation = self.take_out(page, run.size);
                let zeros = self.frames.is_zeros(translation.pfn);
                self.push_unmapped(&mut entries, page, translation.pfn, run.size);
                let freed = self.frames.remove_page(translation.pfn, run.size, page);
                self.effects.entries_unmapped += u64::from(!zeros);
                self.effects.frames_freed += u64::from(freed);
                self.effects.invalidate(page.id, run.size);
                self.effects.narrowed = true;
            }
            at = run.end();
        }
        self.account_unmapped(entries);
    }

    /// Allows or forbids stores to a mapped page.
    pub(crate) fn set_writable(&mut self, page: Page, translation: Translation, writable: bool) {
        let updated = self.table.update(
            page,
            Translation {
                writable,
                ..translation
            },
        );
        debug_assert!(updated);
        self.effects.work.entries_written += 1;
        self.effects.invalidate(page.id, translation.size);
        self.effects.narrowed |= !writable;
    }

    /// Gives a page a block of its own with the contents that it has, and allows stores to it.
    /// Whether a block was free.
    pub(crate) fn part_from(&mut self, vma: &Vma, page: Page, from: Translation) -> bool {
        let size = from.size;
        // It must not be what makes room.
        self.frames.pin(from.pfn, size);
        let to = self.allocate(page.id, size, vma.is_private());
        self.frames.unpin();
        let Some(to) = to else {
            return false;
        };
        self.frames.add_page(to, page);
        self.frames.remove_page(from.pfn, size, page);
        self.set_writable(page, Translation { pfn: to, ..from }, true);
        self.effects.narrowed = true;
        true
    }

    pub(crate) fn out_of_memory(&self, what: &'static str) -> OsError {
        let bytes = |frames: u32| u64::from(frames) * PAGE_BYTES;
        OsError::OutOfMemory {
            what,
            resident_bytes: bytes(self.frames.data_frames()),
            table_bytes: bytes(self.frames.table_frames()),
            preallocated_bytes: bytes(self.frames.preallocated_frames()),
            limit_bytes: bytes(self.frames.buddy().count()),
        }
    }

    /// The pages that map a block.
    pub(crate) fn owners(&self, pfn: Pfn) -> Vec<Page> {
        let owners = self.frames.owners(pfn).into_iter();
        owners.map(|id| self.resolve(id)).collect()
    }
}

/// The pages of a block, given the number of the first.
pub(crate) fn offset_by(page: Page, pages: u32) -> Page {
    Page {
        id: PageId(page.id.0 + pages),
        asid: page.asid,
        vpn: Vpn(page.vpn.0 + u64::from(pages)),
    }
}

/// The first base page of the aligned page of `size` around a page.
pub(crate) fn first_of(page: Page, size: PageSize) -> Page {
    Page {
        id: PageId(page.id.0 & !(size.base_pages() - 1)),
        asid: page.asid,
        vpn: page.vpn.align_down(size),
    }
}
