use crate::WalkCacheConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A flattened page table and its page-walk caches. docs/designs/flattened.md says where the
/// defaults come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlattenedConfig {
    /// PGD and PUD are one node of 2 MiB where there is memory for it.
    pub upper: bool,
    /// PMD and PTE are one such node, too.
    pub lower: bool,
    /// Page-walk caches of each core.
    pub pwc: FlattenedPwcConfig,
}

/// Page-walk caches, named after the level whose entries they hold. All are looked up at once;
/// the slowest sets the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlattenedPwcConfig {
    /// Entries that cover 512 GiB, of roots that are not flattened.
    pub pgd: WalkCacheConfig,
    /// Entries that cover 1 GiB, of flattened nodes and others.
    pub pud: WalkCacheConfig,
    /// Entries that cover 2 MiB, of nodes that are not flattened.
    pub pmd: WalkCacheConfig,
}

impl Default for FlattenedConfig {
    fn default() -> Self {
        FlattenedConfig {
            upper: true,
            lower: true,
            pwc: FlattenedPwcConfig::default(),
        }
    }
}

impl Default for FlattenedPwcConfig {
    fn default() -> Self {
        let cache = |entries| WalkCacheConfig::new(entries, 4, 2);
        FlattenedPwcConfig {
            pgd: cache(16),
            pud: cache(16),
            pmd: cache(32),
        }
    }
}
