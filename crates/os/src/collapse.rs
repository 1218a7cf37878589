//! MADV_COLLAPSE: 2 MiB pages at once.

use crate::OsError;
use crate::mapper::Mapper;
use crate::system::Call;
use crate::vma::{HugeAdvice, Vma};
use pagelab_addr::{Asid, PageSize, Vpn};
use pagelab_events::{Backing, HugePages};
use pagelab_translation::{Page, PageTable};
use std::ops::Range;

const SIZE: PageSize = PageSize::Large2M;
const REGION: u64 = SIZE.base_pages() as u64;

impl<T: PageTable> Call<'_, T> {
    /// Makes a 2 MiB page of each aligned region in a range of private memory, whatever the page policy is
    /// (`madvise_collapse` in mm/khugepaged.c, Linux 6.12). Files and shared memory stay as they are.
    pub(crate) fn collapse(&mut self, asid: Asid, range: Range<u64>) -> Result<(), OsError> {
        if self.space(asid).huge_pages == HugePages::Nowhere {
            return Ok(());
        }
        let vmas: Vec<Vma> = self.space(asid).vmas.within(range).collect();
        for vma in vmas {
            let anonymous = matches!(vma.backing, Backing::Anonymous | Backing::Stack);
            if !anonymous || vma.advice == HugeAdvice::Unwanted {
                continue;
            }
            let mut at = vma.start.next_multiple_of(REGION);
            while at + REGION <= vma.end {
                let first = self.mapper.page(asid, Vpn(at))?;
                self.mapper.collapse(first)?;
                at += REGION;
            }
        }
        Ok(())
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Makes a page of the region that starts there. One that is a page already, in which no page can be written
    /// (`SCAN_PAGE_RO`), or for which no block is free, stays as it is.
    fn collapse(&mut self, first: Page) -> Result<(), OsError> {
        let region = first.vpn.0..first.vpn.0 + REGION;
        let (mut writable, mut data) = (false, 0);
        let mut at = region.start;
        while let Some(run) = self.table.next_mapped(first.asid, at..region.end) {
            if run.size != PageSize::Base4K {
                return Ok(());
            }
            for page in run.pages() {
                let found = self.translation(page);
                writable |= found.writable;
                data += u64::from(!self.frames.is_zeros(found.pfn));
            }
            at = run.end();
        }
        if !writable {
            return Ok(());
        }
        let Some(block) = self.allocate(first.id, SIZE) else {
            self.statistics.fallbacks_2m += 1;
            return Ok(());
        };
        self.unmap(first.asid, region);
        let mapped = self.enter(first, block, SIZE, true);
        self.frames.unpin();
        if let Err(error) = mapped {
            self.frames.free_unheld(block, SIZE);
            return Err(error);
        }
        self.frames.add_page(block, first.id);
        self.effects.blocks_given += 1;
        self.effects.pages_copied += data;
        self.effects.pages_zeroed += REGION - data;
        self.statistics.collapsed += 1;
        Ok(())
    }
}
