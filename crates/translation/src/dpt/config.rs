use super::metadata::Metadata;
use crate::{ConfigError, WalkCacheConfig};
use pagelab_addr::PageSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A distributed page table. The default is Table I of the paper; what the paper leaves open is
/// listed in docs/notebook/2026-11-29-open-in-papers.md.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DptConfig {
    /// Process id of the first address space; the next ones follow. The id seeds the hash.
    pub first_pid: u32,
    /// Time of the hash function, in cycles.
    pub hash_cycles: u32,
    /// Strided open addressing: steps tried per stride, at most 15; 0 turns it off.
    pub max_soa_step: u32,
    /// Collision-aware virtual addresses: other ranges tried per allocation; 0 turns it off.
    pub max_cva_count: u32,
    /// The largest allocation, in MiB, that gets its pages of PTEs when it is made, and possibly
    /// another address.
    pub max_cva_mib: u64,
    /// Collided page displacement.
    pub cpd: bool,
    /// Fragmentation-aware allocation.
    pub fap: bool,
    /// Choice when FAP finds no free frame in a fragmented block.
    pub prefer: Prefer,
    /// PTE pooling: MiB of each process's heap that get their pages of PTEs at its start; 0 turns
    /// it off.
    pub ptp_mib: u64,
    /// Entries of each process's metadata tables; powers of two, at least 64 (one frame).
    pub dmt: DmtConfig,
    /// Metadata caches of each core.
    pub dmc: DmcConfig,
}

/// The last resort of the allocation flow (figure 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Prefer {
    /// Break up an unfragmented free block rather than move data.
    Performance,
    /// Move data rather than break up an unfragmented free block.
    Fragmentation,
}

/// Initial entries of a process's metadata table for each page size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DmtConfig {
    /// For 4 KiB pages; an entry covers 128 MiB.
    #[serde(rename = "4K")]
    pub base: u32,
    /// For 2 MiB pages; an entry covers 64 GiB.
    #[serde(rename = "2M")]
    pub large: u32,
    /// For 1 GiB pages; an entry covers 32 TiB.
    #[serde(rename = "1G")]
    pub huge: u32,
}

/// Metadata cache for each page size. All are looked up at once; the slowest sets the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DmcConfig {
    /// For 4 KiB pages.
    #[serde(rename = "4K")]
    pub base: WalkCacheConfig,
    /// For 2 MiB pages.
    #[serde(rename = "2M")]
    pub large: WalkCacheConfig,
    /// For 1 GiB pages.
    #[serde(rename = "1G")]
    pub huge: WalkCacheConfig,
}

impl Default for DptConfig {
    fn default() -> Self {
        DptConfig {
            first_pid: 1,
            hash_cycles: 2,
            max_soa_step: 4,
            max_cva_count: 4,
            max_cva_mib: 128,
            cpd: true,
            fap: true,
            prefer: Prefer::Performance,
            ptp_mib: 0,
            dmt: DmtConfig::default(),
            dmc: DmcConfig::default(),
        }
    }
}

impl Default for DmtConfig {
    fn default() -> Self {
        DmtConfig {
            base: 8192,
            large: 4096,
            huge: 64,
        }
    }
}

impl Default for DmcConfig {
    fn default() -> Self {
        let cache = |entries| WalkCacheConfig::new(entries, 4, 2);
        DmcConfig {
            base: cache(32),
            large: cache(16),
            huge: cache(16),
        }
    }
}

impl DmtConfig {
    pub(super) fn entries(&self, size: PageSize) -> u32 {
        match size {
            PageSize::Base4K => self.base,
            PageSize::Large2M => self.large,
            PageSize::Huge1G => self.huge,
        }
    }
}

impl DptConfig {
    /// Far more than the paper's 4: each search that fails makes all of them.
    const MOST_CVA: u32 = 1 << 16;

    /// Refuses what no machine could be.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let refuse = |key, reason| Err(ConfigError { key, reason });
        if self.max_soa_step > Metadata::MAX_STEP {
            let reason = format!(
                "{} does not fit the metadata's four bits of step",
                self.max_soa_step
            );
            return refuse("max_soa_step", reason);
        }
        if self.max_cva_count > Self::MOST_CVA {
            let reason = format!(
                "{} ranges are more than {}",
                self.max_cva_count,
                Self::MOST_CVA
            );
            return refuse("max_cva_count", reason);
        }
        if self.ptp_mib > super::layout::POOL_LIMIT_MIB {
            let reason = format!(
                "{} MiB is more than the {} MiB that can be pooled",
                self.ptp_mib,
                super::layout::POOL_LIMIT_MIB
            );
            return refuse("ptp_mib", reason);
        }
        for (key, entries) in [
            ("dmt.4K", self.dmt.base),
            ("dmt.2M", self.dmt.large),
            ("dmt.1G", self.dmt.huge),
        ] {
            if entries < 64 || !entries.is_power_of_two() {
                let reason = format!("{entries} entries; must be a power of two, at least 64");
                return refuse(key, reason);
            }
        }
        Ok(())
    }
}
