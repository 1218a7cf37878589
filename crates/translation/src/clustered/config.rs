use crate::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A hashed page table of clusters with open addressing. docs/designs/clustered.md says where the
/// defaults come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClusteredConfig {
    /// Time of the hash function, in cycles.
    pub hash_cycles: u32,
    /// Lines of a new table; a power of two, at least 64 (one frame). Fewer where there is no
    /// contiguous memory for them.
    pub entries: u32,
    /// Share of its lines in use, above 0 and below 1, past which a table is rehashed into twice
    /// the memory.
    pub occupancy: f64,
    /// Data may be moved to make contiguous memory free.
    pub compaction: bool,
}

impl Default for ClusteredConfig {
    fn default() -> Self {
        ClusteredConfig {
            hash_cycles: 2,
            entries: 16384,
            occupancy: 0.5,
            compaction: true,
        }
    }
}

impl ClusteredConfig {
    /// Refuses what no machine could be.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.entries < 64 || !self.entries.is_power_of_two() {
            return Err(ConfigError {
                key: "clustered.entries",
                reason: format!("{}; must be a power of two, at least 64", self.entries),
            });
        }
        if !(self.occupancy > 0.0 && self.occupancy < 1.0) {
            return Err(ConfigError {
                key: "clustered.occupancy",
                reason: format!("{} is not between 0 and 1", self.occupancy),
            });
        }
        Ok(())
    }
}
