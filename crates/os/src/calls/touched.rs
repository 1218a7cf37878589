//! Memory that was touched where accesses were left out.

use crate::system::Call;
use crate::{OsError, OutsideStatistics};
use pagelab_addr::{Asid, PageSize, Vpn};
use pagelab_events::Touch;
use pagelab_translation::{Page, PageTable};
use std::ops::Range;

impl<T: PageTable> Call<'_, T> {
    /// Takes the faults that touching pages takes, one page after the other.
    pub(crate) fn touched(
        &mut self,
        asid: Asid,
        range: Range<u64>,
        touch: Touch,
    ) -> Result<(), OsError> {
        if matches!(touch, Touch::Stored | Touch::Present) {
            for vpn in range.clone().map(Vpn) {
                self.mapper.frames.note_store(asid, vpn);
            }
        }
        let before = OutsideStatistics::of(self.mapper.statistics);
        let mut at = range.start;
        let mut done = Ok(());
        while at < range.end && done.is_ok() {
            let end = self.touched_page(asid, Vpn(at), touch);
            at = *end.as_ref().unwrap_or(&at);
            done = end.map(|_| ());
        }
        let statistics = &mut *self.mapper.statistics;
        let taken = OutsideStatistics::of(statistics).since(&before);
        statistics.outside = statistics.outside.and(&taken);
        self.mapper.effects.faults += taken.faults;
        done
    }

    /// Touches a page as far as it was not; returns the first page behind what was mapped at once.
    fn touched_page(&mut self, asid: Asid, vpn: Vpn, touch: Touch) -> Result<u64, OsError> {
        let page = self.mapper.page(asid, vpn)?;
        if !self.allows(page, touch) {
            self.mapper.statistics.faults += 1;
            match touch {
                Touch::Executed => self.fault_code(page)?,
                Touch::Loaded => self.fault(page, false)?,
                Touch::Stored | Touch::Present => self.fault(page, true)?,
            }
        }
        let size = self.mapper.size_at(page).unwrap_or(PageSize::Base4K);
        Ok(vpn.align_down(size).0 + u64::from(size.base_pages()))
    }

    /// True if a mapped page has memory of its own, though a child may have it, too.
    fn has_own(&mut self, page: Page) -> bool {
        let found = self.mapper.translation(page);
        let shared = self.space(page.asid).vmas.find(page.vpn);
        let shared = shared.is_some_and(|vma| vma.is_shared());
        let cached = !shared && self.mapper.frames.slot(found.pfn).is_some();
        !cached && !self.mapper.frames.is_zeros(found.pfn)
    }

    /// True if touching a page takes no fault.
    fn allows(&mut self, page: Page, touch: Touch) -> bool {
        let mapped = self.mapper.size_at(page).is_some();
        mapped
            && match touch {
                Touch::Loaded | Touch::Executed => true,
                Touch::Stored => self.mapper.translation(page).writable,
                Touch::Present => self.has_own(page),
            }
    }
}
