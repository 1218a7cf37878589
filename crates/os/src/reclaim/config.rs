use crate::OsConfigError;
use crate::error::require;
use pagelab_addr::PAGE_SHIFT;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Memory that programs may have, and the swap device behind it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReclaimConfig {
    /// The most that programs may have with their page tables, in bytes (a cgroup's memory.max). None: all there is.
    #[serde(
        deserialize_with = "pagelab_addr::deserialize_optional_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<pagelab_addr::Quantity>")]
    pub max_bytes: Option<u64>,
    /// Size of the swap device in bytes. None: as much as is wanted; 0: there is no swap.
    #[serde(
        deserialize_with = "pagelab_addr::deserialize_optional_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<pagelab_addr::Quantity>")]
    pub swap_bytes: Option<u64>,
    /// Time to read a page from the device or from a file, in microseconds.
    pub read_us: f64,
    /// Time to write one, in microseconds.
    pub write_us: f64,
    /// Pages of 2 MiB of which more than `khugepaged.max_ptes_none` pages hold zeros are split, and zeros given back
    /// (/sys/kernel/mm/transparent_hugepage/shrink_underused).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shrink_underused: bool,
    /// Readiness to swap rather than to drop pages of files (vm.swappiness): 0 to 200.
    pub swappiness: u32,
}

impl Default for ReclaimConfig {
    fn default() -> Self {
        ReclaimConfig {
            max_bytes: None,
            swap_bytes: None,
            read_us: 80.0,
            write_us: 20.0,
            shrink_underused: false,
            swappiness: 60,
        }
    }
}

impl ReclaimConfig {
    pub(crate) fn validate(&self) -> Result<(), OsConfigError> {
        let times = [self.read_us, self.write_us];
        require(
            times.iter().all(|us| (0.0..1e9).contains(us)),
            "reclaim",
            format!("{times:?} us are not times from 0 to 10^9"),
        )?;
        require(
            self.swappiness <= 200,
            "reclaim.swappiness",
            format!("{} is not from 0 to 200", self.swappiness),
        )?;
        require(
            self.max_bytes.is_none_or(|bytes| bytes >> PAGE_SHIFT > 0),
            "reclaim.max_bytes",
            "there is not one page".to_owned(),
        )
    }
}
