//! Pages of 2 MiB made of smaller ones: at once by MADV_COLLAPSE, in the background by khugepaged.

use crate::OsError;
use crate::pages::mapper::Mapper;
use crate::spaces::vma::{HugeAdvice, Vma};
use crate::system::Call;
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
    /// Folios of less or of all of it are there now.
    Parts,
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

/// Pages of a region, as they are found.
#[derive(Clone, Debug)]
pub(crate) struct Present {
    /// By page: it is mapped, and not to the page of zeros.
    pub(crate) pages: [bool; REGION as usize],
    /// Others' pages among them.
    pub(crate) shared: u32,
    /// One of them can be written.
    pub(crate) writable: bool,
}

impl Present {
    /// Pages there from one on, of 2^`order`.
    pub(crate) fn count(&self, first: u32, order: u32) -> u32 {
        let pages = &self.pages[first as usize..][..1 << order];
        pages.iter().map(|&present| u32::from(present)).sum()
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Makes a page of 2 MiB of the region that starts there, if that may be (`hpage_collapse_scan_pmd`).
    pub(crate) fn collapse(&mut self, first: Page, limits: Limits) -> Result<Collapse, OsError> {
        let present = match self.look(first) {
            Ok(present) => present,
            Err(outcome) => return Ok(outcome),
        };
        let copied = present.count(0, SIZE.order());
        if SIZE.base_pages() - copied > limits.none {
            return Ok(Collapse::TooEmpty);
        }
        if present.shared > limits.shared {
            return Ok(Collapse::TooShared);
        }
        if !present.writable {
            return Ok(Collapse::ReadOnly);
        }
        if !self.replace_region(first, copied)? {
            return Ok(Collapse::NoFreeBlock);
        }
        let copied = u64::from(copied);
        Ok(Collapse::Made { copied })
    }

    /// Pages of the region that starts there, unless it has to stay.
    pub(crate) fn look(&self, first: Page) -> Result<Present, Collapse> {
        let region = first.vpn.0..first.vpn.0 + REGION;
        let mut present = Present {
            pages: [false; REGION as usize],
            shared: 0,
            writable: false,
        };
        let mut at = region.start;
        while let Some(run) = self.table.next_mapped(first.asid, at..region.end) {
            if run.size != PageSize::Base4K {
                return Err(Collapse::Huge);
            }
            for page in run.pages() {
                let found = self.translation(page);
                present.writable |= found.writable;
                if !self.frames.is_zeros(found.pfn) {
                    present.pages[(page.vpn.0 - region.start) as usize] = true;
                    present.shared += u32::from(self.frames.maybe_shared(found.pfn, page.asid));
                }
            }
            at = run.end();
        }
        // Linux reads up to max_ptes_swap pages back for it.
        if self.frames.any_swapped(first.asid, region) {
            return Err(Collapse::Swapped);
        }
        Ok(present)
    }

    /// Puts a page of 2 MiB in place of a region, with so many pages of it (`collapse_huge_page`). Whether a block was
    /// free.
    pub(crate) fn replace_region(&mut self, first: Page, copied: u32) -> Result<bool, OsError> {
        let mut block = self.allocate(first.id, SIZE, true);
        if block.is_none() && self.compact() {
            block = self.allocate(first.id, SIZE, true);
        }
        let Some(block) = block else {
            return Ok(false);
        };
        self.unmap_collapsed(first, SIZE.order());
        let mapped = self.enter(first, block, SIZE, true);
        self.frames.unpin();
        if let Err(error) = mapped {
            self.frames.free_unheld(block, SIZE);
            return Err(error);
        }
        self.frames.add_page(block, first);
        self.defer_split(first);
        self.count_collapse(SIZE.order(), copied);
        Ok(true)
    }

    /// Puts a folio of 2^`order` pages in their place, with so many of them. Whether a block was free.
    pub(crate) fn replace_part(
        &mut self,
        first: Page,
        order: u32,
        copied: u32,
    ) -> Result<bool, OsError> {
        let mut block = self.frames.allocate_block(order);
        if block.is_none() && self.compact() {
            block = self.frames.allocate_block(order);
        }
        let Some(block) = block else {
            return Ok(false);
        };
        self.unmap_collapsed(first, order);
        self.frames.make_folio(block, order);
        let (mapped, entered) = self.enter_frames(first, block, 1 << order, true);
        self.frames.unpin();
        if mapped < 1 << order {
            self.frames.dissolve(block);
        }
        entered?;
        self.count_collapse(order, copied);
        Ok(true)
    }

    /// Unmaps what is collapsed. Accounting is that of programs: work of khugepaged is none of it.
    fn unmap_collapsed(&mut self, first: Page, order: u32) {
        let accounting = self.statistics.accounting;
        self.unmap(first.asid, first.vpn.0..first.vpn.0 + (1 << order));
        self.statistics.accounting = accounting;
    }

    fn count_collapse(&mut self, order: u32, copied: u32) {
        self.effects.blocks_given += 1;
        self.effects.pages_copied += u64::from(copied);
        self.effects.pages_zeroed += (1 << order) - u64::from(copied);
    }
}
