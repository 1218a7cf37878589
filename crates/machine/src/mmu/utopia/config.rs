use pagelab_addr::PAGE_BYTES;
use pagelab_os::{OsConfig, PagePolicy};
use pagelab_translation::{RestSeg, RestSegs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of Utopia. Each technique can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UtopiaConfig {
    /// The most that the restrictive segment of 4 KiB pages may have; 0 for none.
    pub small_mib: u32,
    /// The same of 2 MiB pages.
    pub large_mib: u32,
    /// Ways of a set.
    pub ways: u32,
    /// There is a set filter; without, the tags of a set are read even where it is empty.
    pub set_filter: bool,
    /// The cache of set filters, of which each core has its own; 0 for none.
    pub filter_cache_kib: u32,
    /// The same of tag arrays.
    pub tag_cache_kib: u32,
    /// Ways of both caches.
    pub cache_ways: u32,
    /// Cycles of a look-up of either.
    pub cache_cycles: u32,
    /// The page table is walked while the segments are; without, only then when neither has the
    /// page.
    pub parallel: bool,
    /// Places pages in segments when they are first touched.
    pub at_faults: bool,
    /// A page that is first touched pushes another out of a full set.
    pub evict_at_faults: bool,
    /// Moves pages into segments that are costly to walk for.
    pub track: bool,
    /// Walks of the page table from which on a page is costly,
    pub costly_walks: u32,
    /// if as many of their reads as this were served by memory.
    pub costly_reads: u32,
}

impl Default for UtopiaConfig {
    fn default() -> Self {
        UtopiaConfig {
            small_mib: 1024,
            large_mib: 1024,
            ways: 16,
            set_filter: true,
            filter_cache_kib: 32,
            tag_cache_kib: 32,
            cache_ways: 4,
            cache_cycles: 1,
            parallel: true,
            at_faults: true,
            evict_at_faults: false,
            track: true,
            costly_walks: 2,
            costly_reads: 2,
        }
    }
}

impl UtopiaConfig {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if !(1..=RestSeg::MAX_WAYS).contains(&self.ways) {
            return Err("ways are 1 to 32");
        }
        if !self.cache_ways.is_power_of_two() || self.cache_ways > 16 {
            return Err("cache_ways are 1, 2, 4, 8 or 16");
        }
        let whole = |kib: u32| kib == 0 || kib.is_power_of_two() && kib <= 1 << 14;
        if !whole(self.filter_cache_kib) || !whole(self.tag_cache_kib) {
            return Err("filter_cache_kib and tag_cache_kib are 0 or a power of two to 16384");
        }
        if !(1..=255).contains(&self.costly_walks) || self.costly_reads > 255 {
            return Err("costly_walks are 1 to 255, costly_reads 0 to 255");
        }
        Ok(())
    }

    /// The segments of a memory. That of 2 MiB pages is only where there can be such.
    pub(super) fn segments(&self, memory: &OsConfig) -> RestSegs {
        let policy = memory.page_policy;
        let large = policy != PagePolicy::BASE && !policy.is_of_folios();
        let mib = |mib: u32| u64::from(mib) << 20;
        let large = if large { mib(self.large_mib) } else { 0 };
        // A size out of bounds is refused when the memory is made.
        let frames = (memory.memory_bytes / PAGE_BYTES).min(1 << 31) as u32;
        let block = 1 << memory.max_order.min(18);
        RestSegs::new(frames, [mib(self.small_mib), large], self.ways, block)
    }
}
