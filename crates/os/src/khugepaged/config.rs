use crate::OsConfigError;
use crate::error::require;
use pagelab_addr::PageSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of khugepaged, by their names in /sys/kernel/mm/transparent_hugepage/khugepaged/.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KhugepagedConfig {
    /// Pages that it looks at before it sleeps.
    pub pages_to_scan: u32,
    /// Its sleep, in milliseconds.
    pub scan_sleep_ms: f64,
    /// Its sleep where no block of 2 MiB was free, in milliseconds.
    pub alloc_sleep_ms: f64,
    /// Pages of a region that may be empty, or of zeros that nobody has written: 0 to 511.
    pub max_ptes_none: u32,
    /// Pages of a region that other address spaces may have, too: 0 to 511.
    pub max_ptes_shared: u32,
    /// Folios smaller than 2 MiB are made, too, of the sizes that `page_policy` has (Linux 7.2): from regions all of
    /// whose pages are there or, with `max_ptes_none` of 511, any.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mthp: bool,
}

impl Default for KhugepagedConfig {
    fn default() -> Self {
        KhugepagedConfig {
            pages_to_scan: 4096,
            scan_sleep_ms: 10_000.0,
            alloc_sleep_ms: 60_000.0,
            max_ptes_none: 511,
            max_ptes_shared: 256,
            mthp: false,
        }
    }
}

impl KhugepagedConfig {
    pub(crate) fn validate(&self) -> Result<(), OsConfigError> {
        let sleeps = [self.scan_sleep_ms, self.alloc_sleep_ms];
        let key = "khugepaged";
        require(
            sleeps.iter().all(|ms| ms.is_finite() && *ms > 0.0),
            key,
            format!("sleeps of {sleeps:?} ms are not above 0"),
        )?;
        require(
            self.max_ptes_none.max(self.max_ptes_shared) < PageSize::Large2M.base_pages()
                && self.pages_to_scan > 0,
            key,
            "max_ptes_none and max_ptes_shared are 0 to 511, pages_to_scan is above 0".to_owned(),
        )
    }
}
