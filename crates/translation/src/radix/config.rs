use crate::WalkCacheConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A radix page table and its page-walk caches. The default is Table I of the DPT paper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RadixConfig {
    /// 4 (48-bit addresses) or 5 (57-bit addresses).
    pub levels: u32,
    /// Page-walk caches of each core.
    pub pwc: PwcConfig,
}

/// The split page-walk cache: one cache per level, named after the level whose entries it holds.
/// All are looked up at once; the slowest sets the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PwcConfig {
    /// Entries of the root, each covering 512 GiB with 4 levels and 256 TiB with 5.
    pub pgd: WalkCacheConfig,
    /// Entries that cover 512 GiB; used with 5 levels only.
    pub p4d: WalkCacheConfig,
    /// Entries that cover 1 GiB.
    pub pud: WalkCacheConfig,
    /// Entries that cover 2 MiB.
    pub pmd: WalkCacheConfig,
}

impl Default for RadixConfig {
    fn default() -> Self {
        RadixConfig {
            levels: 4,
            pwc: PwcConfig::default(),
        }
    }
}

impl Default for PwcConfig {
    fn default() -> Self {
        let cache = |entries| WalkCacheConfig::new(entries, 4, 2);
        PwcConfig {
            pgd: cache(16),
            // The table describes four levels; the fifth gets what the paper gives its neighbours.
            p4d: cache(16),
            pud: cache(16),
            pmd: cache(32),
        }
    }
}
