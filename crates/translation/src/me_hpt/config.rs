use crate::{CwtConfig, WalkCacheConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A memory-efficient hashed page table. The default is Table I of the DPT paper; what that
/// leaves open is listed in docs/designs/me_hpt.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeHptConfig {
    /// Ways of each table, 2 to 8, each with its own hash.
    pub ways: u32,
    /// Entries of a way of a new table, a line each; a power of two, at least 64 (one frame).
    pub entries: u32,
    /// Share of a way's entries in use, above 0 and below 1, past which it is resized.
    pub occupancy: f64,
    /// Sizes of chunks in KiB, powers of two from 4 on, ascending.
    pub chunk_kib: Vec<u64>,
    /// Entries of the L2P table, each of which points to a chunk, for a way of a table.
    pub l2p_entries: u32,
    /// Time that looking up the L2P table adds to a walk, in cycles.
    pub l2p_cycles: u32,
    /// Entries of a way rehashed for each entry that goes into it while a resize is under way.
    pub rehash_per_insertion: u32,
    /// Entries driven out one by another before ways are resized whatever their occupancy.
    pub max_displacements: u32,
    /// Time of the hash functions, in cycles.
    pub hash_cycles: u32,
    /// Data may be moved to make contiguous memory free.
    pub compaction: bool,
    /// Cuckoo walk tables: of what ways and entries a new one is. They grow like the tables.
    pub cwt: CwtConfig,
    /// Cuckoo walk caches of each core.
    pub cwc: MeHptCwcConfig,
}

/// Cuckoo walk caches by the page size that their headers are about. All are looked up at once;
/// the slowest sets the time. Without entries there is no walk table of that size either.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeHptCwcConfig {
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

impl Default for MeHptConfig {
    fn default() -> Self {
        MeHptConfig {
            ways: 4,
            entries: 128,
            occupancy: 0.6,
            chunk_kib: vec![8, 1024],
            l2p_entries: 32,
            l2p_cycles: 0,
            rehash_per_insertion: 1,
            max_displacements: 32,
            hash_cycles: 2,
            compaction: true,
            cwt: CwtConfig::default(),
            cwc: MeHptCwcConfig::default(),
        }
    }
}

impl Default for MeHptCwcConfig {
    fn default() -> Self {
        let cache = |entries| WalkCacheConfig::new(entries, 4, 2);
        MeHptCwcConfig {
            base: cache(16),
            large: cache(16),
            huge: cache(0),
        }
    }
}
