//! Counts of the front of the machine.

use crate::count::sums::sums;
use schemars::JsonSchema;

/// Counts of the front of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineCounts {
    pub(crate) accesses: u64,
    pub(crate) skipped_instructions: u64,
    pub(crate) run: RunCounts,
    pub(crate) walk_cache: WalkCacheCounts,
}

sums! {
    /// Counts that a result has as they are, by these names.
    #[derive(JsonSchema)]
    pub struct RunCounts {
        /// Stores among these accesses.
        pub stores: u64,
        /// Instructions among these that ask for a line to be fetched, and neither load nor store.
        pub prefetches: u64,
        /// Mispredicted branches, where the source says.
        pub mispredicted_branches: u64,
    }
}

sums! {
    /// Counts of the walk caches.
    #[derive(JsonSchema)]
    pub struct WalkCacheCounts {
        /// Walk-cache look-ups.
        #[serde(rename = "cache_lookups")]
        pub lookups: u64,
        /// Walk-cache hits.
        #[serde(rename = "cache_hits")]
        pub hits: u64,
    }
}
