use super::{Khugepaged, KhugepagedConfig};
use crate::page_size::{HUGE, Orders};
use crate::pages::collapse::{Collapse, Limits};
use crate::pages::mapper::Mapper;
use crate::spaces::vma::Vma;
use crate::system::Call;
use crate::{KhugepagedStatistics, OsError};
use pagelab_addr::{Asid, PageSize, Vpn};
use pagelab_translation::PageTable;

/// Pages of a region of 2 MiB.
const REGION: u64 = PageSize::Large2M.base_pages() as u64;

impl<T: PageTable> Call<'_, T> {
    /// Looks at some pages (`khugepaged_do_scan`).
    pub(crate) fn khugepaged_scan(&mut self, thread: &mut Khugepaged) -> Result<(), OsError> {
        thread.starved = false;
        self.khugepaged().scans += 1;
        let mut left = u64::from(thread.config.pages_to_scan);
        // From the beginning it goes through once, from elsewhere until it is at its end for the second time.
        let mut ends = u32::from(thread.next == (0, 0));
        while left > 0 {
            let (space, from) = thread.next;
            if space >= self.spaces.len() {
                self.khugepaged().full_scans += 1;
                thread.next = (0, 0);
                ends += 1;
                if ends == 2 {
                    break;
                }
                continue;
            }
            let Some((vma, region)) = self.next_region(space, from, &thread.config) else {
                thread.next = (space + 1, 0);
                left -= 1;
                continue;
            };
            left = left.saturating_sub(REGION);
            thread.next = (space, region + REGION);
            let first = self.mapper.page(Asid(space as u16), Vpn(region))?;
            debug_assert!(vma.covers(region..region + REGION));
            let orders = made(self.mapper.orders(&vma), &thread.config);
            let outcome = if orders == HUGE {
                let limits = Limits {
                    none: thread.config.max_ptes_none,
                    shared: thread.config.max_ptes_shared,
                };
                self.mapper.collapse(first, limits)?
            } else {
                self.mapper.collapse_parts(first, orders, &thread.config)?
            };
            if self.note(outcome) {
                thread.starved = true;
                break;
            }
        }
        Ok(())
    }

    fn khugepaged(&mut self) -> &mut KhugepagedStatistics {
        let statistics = &mut self.mapper.statistics.khugepaged;
        statistics.get_or_insert_default()
    }

    /// The first region at or behind a page that a page of 2 MiB may back, and its VMA.
    fn next_region(
        &mut self,
        space: usize,
        from: u64,
        config: &KhugepagedConfig,
    ) -> Option<(Vma, u64)> {
        let mapper = &self.mapper;
        let space = self.spaces[space].as_ref()?;
        space.vmas.within(from..u64::MAX).find_map(|vma| {
            let region = vma.start.max(from).next_multiple_of(REGION);
            let fits = region + REGION <= vma.end;
            let vma = space.seen(vma);
            (fits && made(mapper.orders(&vma), config) != 0).then_some((vma, region))
        })
    }

    /// Counts what came of a region. True if no block was free.
    fn note(&mut self, outcome: Collapse) -> bool {
        if let Collapse::Made { copied } = outcome {
            (self.mapper).note_collapse(PageSize::Large2M.order(), copied as u32);
        }
        let counts = self.khugepaged();
        match outcome {
            Collapse::TooEmpty => counts.too_empty += 1,
            Collapse::TooShared => counts.too_shared += 1,
            Collapse::NoFreeBlock => counts.no_free_block += 1,
            Collapse::Made { .. }
            | Collapse::Parts
            | Collapse::Huge
            | Collapse::ReadOnly
            | Collapse::Swapped => {}
        }
        outcome == Collapse::NoFreeBlock
    }
}

/// Sizes that khugepaged makes where faults may map these (`collapse_possible_orders`).
fn made(orders: Orders, config: &KhugepagedConfig) -> Orders {
    orders & if config.mthp { 2 * HUGE - 1 } else { HUGE }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Counts a folio that khugepaged has made.
    pub(super) fn note_collapse(&mut self, order: u32, copied: u32) {
        // The program's processor drops its translations at once (`pmdp_collapse_flush`).
        self.effects.shootdowns += 1;
        let counts = self.statistics.khugepaged.get_or_insert_default();
        if 1 << order == HUGE {
            counts.collapsed += 1;
        } else {
            counts.folios += 1;
        }
        counts.pages_copied += u64::from(copied);
        counts.pages_zeroed += (1 << order) - u64::from(copied);
    }
}
