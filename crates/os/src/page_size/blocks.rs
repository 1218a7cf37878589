//! Blocks of the page policy's size: what the first touch of each got, and why.

use crate::pages::mapper::Mapper;
use crate::spaces::vma::{HugeAdvice, Vma};
use crate::statistics::BlockStatistics;
use pagelab_addr::PageSize;
use pagelab_events::Backing;
use pagelab_translation::{Page, PageTable};
use std::ops::Range;

impl BlockStatistics {
    /// The count of blocks that get smaller pages whatever memory is free; `None` for a block that
    /// may get a page of its size. The order is that of `__thp_vma_allowable_orders` in
    /// mm/huge_memory.c (Linux 6.12).
    fn refusal(&mut self, vma: &Vma, block: Range<u64>, wanted: bool) -> Option<&mut u64> {
        match vma.backing {
            Backing::PrivateFile | Backing::SharedFile => Some(&mut self.file),
            Backing::SharedAnonymous => Some(&mut self.shared),
            _ if vma.advice == HugeAdvice::Unwanted => Some(&mut self.unwanted),
            _ if vma.advice == HugeAdvice::Forbidden => Some(&mut self.forbidden),
            _ if !vma.covers(block) => Some(&mut self.not_covered),
            _ if !wanted => Some(&mut self.not_advised),
            _ => None,
        }
    }
}

/// A block that nothing is mapped in, before a fault.
pub(crate) struct Untouched {
    block: Range<u64>,
    /// Faults that found no free block, until then.
    fallbacks: u64,
}

impl<T: PageTable> Mapper<'_, T> {
    /// The block of the policy's size around a page, if nothing is mapped in it.
    #[inline]
    pub(crate) fn untouched(&self, page: Page) -> Option<Untouched> {
        let order = self.sizes.largest()?;
        let start = page.vpn.0 & !((1 << order) - 1);
        let block = start..start + (1 << order);
        let unmapped = match self.sizes.largest_entry() {
            Some(size) => self.table.is_unmapped(page, size),
            None => self.table.next_mapped(page.asid, block.clone()).is_none(),
        };
        let swapped = unmapped && self.frames.any_swapped(page.asid, block.clone());
        (unmapped && !swapped).then(|| Untouched {
            block,
            fallbacks: self.fallbacks(),
        })
    }

    /// Counts a block that a fault has touched first, by what is mapped at its page now.
    pub(crate) fn count_block(&mut self, vma: &Vma, page: Page, before: Untouched) {
        let fell_back = self.fallbacks() > before.fallbacks;
        let zeros = self.sizes.largest_entry().is_none()
            && self.frames.is_zeros(self.translation(page).pfn);
        let order = (before.block.end - before.block.start).ilog2();
        let wanted = self.sizes.reserves() || self.sizes.orders(vma) >> order & 1 == 1;
        let blocks = self.statistics.blocks.get_or_insert_default();
        let count = match blocks.refusal(vma, before.block, wanted) {
            Some(count) => count,
            None if fell_back => &mut blocks.no_free_block,
            None if zeros => &mut blocks.read_first,
            None => &mut blocks.given,
        };
        *count += 1;
    }

    /// A block of zeros of a size was counted as given, and now there is none free for its data.
    pub(crate) fn take_back_block(&mut self, size: PageSize) {
        if self.sizes.largest_entry() == Some(size)
            && let Some(blocks) = &mut self.statistics.blocks
        {
            // The page of zeros may have been a part of another size's block.
            blocks.given = blocks.given.saturating_sub(1);
            blocks.no_free_block += 1;
        }
    }

    /// Faults that wanted a page of the policy's largest size and found no free block.
    fn fallbacks(&self) -> u64 {
        match self.sizes.largest_entry() {
            Some(PageSize::Huge1G) => self.statistics.fallbacks_1g,
            Some(_) => self.statistics.fallbacks_2m,
            None => self.statistics.fallbacks_folio,
        }
    }
}
