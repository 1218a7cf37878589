//! A range TLB beside a conventional one. See docs/designs/range.md.

use super::{ConventionalTlb, Mapped, Tlb, TlbConfig, TlbCounters, TlbError};
use crate::{Page, Range, Translation};
use pagelab_addr::{PageId, PageSize, Pfn};
use pagelab_memory::Access;
use pagelab_memory::simd::Simd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A range TLB, besides the conventional TLB that it stands beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RangeConfig {
    /// Entries, fully associative, least recently used.
    pub entries: u32,
}

impl Default for RangeConfig {
    fn default() -> Self {
        // Karakostas et al., ISCA 2015, table 3.
        RangeConfig { entries: 32 }
    }
}

/// A conventional TLB and beside its second level one of ranges.
///
/// A page that only the range TLB has enters the first level.
#[derive(Clone, Debug)]
pub struct RangeTlb {
    pages: ConventionalTlb,
    ranges: RangeArray,
    /// Hits of data, and of instructions.
    hits: u64,
    code_hits: u64,
    fills: u64,
}

/// Entries, in parallel lists so that all are compared at once.
#[derive(Clone, Debug)]
struct RangeArray {
    /// The first page, named as in [`place`], and the number of pages: 0 for an empty entry.
    first: Vec<u64>,
    pages: Vec<u64>,
    ranges: Vec<Option<Range>>,
    used: Vec<u64>,
    clock: u64,
}

/// A page of any address space as one number; page numbers have 45 bits.
#[inline(always)]
fn place(page: Page) -> u64 {
    u64::from(page.asid.0) << 48 | page.vpn.0
}

impl RangeArray {
    fn new(entries: u32) -> Self {
        let entries = entries as usize;
        RangeArray {
            first: vec![0; entries],
            pages: vec![0; entries],
            ranges: vec![None; entries],
            used: vec![0; entries],
            clock: 0,
        }
    }

    /// The first entry that a test on its first page and length holds for. All are tested, 64 at
    /// a time: vector instructions do that faster than a search that stops at the first.
    #[inline(always)]
    fn find(&self, test: impl Fn(u64, u64) -> bool) -> Option<usize> {
        let blocks = self.first.chunks(64).zip(self.pages.chunks(64));
        for (block, (first, pages)) in blocks.enumerate() {
            let mut passed = 0u64;
            for (entry, (&first, &pages)) in first.iter().zip(pages).enumerate() {
                passed |= u64::from(test(first, pages)) << entry;
            }
            if passed != 0 {
                return Some(64 * block + passed.trailing_zeros() as usize);
            }
        }
        None
    }

    #[inline(always)]
    fn get(&mut self, page: Page) -> Option<Range> {
        let place = place(page);
        let at = self.find(|first, pages| place.wrapping_sub(first) < pages)?;
        self.clock += 1;
        self.used[at] = self.clock;
        self.ranges[at]
    }

    /// Enters a range instead of the least recently used one. What it overlaps leaves: an older
    /// state of the same range.
    #[inline(always)]
    fn insert(&mut self, range: Range) {
        let first = u64::from(range.asid.0) << 48 | range.first.0;
        self.remove(first, range.pages);
        let oldest = self.used.iter().copied().fold(u64::MAX, u64::min);
        if let Some(at) = self.used.iter().position(|&used| used == oldest) {
            self.clock += 1;
            self.first[at] = first;
            self.pages[at] = range.pages;
            self.ranges[at] = Some(range);
            self.used[at] = self.clock;
        }
    }

    /// Forgets all ranges with a page of these.
    #[inline(always)]
    fn remove(&mut self, from: u64, pages: u64) {
        let overlaps = |first: u64, length: u64| {
            (from.wrapping_sub(first) < length) | (first.wrapping_sub(from) < pages) & (length > 0)
        };
        while let Some(at) = self.find(overlaps) {
            self.pages[at] = 0;
            self.ranges[at] = None;
            self.used[at] = 0;
        }
    }
}

impl RangeTlb {
    /// One line about it.
    pub const DESCRIPTION: &str = "a range TLB over redundant memory mappings, placed eagerly";

    /// An empty TLB.
    ///
    /// # Errors
    /// When an array of the conventional TLB is not a whole number of sets.
    pub fn new(config: &TlbConfig, ranges: RangeConfig) -> Result<Self, TlbError> {
        Ok(RangeTlb {
            pages: ConventionalTlb::new(config)?,
            ranges: RangeArray::new(ranges.entries),
            hits: 0,
            code_hits: 0,
            fills: 0,
        })
    }

    /// Enters the range of a page, if it is in one.
    #[inline(always)]
    fn fill_range(&mut self, page: Page, mapped: &impl Mapped) {
        if let Some(range) = mapped.range(page) {
            self.ranges.insert(range);
            self.fills += 1;
        }
    }
}

/// The frame of a page of a range.
#[inline(always)]
fn frame(range: Range, page: Page) -> Pfn {
    Pfn(range.pfn.0 + (page.vpn.0 - range.first.0) as u32)
}

impl Tlb for RangeTlb {
    #[inline(always)]
    fn describe(&mut self, access: Access) {
        self.pages.describe(access);
    }

    #[inline(always)]
    fn lookup_first<S: Simd>(&mut self, page: PageId, store: bool) -> Option<Pfn> {
        self.pages.lookup_first::<S>(page, store)
    }

    #[inline(always)]
    fn lookup_second<S: Simd>(&mut self, page: Page, store: bool) -> Option<Pfn> {
        if let Some(pfn) = self.pages.lookup_second::<S>(page, store) {
            return Some(pfn);
        }
        let range = self.ranges.get(page)?;
        if store && !range.writable {
            return None;
        }
        self.hits += 1;
        let pfn = frame(range, page);
        let translation = Translation {
            pfn,
            size: PageSize::Base4K,
            writable: range.writable,
        };
        self.pages.fill_first::<S>(page.id, translation);
        Some(pfn)
    }

    #[inline(always)]
    fn fill<S: Simd>(&mut self, page: Page, translation: Translation, mapped: &impl Mapped) -> u32 {
        self.fill_range(page, mapped);
        self.pages.fill::<S>(page, translation, mapped)
    }

    fn lookup_code<S: Simd>(&mut self, page: Page) -> Option<Pfn> {
        if let Some(pfn) = self.pages.lookup_code::<S>(page) {
            return Some(pfn);
        }
        let range = self.ranges.get(page)?;
        self.code_hits += 1;
        Some(frame(range, page))
    }

    fn fill_code<S: Simd>(
        &mut self,
        page: Page,
        translation: Translation,
        mapped: &impl Mapped,
    ) -> u32 {
        self.fill_range(page, mapped);
        self.pages.fill_code::<S>(page, translation, mapped)
    }

    fn invalidate(&mut self, first: Page, pages: u32) {
        self.pages.invalidate(first, pages);
        self.ranges.remove(place(first), u64::from(pages));
    }

    #[inline(always)]
    fn host_prefetch(&self, page: PageId) {
        self.pages.host_prefetch(page);
    }

    /// A second-level miss is a walk: what the range TLB had is none.
    fn counters(&self) -> TlbCounters {
        let counters = self.pages.counters();
        TlbCounters {
            l2_misses: counters.l2_misses - self.hits,
            ..counters
        }
    }

    fn own_counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("range_hits", self.hits),
            ("range_hits_of_code", self.code_hits),
            ("range_fills", self.fills),
        ]
    }
}
