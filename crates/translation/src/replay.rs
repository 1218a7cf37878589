//! A list of page accesses against a TLB with and without a range TLB, with the layout of a real
//! machine's memory (FBMM, ATC 2024, Table 6).

use crate::{
    ConventionalTlb, Mapped, Page, Range, RangeConfig, RangeTlb, Tlb, TlbConfig, TlbError,
    Translation,
};
use pagelab_addr::{Asid, DirectoryFull, PageDirectory, PageSize, Pfn, Vpn};
use pagelab_memory::simd::Baseline;
use thiserror::Error;

/// Numbers of accesses, and of those that needed a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Accesses.
    pub accesses: u64,
    /// Walks without the range TLB.
    pub walks: u64,
    /// Walks with it.
    pub walks_with_ranges: u64,
    /// Accesses to pages that are in no range.
    pub outside: u64,
}

/// Reason for which a list cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The TLB's configuration.
    #[error(transparent)]
    Tlb(#[from] TlbError),
    /// More memory than the simulator numbers.
    #[error("the accesses lie in too many 1 GiB regions")]
    TooWide,
}

impl From<DirectoryFull> for ReplayError {
    fn from(_: DirectoryFull) -> Self {
        ReplayError::TooWide
    }
}

/// Ranges in ascending order. A page in none has a frame of its own, which no counter sees.
struct Layout<'a>(&'a [Range]);

impl Mapped for Layout<'_> {
    fn lookup(&self, page: Page) -> Option<Translation> {
        Some(Translation {
            pfn: Pfn(page.id.0),
            size: PageSize::Base4K,
            writable: true,
        })
    }

    fn range(&self, page: Page) -> Option<Range> {
        let after = self.0.partition_point(|range| range.first <= page.vpn);
        let range = self.0[..after].last()?;
        (page.vpn.0 - range.first.0 < range.pages).then_some(*range)
    }
}

/// Accesses pages of base size, `(page, whether it is a store)`, in a machine that has the given
/// ranges of contiguous memory, in ascending order.
///
/// # Errors
/// [`ReplayError`]: a TLB's arrays are not whole sets, or too much memory is accessed.
pub fn replay_ranges(
    config: &TlbConfig,
    entries: u32,
    ranges: &[Range],
    accesses: impl Iterator<Item = (Vpn, bool)>,
) -> Result<Replayed, ReplayError> {
    let layout = Layout(ranges);
    let mut directory = PageDirectory::new();
    let mut alone = ConventionalTlb::new(config)?;
    let mut beside = RangeTlb::new(config, RangeConfig { entries })?;
    let mut replayed = Replayed::default();
    for (vpn, store) in accesses {
        let asid = Asid(0);
        let id = directory.page(asid, vpn)?;
        let page = Page { id, asid, vpn };
        replayed.accesses += 1;
        replayed.outside += u64::from(layout.range(page).is_none());
        access(&mut alone, page, store, &layout);
        access(&mut beside, page, store, &layout);
    }
    replayed.walks = alone.counters().l2_misses;
    replayed.walks_with_ranges = beside.counters().l2_misses;
    Ok(replayed)
}

fn access(tlb: &mut impl Tlb, page: Page, store: bool, layout: &Layout<'_>) {
    if tlb.lookup_first::<Baseline>(page.id, store).is_some()
        || tlb.lookup_second::<Baseline>(page, store).is_some()
    {
        return;
    }
    if let Some(translation) = layout.lookup(page) {
        tlb.fill::<Baseline>(page, translation, layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TlbArrayConfig;

    fn config() -> TlbConfig {
        let array = |entries, ways| TlbArrayConfig::new(entries, ways);
        TlbConfig {
            l1_4k: array(4, 4),
            l1_2m: None,
            l1_1g: None,
            l2_4k: array(8, 8),
            l2_2m: None,
            l2_1g: None,
            l2_cycles: 9,
            asids: true,
        }
    }

    fn range(first: u64, pages: u64, pfn: u32) -> Range {
        Range {
            asid: Asid(0),
            first: Vpn(first),
            pages,
            pfn: Pfn(pfn),
            writable: true,
        }
    }

    /// 100 pages round robin miss a TLB of 8 each time; in one range they miss once, in four
    /// ranges four times, and where 32 ranges do not do, each time.
    #[test]
    fn one_walk_a_range_while_the_ranges_fit() {
        let pages = || (0..1000u64).map(|i| (Vpn(1000 + i % 100), i % 3 == 0));
        for (ranges, walks) in [
            (vec![range(900, 300, 5)], 1),
            (
                (0..4)
                    .map(|i| range(1000 + 25 * i, 25, 1000 * i as u32))
                    .collect(),
                4,
            ),
            (
                (0..50)
                    .map(|i| range(1000 + 2 * i, 2, 1000 * i as u32))
                    .collect(),
                500,
            ),
        ] {
            let replayed = replay_ranges(&config(), 32, &ranges, pages()).unwrap();
            let expected = Replayed {
                accesses: 1000,
                walks: 1000,
                walks_with_ranges: walks,
                outside: 0,
            };
            assert_eq!(replayed, expected);
        }
    }

    #[test]
    fn pages_in_no_range_are_walked_for_and_counted() {
        let ranges = [range(10, 2, 0), range(20, 2, 9)];
        let pages = [9, 10, 11, 12, 19, 20, 21, 22].map(|page| (Vpn(page), false));
        let replayed = replay_ranges(&config(), 32, &ranges, pages.into_iter()).unwrap();
        assert_eq!((replayed.outside, replayed.walks), (4, 8));
        assert_eq!(replayed.walks_with_ranges, 6);
    }
}
