use crate::OsError;
use crate::faults::fault::Need;
use crate::pages::mapper::Mapper;
use crate::spaces::vma::Vma;
use crate::system::Call;
use pagelab_addr::{Asid, PageSize, Pfn, Vpn};
use pagelab_events::Backing;
use pagelab_translation::{Page, PageTable};
use std::ops::RangeInclusive;

/// Pages of a 2 MiB region.
const REGION: u64 = PageSize::Large2M.base_pages() as u64;

impl<T: PageTable> Call<'_, T> {
    /// Maps all of a new allocation at once, where that is how pages are placed (eager paging:
    /// Karakostas et al., ISCA 2015, section 5.1), as far as there is memory.
    pub(crate) fn place_eagerly(&mut self, asid: Asid, vma: &Vma) -> Result<(), OsError> {
        let anonymous = matches!(vma.backing, Backing::Anonymous | Backing::Stack);
        if vma.is_private() && self.mapper.frames.manager().is_eager() {
            return self.fallocate(asid, vma);
        }
        if !self.eager || !anonymous || !vma.writable() {
            return Ok(());
        }
        let mut at = vma.start;
        while at < vma.end {
            let page = self.mapper.page(asid, Vpn(at))?;
            let large = self.mapper.likely_size(&vma.at(at, at, vma.end)) != PageSize::Base4K;
            if large && at.is_multiple_of(REGION) {
                match self.mapper.fault_unmapped(vma, page, Need::Frame) {
                    Ok(size) => at += u64::from(size.base_pages()),
                    Err(OsError::OutOfMemory { .. }) => return Ok(()),
                    Err(error) => return Err(error),
                }
                continue;
            }
            // Up to where a larger page may begin.
            let end = if large {
                vma.end.min(at.next_multiple_of(REGION))
            } else {
                vma.end
            };
            let most = self.config.max_order.min((end - at).ilog2());
            let pages = self
                .mapper
                .map_block(vma, page, 0..=most, vma.writable(), false)?;
            if pages == 0 {
                return Ok(());
            }
            for _ in 0..pages {
                self.mapper.statistics.populated.count(PageSize::Base4K);
            }
            at += u64::from(pages);
        }
        Ok(())
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Maps 4 KiB pages from one on to the largest block there is of some orders. How many: none
    /// when there is no such block, fewer than it has where the page table finds no more memory. They may make
    /// up a `folio`.
    pub(crate) fn map_block(
        &mut self,
        vma: &Vma,
        page: Page,
        orders: RangeInclusive<u32>,
        writable: bool,
        folio: bool,
    ) -> Result<u32, OsError> {
        let mut largest_first = orders.rev();
        let Some((head, order)) =
            largest_first.find_map(|order| Some((self.frames.allocate_block(order)?, order)))
        else {
            return Ok(0);
        };
        if folio {
            self.frames.make_folio(head, order);
        }
        let (mapped, entered) = self.map_frames(vma, page, head, 1 << order, writable);
        if folio && mapped < 1 << order {
            self.frames.dissolve(head);
        } else {
            if folio {
                self.account_folio();
            }
            self.free_rest(head, mapped, 1 << order);
        }
        entered.map(|()| mapped)
    }

    /// Maps 4 KiB pages from one on to frames in a row that are pinned, until the page table finds no more memory. How
    /// many, and any other error.
    pub(crate) fn map_frames(
        &mut self,
        vma: &Vma,
        page: Page,
        head: Pfn,
        frames: u32,
        writable: bool,
    ) -> (u32, Result<(), OsError>) {
        let (mapped, entered) = self.enter_frames(page, head, frames, writable);
        for _ in 0..mapped {
            self.count_page(vma, PageSize::Base4K);
        }
        self.effects.blocks_given += u64::from(mapped > 0);
        self.frames.unpin();
        let is_short = matches!(entered, Err(OsError::OutOfMemory { .. }));
        (mapped, if is_short { Ok(()) } else { entered })
    }

    /// Enters 4 KiB pages from one on into the page table, as many as it has room for.
    pub(crate) fn enter_frames(
        &mut self,
        page: Page,
        head: Pfn,
        frames: u32,
        writable: bool,
    ) -> (u32, Result<(), OsError>) {
        let mut mapped = 0;
        while mapped < frames {
            let pfn = Pfn(head.0 + mapped);
            let entered = self.enter_next(page, mapped, pfn, writable);
            if entered.is_err() {
                return (mapped, entered);
            }
            mapped += 1;
        }
        (mapped, Ok(()))
    }

    /// Frees frames of a row that were not mapped.
    pub(crate) fn free_rest(&mut self, head: Pfn, mapped: u32, frames: u32) {
        for unmapped in mapped..frames {
            let pfn = Pfn(head.0 + unmapped);
            self.frames.free_unheld(pfn, PageSize::Base4K);
        }
    }

    fn enter_next(
        &mut self,
        first: Page,
        pages: u32,
        pfn: Pfn,
        writable: bool,
    ) -> Result<(), OsError> {
        let vpn = Vpn(first.vpn.0 + u64::from(pages));
        let page = self.page(first.asid, vpn)?;
        self.enter(page, pfn, PageSize::Base4K, writable)?;
        self.frames.add_page(pfn, page);
        Ok(())
    }
}
