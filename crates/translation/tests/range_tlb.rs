//! The range TLB beside a list of ranges, over mappings that change.

use pagelab_addr::{Asid, PageId, PageSize, Pfn, Vpn};
use pagelab_memory::simd::Baseline;
use pagelab_translation::{
    Mapped, Page, Range, RangeConfig, RangeTlb, Tlb, TlbArrayConfig, TlbConfig, Translation,
};
use proptest::prelude::*;

/// Pages mapped in runs of `run` pages, each to frames of its own, in two address spaces.
struct Runs {
    run: u64,
    writable: bool,
}

impl Runs {
    fn first(&self, page: Page) -> u64 {
        page.vpn.0 / self.run * self.run
    }

    fn pfn(&self, page: Page) -> Pfn {
        let run = page.vpn.0 / self.run;
        Pfn(u32::from(page.asid.0) << 20 | (run * 1000 + page.vpn.0 % self.run) as u32)
    }
}

impl Mapped for Runs {
    fn lookup(&self, page: Page) -> Option<Translation> {
        Some(Translation {
            pfn: self.pfn(page),
            size: PageSize::Base4K,
            writable: self.writable,
        })
    }

    fn range(&self, page: Page) -> Option<Range> {
        let first = self.first(page);
        let head = Page {
            vpn: Vpn(first),
            ..page
        };
        Some(Range {
            asid: page.asid,
            first: Vpn(first),
            pages: self.run,
            pfn: self.pfn(head),
            writable: self.writable,
        })
    }
}

fn named(asid: u16, vpn: u64) -> Page {
    Page {
        id: PageId(u32::from(asid) << 18 | vpn as u32),
        asid: Asid(asid),
        vpn: Vpn(vpn),
    }
}

proptest! {
    /// With a conventional TLB of one entry in each level, what is found is the last page or
    /// in one of the last ranges used.
    #[test]
    fn finds_what_the_last_ranges_have(
        entries in 1u32..6,
        run in 2u64..40,
        steps in proptest::collection::vec((0u16..2, 0u64..300, 0u64..60, any::<bool>()), 1..300),
    ) {
        let one = TlbArrayConfig::new(1, 1);
        let config = TlbConfig {
            l1_4k: one, l1_2m: None, l1_1g: None, l2_4k: one, l2_2m: None, l2_1g: None, l2_cycles: 8, asids: true,
        };
        let mut tlb = RangeTlb::new(&config, RangeConfig { entries }).unwrap();
        let runs = Runs { run, writable: true };
        // Ranges by use, the latest first; and the pages of the two levels.
        let mut ranges: Vec<(Asid, u64)> = Vec::new();
        let (mut first, mut second) = (None, None);
        for (asid, vpn, pages, code) in steps {
            let page = named(asid, vpn);
            if pages > 50 {
                let pages = pages - 50;
                tlb.invalidate(page, pages as u32);
                let in_range = |p: &Page| p.asid == page.asid && (vpn..vpn + pages).contains(&p.vpn.0);
                first = first.filter(|p| !in_range(p));
                second = second.filter(|p| !in_range(p));
                ranges.retain(|&(a, f)| a != page.asid || f + run <= vpn || vpn + pages <= f);
                continue;
            }
            let key = (page.asid, runs.first(page));
            // Instructions have a first level of their own.
            if !code {
                let found = tlb.lookup_first::<Baseline>(page.id, true);
                prop_assert_eq!(found, (first == Some(page)).then(|| runs.pfn(page)));
                if found.is_some() {
                    continue;
                }
                first = Some(page);
            }
            let has_range = ranges.contains(&key);
            let found = if code {
                tlb.lookup_code::<Baseline>(page)
            } else {
                tlb.lookup_second::<Baseline>(page, true)
            };
            prop_assert_eq!(found, (second == Some(page) || has_range).then(|| runs.pfn(page)));
            // The second level is asked first: a range is used only when that has not the page.
            if second != Some(page) {
                ranges.retain(|&other| other != key);
                ranges.insert(0, key);
                ranges.truncate(entries as usize);
            }
            if found.is_none() {
                let translation = runs.lookup(page).unwrap();
                if code {
                    tlb.fill_code::<Baseline>(page, translation, &runs);
                } else {
                    tlb.fill::<Baseline>(page, translation, &runs);
                }
                second = Some(page);
            }
        }
    }
}

#[test]
fn a_read_only_range_refuses_stores() {
    let one = TlbArrayConfig::new(1, 1);
    let config = TlbConfig {
        l1_4k: one,
        l1_2m: None,
        l1_1g: None,
        l2_4k: one,
        l2_2m: None,
        l2_1g: None,
        l2_cycles: 8,
        asids: true,
    };
    let mut tlb = RangeTlb::new(&config, RangeConfig::default()).unwrap();
    let runs = Runs {
        run: 10,
        writable: false,
    };
    let page = named(0, 3);
    tlb.fill::<Baseline>(page, runs.lookup(page).unwrap(), &runs);
    let other = named(0, 5);
    assert_eq!(tlb.lookup_second::<Baseline>(other, true), None);
    assert_eq!(
        tlb.lookup_second::<Baseline>(other, false),
        Some(runs.pfn(other))
    );
}
