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
    /// Pages are in generations, which page walks age, rather than in active and inactive lists
    /// (/sys/kernel/mm/lru_gen/enabled).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lru_gen: bool,
    /// A thread on a processor of its own takes pages, too, when free memory is low.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kswapd: bool,
    /// Memory that is kept free (vm.min_free_kbytes), in KiB. None: what Linux makes of the size of the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_free_kbytes: Option<u32>,
    /// Distance between kswapd's marks, in ten-thousandths of the memory (vm.watermark_scale_factor): 1 to 3000.
    #[serde(skip_serializing_if = "is_ten")]
    pub watermark_scale_factor: u32,
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
            lru_gen: false,
            kswapd: false,
            min_free_kbytes: None,
            watermark_scale_factor: 10,
            swappiness: 60,
        }
    }
}

fn is_ten(factor: &u32) -> bool {
    *factor == 10
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
            (1..=3000).contains(&self.watermark_scale_factor),
            "reclaim.watermark_scale_factor",
            format!("{} is not from 1 to 3000", self.watermark_scale_factor),
        )?;
        require(
            self.max_bytes.is_none_or(|bytes| bytes >> PAGE_SHIFT > 0),
            "reclaim.max_bytes",
            "there is not one page".to_owned(),
        )
    }
}
