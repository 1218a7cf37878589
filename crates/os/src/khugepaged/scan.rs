use super::{Khugepaged, KhugepagedConfig};
use crate::collapse::{Collapse, Limits};
use crate::fault::{may_be_huge, takes_folios};
use crate::mapper::Mapper;
use crate::system::Call;
use crate::vma::{HugeAdvice, Vma};
use crate::{KhugepagedStatistics, OsError, PagePolicy};
use pagelab_addr::{Asid, PageSize, Vpn};
use pagelab_translation::PageTable;

/// Pages of a region of 2 MiB.
const REGION: u64 = PageSize::Large2M.base_pages() as u64;
/// Its order, as a bit.
const HUGE: u16 = 1 << PageSize::Large2M.order();

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
            let orders = self.orders(&thread.config, &vma);
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
        let policy = self.config.page_policy;
        let space = self.spaces[space].as_ref()?;
        space.vmas.within(from..u64::MAX).find_map(|vma| {
            let region = vma.start.max(from).next_multiple_of(REGION);
            let fits = region + REGION <= vma.end;
            let vma = space.seen(vma);
            (fits && orders(policy, config, &vma) != 0).then_some((vma, region))
        })
    }

    /// Orders of folios for a VMA, as bits.
    fn orders(&self, config: &KhugepagedConfig, vma: &Vma) -> u16 {
        orders(self.config.page_policy, config, vma)
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

/// Orders of the folios that khugepaged makes in a VMA, as bits (`collapse_possible_orders`).
fn orders(policy: PagePolicy, config: &KhugepagedConfig, vma: &Vma) -> u16 {
    let huge = if may_be_huge(vma, policy) { HUGE } else { 0 };
    if !config.mthp || !takes_folios(vma) {
        return huge;
    }
    let wanted = vma.advice == HugeAdvice::Wanted;
    let smaller = policy.folio_orders(wanted);
    smaller.fold(huge, |orders, order| orders | 1 << order)
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
