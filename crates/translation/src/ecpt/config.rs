use crate::{CwtConfig, WalkCacheConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An elastic cuckoo page table. docs/designs/ecpt.md says where the defaults come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EcptConfig {
    /// Ways of each table, 2 to 8, each with its own hash.
    pub ways: u32,
    /// Entries of a way of a new table, a line each; a power of two, at least 64 (one frame).
    /// Fewer where there is no contiguous memory for them.
    pub entries: u32,
    /// Share of a table's entries in use, above 0 and below 1, past which it is resized.
    pub occupancy: f64,
    /// Factor by which a resized way is larger; a power of two, at least 2.
    pub growth: u32,
    /// Entries of a way rehashed for each entry that goes into it while a resize is under way.
    pub rehash_per_insertion: u32,
    /// Entries driven out one by another before a table is resized whatever its occupancy.
    pub max_displacements: u32,
    /// Time of the hash functions, in cycles.
    pub hash_cycles: u32,
    /// Data may be moved to make contiguous memory free.
    pub compaction: bool,
    /// Cuckoo walk tables.
    pub cwt: CwtConfig,
    /// Cuckoo walk caches of each core.
    pub cwc: EcptCwcConfig,
}

/// Cuckoo walk caches by the page size that their headers are about. All are looked up at once;
/// the slowest sets the time. Without entries there is no walk table of that size either.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EcptCwcConfig {
    /// For 4 KiB pages; an entry covers 2 MiB.
    #[serde(rename = "4K")]
    pub base: WalkCacheConfig,
    /// For 2 MiB pages; an entry covers 1 GiB.
    #[serde(rename = "2M")]
    pub large: WalkCacheConfig,
    /// For 1 GiB pages; an entry covers 512 GiB.
    #[serde(rename = "1G")]
    pub huge: WalkCacheConfig,
}

impl Default for EcptConfig {
    fn default() -> Self {
        EcptConfig {
            ways: 3,
            entries: 16384,
            occupancy: 0.6,
            growth: 4,
            rehash_per_insertion: 1,
            max_displacements: 32,
            hash_cycles: 2,
            compaction: true,
            cwt: CwtConfig::default(),
            cwc: EcptCwcConfig::default(),
        }
    }
}

impl Default for EcptCwcConfig {
    fn default() -> Self {
        let cache = |entries| WalkCacheConfig::new(entries, entries, 4);
        EcptCwcConfig {
            base: cache(0),
            large: cache(16),
            huge: cache(2),
        }
    }
}
