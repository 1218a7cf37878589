//! Pages of 2 MiB made of smaller ones: at once by MADV_COLLAPSE, in the background by khugepaged.

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

/// Most pages of a region that may stand in the way of a page of 2 MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Empty, or of zeros.
    pub(crate) none: u32,
    /// Others', too.
    pub(crate) shared: u32,
}

impl Limits {
    /// MADV_COLLAPSE's: none.
    const NONE: Limits = Limits {
        none: u32::MAX,
        shared: u32::MAX,
    };
}

/// Outcome for a region (`enum scan_result` in mm/khugepaged.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collapse {
    /// A page of 2 MiB is there now, with so many base pages of what was there before.
    Made {
        copied: u64,
    },
    /// A page of 2 MiB was there.
    Huge,
    /// No page can be written.
    ReadOnly,
    /// A page is in the swap device.
    Swapped,
    TooEmpty,
    TooShared,
    NoFreeBlock,
}

impl<T: PageTable> Call<'_, T> {
    /// Makes a 2 MiB page of each aligned region in a range of private memory, whatever the page policy is
    /// (`madvise_collapse` in mm/khugepaged.c, Linux 6.12). Files and shared memory stay as they are, and
    /// so does what a memory file system gives.
    pub(crate) fn collapse(&mut self, asid: Asid, range: Range<u64>) -> Result<(), OsError> {
        let is_file = self.mapper.frames.manager().is_file_system();
        if is_file || self.space(asid).huge_pages == HugePages::Nowhere {
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
                match self.mapper.collapse(first, Limits::NONE)? {
                    Collapse::Made { .. } => self.mapper.statistics.collapsed += 1,
                    Collapse::NoFreeBlock => self.mapper.statistics.fallbacks_2m += 1,
                    _ => {}
                }
                at += REGION;
            }
        }
        Ok(())
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Makes a page of the region that starts there, if that may be (`hpage_collapse_scan_pmd`,
    /// `collapse_huge_page`).
    pub(crate) fn collapse(&mut self, first: Page, limits: Limits) -> Result<Collapse, OsError> {
        let region = first.vpn.0..first.vpn.0 + REGION;
        let (mut writable, mut copied, mut shared) = (false, 0, 0);
        let mut at = region.start;
        while let Some(run) = self.table.next_mapped(first.asid, at..region.end) {
            if run.size != PageSize::Base4K {
                return Ok(Collapse::Huge);
            }
            for page in run.pages() {
                let found = self.translation(page);
                writable |= found.writable;
                if !self.frames.is_zeros(found.pfn) {
                    copied += 1;
                    shared += u32::from(self.frames.maybe_shared(found.pfn, page.asid));
                }
            }
            at = run.end();
        }
        // Linux reads up to max_ptes_swap pages back for it.
        if self.frames.any_swapped(first.asid, region.clone()) {
            return Ok(Collapse::Swapped);
        }
        if REGION - copied > u64::from(limits.none) {
            return Ok(Collapse::TooEmpty);
        }
        if shared > limits.shared {
            return Ok(Collapse::TooShared);
        }
        if !writable {
            return Ok(Collapse::ReadOnly);
        }
        let mut block = self.allocate(first.id, SIZE, true);
        if block.is_none() && self.compact() {
            block = self.allocate(first.id, SIZE, true);
        }
        let Some(block) = block else {
            return Ok(Collapse::NoFreeBlock);
        };
        // Accounting is that of programs: work of khugepaged is none of it.
        let accounting = self.statistics.accounting;
        self.unmap(first.asid, region);
        self.statistics.accounting = accounting;
        let mapped = self.enter(first, block, SIZE, true);
        self.frames.unpin();
        if let Err(error) = mapped {
            self.frames.free_unheld(block, SIZE);
            return Err(error);
        }
        self.frames.add_page(block, first);
        self.effects.blocks_given += 1;
        self.effects.pages_copied += copied;
        self.effects.pages_zeroed += REGION - copied;
        Ok(Collapse::Made { copied })
    }
}
