//! The mosaic TLB: an entry holds the compressed frame numbers of 4 to 64 neighbouring pages. See
//! docs/designs/mosaic.md.

use super::array::{TlbArrayConfig, TlbError};
use super::level::{LARGER, Level, frame, value};
use super::{Mapped, Tlb, TlbConfig, TlbCounters};
use crate::iceberg::Iceberg;
use crate::{ConfigError, Page, Translation};
use pagelab_addr::{PageId, PageSize, Pfn, Vpn};
use pagelab_memory::Access;
use pagelab_memory::simd::Simd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A mosaic TLB, besides the geometry that it shares with the conventional one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MosaicConfig {
    /// Pages of a mosaic page: 4, 8, 16, 32 or 64.
    pub pages: u32,
}

impl Default for MosaicConfig {
    fn default() -> Self {
        // "MOSAIC-8": table I of the DPT paper.
        MosaicConfig { pages: 8 }
    }
}

const MAX_PAGES: usize = 64;

/// Bit of a part of an entry that allows no stores. A part holds a compressed frame number in
/// hardware, here the frame that it stands for, so that a hit need not hash.
const READ_ONLY: u32 = 1 << 31;
/// A part that holds nothing; no frame has this number.
const INVALID: u32 = !READ_ONLY;

/// Keys of mosaic pages beside those of the other entries in the same array (`level.rs`): their
/// numbers have 28 bits.
const KEY: u32 = 1 << 30 | 1 << 28;

/// A two-level TLB whose entries for 4 KiB pages are mosaic pages.
///
/// A walk fills every part of the entry whose page is mapped in one of its places. A page that is
/// not in one of them (a conflict, or copy-on-write memory that belongs to another address space)
/// and larger pages have entries of their own, as in a conventional TLB.
#[derive(Clone, Debug)]
pub struct MosaicTlb {
    l1: MosaicLevel,
    l2: MosaicLevel,
    iceberg: Iceberg,
    /// log2 of the pages of an entry.
    shift: u32,
    /// Anything was ever entered that is no mosaic page; and larger than 4 KiB.
    single_seen: bool,
    larger_seen: bool,
    counters: TlbCounters,
    own: MosaicCounters,
}

#[derive(Clone, Copy, Debug, Default)]
struct MosaicCounters {
    /// Second-level misses for which there was an entry, but not this part of it.
    part_misses: u64,
    /// Entries filled by walks, and parts of them that became valid.
    fills: u64,
    parts_filled: u64,
    /// Walks that found a 4 KiB page in none of its places.
    uncompressed: u64,
}

/// One level: the value of a mosaic page's entry is the number of its parts in `parts`.
#[derive(Clone, Debug)]
struct MosaicLevel {
    level: Level,
    parts: Vec<u32>,
    /// Numbers not in use: one at least, since there is one more than entries.
    free: Vec<u32>,
    shift: u32,
}

impl MosaicLevel {
    fn new(
        base: TlbArrayConfig,
        large: Option<TlbArrayConfig>,
        huge: Option<TlbArrayConfig>,
        shift: u32,
    ) -> Result<Self, TlbError> {
        let numbers = base.entries + 1;
        // Its entries for one page are the exception, and stay so.
        let base = TlbArrayConfig {
            coalesce: 1,
            partial: false,
            ..base
        };
        Ok(MosaicLevel {
            level: Level::new(base, large, huge)?,
            parts: vec![INVALID; (numbers as usize) << shift],
            free: (0..numbers).rev().collect(),
            shift,
        })
    }

    /// Range of an entry's parts.
    #[inline(always)]
    fn range(&self, number: u32) -> std::ops::Range<usize> {
        let first = (number as usize) << self.shift;
        first..first + (1 << self.shift)
    }

    /// The number of the parts of a mosaic page's entry.
    #[inline(always)]
    fn find<S: Simd>(&mut self, group: u32) -> Option<u32> {
        let array = &mut self.level.base;
        array
            .entries
            .get_at::<S>(array.index.of(group), KEY | group)
    }

    /// Looks a page up among the mosaic pages: whether there is an entry, and the part for it. A
    /// part that does not allow the access becomes invalid.
    #[inline(always)]
    fn get<S: Simd>(&mut self, page: PageId, store: bool) -> (Option<u32>, Option<Pfn>) {
        let Some(number) = self.find::<S>(page.0 >> self.shift) else {
            return (None, None);
        };
        let at = (number as usize) << self.shift | page.0 as usize & ((1 << self.shift) - 1);
        let part = &mut self.parts[at];
        if store && *part & READ_ONLY != 0 {
            *part = INVALID;
        }
        let valid = *part & !READ_ONLY != INVALID;
        (Some(number), valid.then_some(Pfn(*part & !READ_ONLY)))
    }

    /// Enters a mosaic page, or other parts for one that is there.
    #[inline(always)]
    fn fill<S: Simd>(&mut self, group: u32, parts: &[u32]) {
        let number = match self.find::<S>(group) {
            Some(number) => number,
            None => {
                let number = self.free.pop().unwrap_or_default();
                let array = &mut self.level.base;
                let set = array.index.of(group);
                let evicted = array.entries.insert_at::<S>(set, KEY | group, number);
                self.recycle(evicted);
                number
            }
        };
        let range = self.range(number);
        self.parts[range].copy_from_slice(parts);
    }

    /// Enters a page that is no part of a mosaic page.
    #[inline(always)]
    fn insert<S: Simd>(&mut self, page: PageId, size: PageSize, value: u32) {
        let evicted = self.level.insert::<S>(page, size, value);
        self.recycle(evicted);
    }

    #[inline(always)]
    fn recycle(&mut self, evicted: Option<(u32, u32)>) {
        if let Some((key, number)) = evicted
            && is_mosaic(key)
        {
            self.free.push(number);
        }
    }

    fn invalidate(&mut self, first: PageId, pages: u32) {
        self.level.invalidate(first, pages);
        let last = first.0 + pages - 1;
        let (whole_from, whole_to) = (
            (first.0 + (1 << self.shift) - 1) >> self.shift,
            (last + 1) >> self.shift,
        );
        if whole_from < whole_to {
            let whole = KEY | whole_from..KEY | whole_to;
            let (entries, free) = (&mut self.level.base.entries, &mut self.free);
            entries.forget(|key, number| {
                let stale = whole.contains(&key);
                if stale {
                    free.push(number);
                }
                stale
            });
        }
        // The rest of the range at its ends, an entry each.
        for group in [first.0 >> self.shift, last >> self.shift] {
            let array = &self.level.base;
            let Some(number) = array.entries.peek(array.index.of(group), KEY | group) else {
                continue;
            };
            let start = group << self.shift;
            let parts = self.range(number);
            let from = first.0.saturating_sub(start) as usize;
            let to = (last - start).min((1 << self.shift) - 1) as usize;
            self.parts[parts][from..=to].fill(INVALID);
        }
    }
}

/// True if a key is a mosaic page's.
#[inline(always)]
fn is_mosaic(key: u32) -> bool {
    key & (1 << 30 | 1 << 29 | 1 << 28) == KEY
}

impl MosaicTlb {
    /// One line about it.
    pub const DESCRIPTION: &str = "TLB entries for 4 to 64 neighbouring pages with hashed frames";

    /// An empty TLB of a machine whose pages are placed by `iceberg`.
    ///
    /// # Errors
    /// When an array is not a whole number of sets, or a mosaic page has not 4 to 64 pages.
    pub fn new(
        config: &TlbConfig,
        mosaic: MosaicConfig,
        iceberg: Iceberg,
    ) -> Result<Self, MosaicError> {
        let MosaicConfig { pages } = mosaic;
        if !(4..=MAX_PAGES as u32).contains(&pages) || !pages.is_power_of_two() {
            return Err(MosaicError::Pages(ConfigError {
                key: "mosaic.pages",
                reason: format!("{pages} is not 4, 8, 16, 32 or 64"),
            }));
        }
        let shift = pages.ilog2();
        let TlbConfig {
            l1_4k,
            l1_2m,
            l1_1g,
            l2_4k,
            l2_2m,
            l2_1g,
            ..
        } = *config;
        Ok(MosaicTlb {
            l1: MosaicLevel::new(l1_4k, l1_2m, l1_1g, shift)?,
            l2: MosaicLevel::new(l2_4k, l2_2m, l2_1g, shift)?,
            iceberg,
            shift,
            single_seen: false,
            larger_seen: false,
            counters: TlbCounters::default(),
            own: MosaicCounters::default(),
        })
    }

    /// The sizes of entries that are no mosaic pages, as far as there ever were any.
    #[inline(always)]
    fn other_sizes(&self) -> impl Iterator<Item = PageSize> + use<> {
        let single = self.single_seen.then_some(PageSize::Base4K);
        let larger = if self.larger_seen { &LARGER[..] } else { &[] };
        single.into_iter().chain(larger.iter().copied())
    }

    /// A page is entered that is no part of a mosaic page.
    #[inline(always)]
    fn note_single(&mut self, size: PageSize) {
        self.single_seen |= size == PageSize::Base4K;
        self.larger_seen |= size != PageSize::Base4K;
        self.own.uncompressed += u64::from(size == PageSize::Base4K);
    }

    /// The parts of the mosaic page around a page.
    #[inline(always)]
    fn parts(&mut self, page: Page, mapped: &impl Mapped) -> [u32; MAX_PAGES] {
        let mut parts = [INVALID; MAX_PAGES];
        let (first_id, first_vpn) = (
            page.id.0 >> self.shift << self.shift,
            page.vpn.0 >> self.shift << self.shift,
        );
        for (offset, part) in (0..1 << self.shift).zip(&mut parts) {
            let id = PageId(first_id + offset);
            let vpn = Vpn(first_vpn + u64::from(offset));
            if let Some(found) = mapped.lookup(Page { id, vpn, ..page })
                && found.size == PageSize::Base4K
                && self.iceberg.compress(id, found.pfn).is_some()
            {
                let read_only = if found.writable { 0 } else { READ_ONLY };
                *part = found.pfn.0 | read_only;
                self.own.parts_filled += 1;
            }
        }
        parts
    }
}

/// Reason for which a mosaic TLB cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MosaicError {
    /// An array's geometry.
    #[error(transparent)]
    Array(#[from] TlbError),
    /// The pages of an entry.
    #[error(transparent)]
    Pages(ConfigError),
}

impl Tlb for MosaicTlb {
    #[inline(always)]
    fn describe(&mut self, access: Access) {
        self.l2.level.describe(access);
    }

    #[inline(always)]
    fn lookup_first<S: Simd>(&mut self, page: PageId, store: bool) -> Option<Pfn> {
        self.counters.lookups += 1;
        if let (_, Some(pfn)) = self.l1.get::<S>(page, store) {
            return Some(pfn);
        }
        let refused = if store { READ_ONLY } else { 0 };
        for size in self.other_sizes() {
            if let Some(value) = self.l1.level.get::<S>(page, size, refused) {
                return Some(frame(value, page, size));
            }
        }
        self.counters.l1_misses += 1;
        None
    }

    #[inline(always)]
    fn lookup_second<S: Simd>(&mut self, page: Page, store: bool) -> Option<Pfn> {
        let page = page.id;
        let (entry, part) = self.l2.get::<S>(page, store);
        if let (Some(number), Some(pfn)) = (entry, part) {
            let range = self.l2.range(number);
            self.l1
                .fill::<S>(page.0 >> self.shift, &self.l2.parts[range]);
            return Some(pfn);
        }
        let refused = if store { READ_ONLY } else { 0 };
        for size in self.other_sizes() {
            if let Some(value) = self.l2.level.get::<S>(page, size, refused) {
                self.l1.insert::<S>(page, size, value);
                return Some(frame(value, page, size));
            }
        }
        self.own.part_misses += u64::from(entry.is_some());
        self.counters.l2_misses += 1;
        None
    }

    #[inline(always)]
    fn fill<S: Simd>(&mut self, page: Page, translation: Translation, mapped: &impl Mapped) -> u32 {
        let Translation { size, pfn, .. } = translation;
        if size == PageSize::Base4K && self.iceberg.compress(page.id, pfn).is_some() {
            let parts = self.parts(page, mapped);
            let parts = &parts[..1 << self.shift];
            self.l1.fill::<S>(page.id.0 >> self.shift, parts);
            self.l2.fill::<S>(page.id.0 >> self.shift, parts);
            self.own.fills += 1;
            // One name has all of them: `entry`.
            return 0;
        }
        self.note_single(size);
        let value = value(translation);
        self.l1.insert::<S>(page.id, size, value);
        self.l2.insert::<S>(page.id, size, value);
        size.order()
    }

    fn lookup_code<S: Simd>(&mut self, page: Page) -> Option<Pfn> {
        let page = page.id;
        if let (_, Some(pfn)) = self.l2.get::<S>(page, false) {
            return Some(pfn);
        }
        let mut sizes = self.other_sizes();
        sizes.find_map(|size| {
            let value = self.l2.level.get::<S>(page, size, 0)?;
            Some(frame(value, page, size))
        })
    }

    fn fill_code<S: Simd>(
        &mut self,
        page: Page,
        translation: Translation,
        mapped: &impl Mapped,
    ) -> u32 {
        let Translation { size, pfn, .. } = translation;
        if size == PageSize::Base4K && self.iceberg.compress(page.id, pfn).is_some() {
            let parts = self.parts(page, mapped);
            self.l2
                .fill::<S>(page.id.0 >> self.shift, &parts[..1 << self.shift]);
            self.own.fills += 1;
            return 0;
        }
        self.note_single(size);
        self.l2.insert::<S>(page.id, size, value(translation));
        size.order()
    }

    fn invalidate(&mut self, first: Page, pages: u32) {
        self.l1.invalidate(first.id, pages);
        self.l2.invalidate(first.id, pages);
    }

    #[inline(always)]
    fn entry(&self, page: PageId) -> u32 {
        page.0 >> self.shift
    }

    #[inline(always)]
    fn host_prefetch(&self, page: PageId) {
        self.l2.level.base.host_prefetch(page.0 >> self.shift);
    }

    fn counters(&self) -> TlbCounters {
        self.counters
    }

    fn own_counters(&self) -> Vec<(&'static str, u64)> {
        let MosaicCounters {
            part_misses,
            fills,
            parts_filled,
            uncompressed,
        } = self.own;
        vec![
            ("part_misses", part_misses),
            ("fills", fills),
            ("parts_filled", parts_filled),
            ("uncompressed", uncompressed),
        ]
    }
}
