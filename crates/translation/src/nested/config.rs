use crate::WalkCacheConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A virtual machine on a host; both have the machine's page-table design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NestedConfig {
    /// The nested TLB of each core: host translations of the guest's page-table frames.
    pub tlb: WalkCacheConfig,
    /// Physical memory of the host in bytes, 0 for twice the guest's.
    #[serde(deserialize_with = "pagelab_addr::deserialize_bytes")]
    #[schemars(with = "pagelab_addr::Quantity")]
    pub host_memory_bytes: u64,
    /// The host backs the guest's memory with 2 MiB pages as far as it can.
    pub host_thp: bool,
}

impl Default for NestedConfig {
    fn default() -> Self {
        NestedConfig {
            // Bhargava et al., ASPLOS 2008, section 5: 16 entries, fully associative. The time is
            // open there; that of the page-walk caches.
            tlb: WalkCacheConfig::new(16, 16, 2),
            host_memory_bytes: 0,
            host_thp: false,
        }
    }
}
