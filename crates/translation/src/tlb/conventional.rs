use super::array::{READ_ONLY, TlbArrayConfig, TlbError};
use super::groups::Run;
use super::level::{LARGER, Level, frame, page_of, value};
use super::{Mapped, Tlb, TlbCounters};
use crate::{Page, Translation};
use pagelab_addr::{PageId, PageSize, Pfn};
use pagelab_memory::Access;
use pagelab_memory::simd::Simd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Geometry of a two-level TLB. A page size without an array of its own shares that of the
/// next smaller size: `l1_2m` absent means that 2 MiB pages live among the 4 KiB pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbConfig {
    /// First level, 4 KiB pages. Its latency hides behind the first-level cache's, which is
    /// indexed by bits that translation does not change.
    pub l1_4k: TlbArrayConfig,
    /// First level, 2 MiB pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1_2m: Option<TlbArrayConfig>,
    /// First level, 1 GiB pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1_1g: Option<TlbArrayConfig>,
    /// Second level, 4 KiB pages.
    pub l2_4k: TlbArrayConfig,
    /// Second level, 2 MiB pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_2m: Option<TlbArrayConfig>,
    /// Second level, 1 GiB pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_1g: Option<TlbArrayConfig>,
    /// Latency of the second level in cycles.
    pub l2_cycles: u32,
    /// Entries say of which address space they are. Without, a core drops all translations that it has cached, those
    /// of walks, too, when it goes on with another process: as x86 without PCID.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub asids: bool,
}

fn yes() -> bool {
    true
}

/// A two-level TLB as processors have it: an array per page size (or shared), exact LRU by default; a
/// second-level hit enters the first level, a walk enters both.
///
/// An entry for 4 KiB pages may cover several, as a level's `coalesce` says: what is contiguous in
/// both memories is found when a walk ends, among the entries beside the one that it read.
#[derive(Clone, Debug)]
pub struct ConventionalTlb {
    l1: Level,
    l2: Level,
    /// Anything but entries of one 4 KiB page was ever entered: until then nothing else need be
    /// looked for.
    others_seen: bool,
    /// log2 of the pages that an entry of either level may cover.
    coalesce: u32,
    counters: TlbCounters,
}

impl ConventionalTlb {
    /// One line about it.
    pub const DESCRIPTION: &str = "a two-level TLB as processors have it";

    /// An empty TLB.
    ///
    /// # Errors
    /// [`TlbError`] when an array is not a whole number of sets.
    pub fn new(config: &TlbConfig) -> Result<Self, TlbError> {
        let l1 = Level::new(config.l1_4k, config.l1_2m, config.l1_1g)?;
        let l2 = Level::new(config.l2_4k, config.l2_2m, config.l2_1g)?;
        Ok(ConventionalTlb {
            coalesce: l1.groups.shift().max(l2.groups.shift()),
            l1,
            l2,
            others_seen: false,
            counters: TlbCounters::default(),
        })
    }
}

impl ConventionalTlb {
    /// Has policies that leave something to chance start from a seed.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.l1.seed(seed);
        self.l2.seed(seed.wrapping_add(1 << 32));
        self
    }

    /// Enters a page into the first level, as one that the second has.
    #[inline(always)]
    pub(super) fn fill_first<S: Simd>(&mut self, page: PageId, translation: Translation) {
        self.others_seen |= translation.size != PageSize::Base4K;
        self.l1
            .insert::<S>(page, translation.size, value(translation));
    }

    /// Enters what a walk or a cache has found; returns the page, one of its base pages, and the
    /// size of the entry that left the second level for it.
    ///
    /// Only for TLBs whose entries cover a page each.
    #[inline(always)]
    pub fn fill_page<S: Simd>(
        &mut self,
        page: PageId,
        translation: Translation,
    ) -> Option<(PageId, PageSize)> {
        self.fill_first::<S>(page, translation);
        let Translation { size, .. } = translation;
        let evicted = self.l2.insert::<S>(page, size, value(translation));
        evicted.map(|(key, _)| page_of(key))
    }

    /// Looks a page up in the second level; what it has enters the first one, if that is to be.
    #[inline(always)]
    fn get_second<S: Simd, const TO_FIRST: bool>(
        &mut self,
        page: PageId,
        refused: u32,
    ) -> Option<Pfn> {
        if let Some(value) = self.l2.get::<S>(page, PageSize::Base4K, refused) {
            if TO_FIRST {
                self.l1.insert::<S>(page, PageSize::Base4K, value);
            }
            return Some(frame(value, page, PageSize::Base4K));
        }
        if self.others_seen {
            if self.l2.groups.any()
                && let Some(run) = self.l2.get_run::<S>(page, refused)
            {
                if TO_FIRST {
                    self.l1.insert_run::<S>(page, run);
                }
                return Some(frame(run.of(page), page, PageSize::Base4K));
            }
            for size in LARGER {
                if let Some(value) = self.l2.get::<S>(page, size, refused) {
                    if TO_FIRST {
                        self.l1.insert::<S>(page, size, value);
                    }
                    return Some(frame(value, page, size));
                }
            }
        }
        None
    }

    /// Enters a 4 KiB page and those around it that an entry can cover; returns log2 of how many
    /// pages that may be.
    #[inline(never)]
    fn fill_run<S: Simd>(
        &mut self,
        page: Page,
        translation: Translation,
        mapped: &impl Mapped,
    ) -> u32 {
        let run = Run::around(page, translation, self.coalesce, mapped);
        self.l1.insert_run::<S>(page.id, run);
        self.l2.insert_run::<S>(page.id, run);
        if run.pages() == 1 {
            return 0;
        }
        self.others_seen = true;
        self.coalesce
    }
}

impl Tlb for ConventionalTlb {
    #[inline(always)]
    fn describe(&mut self, access: Access) {
        self.l2.describe(access);
    }

    #[inline(always)]
    fn lookup_first<S: Simd>(&mut self, page: PageId, store: bool) -> Option<Pfn> {
        let refused = if store { READ_ONLY } else { 0 };
        self.counters.lookups += 1;
        if let Some(value) = self.l1.get::<S>(page, PageSize::Base4K, refused) {
            return Some(frame(value, page, PageSize::Base4K));
        }
        if self.others_seen {
            if self.l1.groups.any()
                && let Some(run) = self.l1.get_run::<S>(page, refused)
            {
                return Some(frame(run.of(page), page, PageSize::Base4K));
            }
            for size in LARGER {
                if let Some(value) = self.l1.get::<S>(page, size, refused) {
                    return Some(frame(value, page, size));
                }
            }
        }
        self.counters.l1_misses += 1;
        None
    }

    #[inline(always)]
    fn lookup_second<S: Simd>(&mut self, page: Page, store: bool) -> Option<Pfn> {
        let refused = if store { READ_ONLY } else { 0 };
        let found = self.get_second::<S, true>(page.id, refused);
        self.counters.l2_misses += u64::from(found.is_none());
        found
    }

    #[inline(always)]
    fn fill<S: Simd>(&mut self, page: Page, translation: Translation, mapped: &impl Mapped) -> u32 {
        let size = translation.size;
        if self.coalesce != 0 && size == PageSize::Base4K {
            return self.fill_run::<S>(page, translation, mapped);
        }
        self.others_seen |= size != PageSize::Base4K;
        let value = value(translation);
        self.l1.insert::<S>(page.id, size, value);
        self.l2.insert::<S>(page.id, size, value);
        size.order()
    }

    fn fill_first_touched<S: Simd>(
        &mut self,
        page: Page,
        translation: Translation,
        _: &impl Mapped,
    ) -> u32 {
        self.fill_page::<S>(page.id, translation);
        translation.size.order()
    }

    fn lookup_code<S: Simd>(&mut self, page: Page) -> Option<Pfn> {
        self.get_second::<S, false>(page.id, 0)
    }

    fn fill_code<S: Simd>(
        &mut self,
        page: Page,
        translation: Translation,
        mapped: &impl Mapped,
    ) -> u32 {
        let size = translation.size;
        if self.coalesce != 0 && size == PageSize::Base4K {
            let run = Run::around(page, translation, self.coalesce, mapped);
            self.l2.insert_run::<S>(page.id, run);
            self.others_seen |= run.pages() > 1;
            return if run.pages() > 1 { self.coalesce } else { 0 };
        }
        self.others_seen |= size != PageSize::Base4K;
        self.l2.insert::<S>(page.id, size, value(translation));
        size.order()
    }

    fn invalidate(&mut self, first: Page, pages: u32) {
        self.l1.invalidate(first.id, pages);
        self.l2.invalidate(first.id, pages);
    }

    #[inline(always)]
    fn host_prefetch(&self, page: PageId) {
        self.l2.base.host_prefetch(page.0);
    }

    fn counters(&self) -> TlbCounters {
        self.counters
    }
}
