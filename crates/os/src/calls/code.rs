//! Code of files in pages of 2 MiB: copied there when it is mapped, as a preloaded library does
//! (crates/recorder/preload/code.c), since page caches of most file systems have no such pages.

use crate::OsError;
use crate::spaces::vma::Vma;
use crate::system::Call;
use pagelab_addr::{Asid, PageSize, Vpn};
use pagelab_events::{Backing, Protection};
use pagelab_translation::PageTable;

/// Pages of a region.
const REGION: u64 = PageSize::Large2M.base_pages() as u64;

/// True for code that a program has from a file.
fn is_code(vma: &Vma) -> bool {
    let flags = vma.prot.0 & (Protection::WRITE | Protection::EXEC);
    vma.backing == Backing::PrivateFile && flags == Protection::EXEC
}

impl<T: PageTable> Call<'_, T> {
    /// Copies the aligned regions of a mapping of code that was just made, as far as blocks are free.
    pub(super) fn copy_code(&mut self, asid: Asid, vma: &Vma) -> Result<(), OsError> {
        let Some((object, _)) = vma.object.filter(|_| self.config.huge_code && is_code(vma)) else {
            return Ok(());
        };
        let mut at = vma.start.next_multiple_of(REGION);
        while at + REGION <= vma.end {
            let first = self.mapper.page(asid, Vpn(at))?;
            if !self.mapper.replace_region(first, REGION as u32)? {
                self.mapper.statistics.fallbacks_2m += 1;
                return Ok(());
            }
            self.mapper.frames.hide(object, REGION);
            for vpn in (at..at + REGION).map(Vpn) {
                self.mapper.frames.note_store(asid, vpn);
            }
            self.change_vmas(asid, at..at + REGION, |vma| {
                (vma.backing, vma.object) = (Backing::Anonymous, None);
            });
            self.mapper.statistics.collapsed += 1;
            at += REGION;
        }
        Ok(())
    }
}
