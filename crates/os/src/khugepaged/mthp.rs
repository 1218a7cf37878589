//! Folios smaller than 2 MiB (`mthp_collapse` in mm/khugepaged.c, Linux 7.2).

use super::KhugepagedConfig;
use crate::OsError;
use crate::page_size::Orders;
use crate::pages::collapse::{Collapse, Present};
use crate::pages::mapper::{Mapper, offset_by};
use pagelab_addr::PageSize;
use pagelab_translation::{Page, PageTable};

const HUGE: u32 = PageSize::Large2M.order();
const PAGES: u32 = PageSize::Large2M.base_pages();
/// Order of the smallest folio (`KHUGEPAGED_MIN_MTHP_ORDER`).
const SMALLEST: u32 = 2;

/// Outcome for a part of a region.
enum Part {
    Made,
    /// A folio as large is there.
    Large,
    /// Smaller folios might still be made.
    Refused,
    NoFreeBlock,
}

/// The most empty pages of a folio (`collapse_max_ptes_none`): smaller ones than 2 MiB know all and none only, so that
/// one that was made does not make the next larger one possible.
fn max_ptes_none(config: &KhugepagedConfig, order: u32) -> u32 {
    match config.max_ptes_none {
        none if order == HUGE => none,
        none if none == PAGES - 1 => (1 << order) - 1,
        _ => 0,
    }
}

/// The largest order of a folio that may begin at a page of a region (`max_order_from_offset`).
fn largest_at(offset: u32) -> u32 {
    offset.trailing_zeros().min(HUGE)
}

impl<T: PageTable> Mapper<'_, T> {
    /// Makes folios of a region's pages, of these orders, from the largest that may be down to the smallest. What came
    /// of it.
    pub(super) fn collapse_parts(
        &mut self,
        first: Page,
        orders: Orders,
        config: &KhugepagedConfig,
    ) -> Result<Collapse, OsError> {
        let present = match self.look(first) {
            Ok(present) => present,
            Err(outcome) => return Ok(outcome),
        };
        if present.shared > config.max_ptes_shared {
            return Ok(Collapse::TooShared);
        }
        if !present.writable {
            return Ok(Collapse::ReadOnly);
        }
        let (mut made, mut starved) = (false, false);
        let (mut offset, mut order) = (0, HUGE);
        while offset < PAGES {
            let least = (1 << order) - max_ptes_none(config, order);
            let mut goes_down = true;
            if orders >> order & 1 == 1 && present.count(offset, order) >= least {
                let part = self.collapse_part(first, offset, order, &present)?;
                made |= matches!(part, Part::Made);
                starved |= matches!(part, Part::NoFreeBlock);
                goes_down = matches!(part, Part::Refused | Part::NoFreeBlock);
            }
            if goes_down && order > SMALLEST && orders & ((1 << order) - 1) != 0 {
                order -= 1;
                continue;
            }
            offset += 1 << order;
            order = largest_at(offset);
        }
        Ok(match (made, starved) {
            (true, _) => Collapse::Parts,
            (false, true) => Collapse::NoFreeBlock,
            (false, false) => Collapse::TooEmpty,
        })
    }

    /// Makes one folio, if nothing is in the way (`collapse_huge_page`, `__collapse_huge_page_isolate`).
    fn collapse_part(
        &mut self,
        region: Page,
        offset: u32,
        order: u32,
        present: &Present,
    ) -> Result<Part, OsError> {
        let first = offset_by(region, offset);
        let copied = present.count(offset, order);
        let made = if order == HUGE {
            self.replace_region(first, copied)?
        } else {
            for at in offset..offset + (1 << order) {
                if present.pages[at as usize]
                    && let Some(refusal) = self.refusal(offset_by(region, at), order)
                {
                    return Ok(refusal);
                }
            }
            self.replace_part(first, order, copied)?
        };
        if !made {
            return Ok(Part::NoFreeBlock);
        }
        self.note_collapse(order, copied);
        Ok(Part::Made)
    }

    /// Reason for which a page cannot be part of a folio smaller than 2 MiB: others may have it, or it is of a folio as
    /// large.
    fn refusal(&self, page: Page, order: u32) -> Option<Part> {
        let pfn = self.translation(page).pfn;
        if self.frames.maybe_shared(pfn, page.asid) {
            return Some(Part::Refused);
        }
        let has = self.frames.part(pfn).map_or(0, |(order, _)| order);
        (has >= order).then_some(Part::Large)
    }
}
