//! Private memory as a memory file system gives it (linux/modules/mfs/file.c, linux/source/mm/fbmm), by the names of
//! the file's operations there.

use crate::OsError;
use crate::pages::mapper::Mapper;
use crate::spaces::vma::Vma;
use crate::system::Call;
use pagelab_addr::{Asid, PAGE_BYTES, PageSize, Vpn};
use pagelab_events::Protection;
use pagelab_translation::{Page, PageTable};

/// Bytes that are given at once, and mapped, before the next: the less for who has little (`fbmm_fill`).
const FILL: u64 = 8 << 20;
const FILL_MOST: u64 = 64 << 20;
/// Pages that a fault gets at most: those of the largest block (`MAX_ORDER_NR_PAGES` in `mfs_find`).
pub(crate) const LARGEST_BLOCK: u64 = 1024;

impl<T: PageTable> Call<'_, T> {
    /// Gives a new mapping its memory, as far as there is any (`fbmm_populate`, `mfs_fallocate`); mappings that may not
    /// be accessed are left to faults. The resident memory of all programs stands for the address space's.
    pub(crate) fn fallocate(&mut self, asid: Asid, vma: &Vma) -> Result<(), OsError> {
        if vma.prot == Protection(0) {
            return Ok(());
        }
        let mut at = vma.start;
        while at < vma.end {
            let resident = u64::from(self.mapper.frames.data_frames()) * PAGE_BYTES;
            let fill = resident.clamp(FILL, FILL_MOST).ilog2();
            let pages = (1 << fill) / PAGE_BYTES;
            let end = (at + 1).next_multiple_of(pages).min(vma.end);
            while at < end {
                let page = self.mapper.page(asid, Vpn(at))?;
                let mapped = self.mapper.fill_hole(vma, page, end - at, vma.writable())?;
                if mapped == 0 {
                    return Ok(());
                }
                for _ in 0..mapped {
                    self.mapper.statistics.populated.count(PageSize::Base4K);
                }
                at += u64::from(mapped);
            }
        }
        Ok(())
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Maps a page that is not mapped, and pages behind it as far as none is and as the manager has them in a row, at
    /// most so many (`mfs_fill_hole`). How many.
    pub(crate) fn fill_hole(
        &mut self,
        vma: &Vma,
        page: Page,
        most: u64,
        writable: bool,
    ) -> Result<u32, OsError> {
        let hole = page.vpn.0..vma.end.min(page.vpn.0 + most);
        let next = self.table.next_mapped(page.asid, hole.clone());
        let next = next.and_then(|run| run.pages().next());
        let end = next.map_or(hole.end, |next| next.vpn.0);
        let Some((head, nr)) = self.frames.allocate_run((end - hole.start) as u32) else {
            return Ok(0);
        };
        let (mapped, entered) = self.map_frames(vma, page, head, nr, writable);
        self.free_rest(head, mapped, nr);
        entered.map(|()| mapped)
    }
}
