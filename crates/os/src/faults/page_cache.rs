//! Faults on pages of files and of shared memory.
//!
//! Every page of a file is in the page cache: no fault reads from a disk. Outside of mappings the
//! cache takes none of the simulated memory.

use crate::OsError;
use crate::pages::mapper::{Mapper, offset_by};
use crate::spaces::shared_memory::ObjectId;
use crate::spaces::vma::Vma;
use pagelab_addr::{PageId, PageSize, Vpn};
use pagelab_events::{Backing, Protection};
use pagelab_translation::{Page, PageTable};
use std::ops::Range;

/// Pages that a fault maps at most (`fault_around_pages` in mm/memory.c, Linux 6.18: 64 KiB).
const AROUND: u64 = 16;

/// Pages of a page of PTEs.
const TABLE: u64 = PageSize::Large2M.base_pages() as u64;

/// The pages that a fault on one maps, as far as they are there (`do_fault_around` in mm/memory.c,
/// Linux 6.18). Where the window begins with the VMA it is not aligned, and has 16 pages all the same.
fn around(vma: &Vma, vpn: Vpn) -> Range<u64> {
    let start = (vpn.0 / AROUND * AROUND).max(vma.start);
    let table_end = vpn.0 / TABLE * TABLE + TABLE;
    start..(start + AROUND).min(table_end).min(vma.end)
}

impl<T: PageTable> Mapper<'_, T> {
    /// Maps a page of a VMA that shows an object, and pages around it where it was loaded from
    /// (`do_read_fault`, `do_cow_fault` and `do_shared_fault` in mm/memory.c).
    pub(crate) fn fault_object(
        &mut self,
        vma: &Vma,
        object: (ObjectId, u64),
        page: Page,
        store: bool,
    ) -> Result<(), OsError> {
        if store && !vma.is_shared() {
            return self.copy_from_cache(vma, object, page);
        }
        if store {
            self.effects.blocks_given += 1;
            return self.show(vma, object, page, true);
        }
        // The first store to a page of a file that others see is to be known (`page_mkwrite`).
        let writable = vma.writable() && vma.backing == Backing::SharedAnonymous;
        let window = around(vma, page.vpn);
        let first = Page {
            id: PageId(page.id.0 - (page.vpn.0 - window.start) as u32),
            vpn: Vpn(window.start),
            ..page
        };
        for offset in 0..(window.end - window.start) as u32 {
            let at = offset_by(first, offset);
            if at == page {
                self.effects.blocks_given += 1;
                self.show(vma, object, page, writable)?;
            } else if self.size_at(at).is_none() && self.is_present(vma, object, at) {
                // One for which there is no room stays unmapped.
                let shown = self.show(vma, object, at, writable);
                self.effects.entries_around += u64::from(shown.is_ok());
            }
        }
        Ok(())
    }

    /// True if a page can be mapped without waiting for it: the page cache has it, and it takes no other's frame.
    fn is_present(&mut self, vma: &Vma, (object, first): (ObjectId, u64), page: Page) -> bool {
        let slot = (self.frames.shared).slot(object, first + page.vpn.0 - vma.start);
        let shared = &self.frames.shared;
        let in_cache = vma.is_file() && !shared.is_dropped(slot);
        shared.frame(slot).is_some() || in_cache && self.frames.has_room(1)
    }

    /// Maps a page of an object, where it is in memory or in a new frame.
    fn show(
        &mut self,
        vma: &Vma,
        (object, first): (ObjectId, u64),
        page: Page,
        writable: bool,
    ) -> Result<(), OsError> {
        let size = PageSize::Base4K;
        let slot = (self.frames.shared).slot(object, first + page.vpn.0 - vma.start);
        if let Some(pfn) = self.frames.shared.frame(slot) {
            self.map_shared(page, pfn, size, writable)?;
            self.effects.pages_mapped[size as usize] += 1;
            if vma.is_file() {
                self.statistics.files.get_or_insert_default().pages += 1;
            }
            if vma.is_shared() {
                self.statistics.shared_present += 1;
            } else {
                self.statistics.file.count(size);
            }
        } else {
            let Some(pfn) = self.map_new(vma, page, size, writable)? else {
                return Err(self.out_of_memory("a page of a file or of shared memory"));
            };
            let is_read = self.frames.shared.is_dropped(slot);
            self.frames.put_in_slot(pfn, slot);
            let is_code = vma.prot.0 & Protection::EXEC != 0;
            self.frames.list_as_slot(pfn, vma.is_file(), is_code);
            if is_read {
                self.note_read(slot, pfn);
            }
            self.count_page(vma, size);
        }
        Ok(())
    }

    /// Maps a copy of a page of a private file.
    fn copy_from_cache(
        &mut self,
        vma: &Vma,
        (object, first): (ObjectId, u64),
        page: Page,
    ) -> Result<(), OsError> {
        let size = PageSize::Base4K;
        let slot = (self.frames.shared).slot(object, first + page.vpn.0 - vma.start);
        self.effects.pages_read += u64::from(self.frames.shared.is_dropped(slot));
        if self.map_new(vma, page, size, true)?.is_none() {
            return Err(self.out_of_memory("a page of data"));
        }
        self.effects.pages_copied += 1;
        self.count_page(vma, size);
        self.statistics.cow_copies += 1;
        self.statistics.file_copies += 1;
        Ok(())
    }
}
