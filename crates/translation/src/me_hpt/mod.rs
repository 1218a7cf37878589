//! Memory-efficient hashed page tables (Stojkovic, Mantri, Skarlatos, Xu, Torrellas, HPCA 2023),
//! as the DPT paper sets them. See docs/designs/me_hpt.md; the engine is in `cuckoo/`.

mod config;
#[cfg(test)]
mod tests;

pub use config::{MeHptConfig, MeHptCwcConfig};

use crate::ConfigError;
use crate::cuckoo::{CuckooConfig, CuckooPageTable, ElasticConfig, Growth, check_elastic};

/// A memory-efficient hashed page table.
pub type MeHpt = CuckooPageTable<MeHptConfig>;

impl MeHpt {
    /// One line about it.
    pub const DESCRIPTION: &str = "memory-efficient hashed page tables: the same in small chunks";

    /// An empty memory-efficient hashed page table for a machine of `cores` cores.
    ///
    /// # Errors
    /// When a value of the configuration is impossible.
    pub fn new(config: &MeHptConfig, cores: usize) -> Result<Self, ConfigError> {
        let refuse = |key, reason: String| Err(ConfigError { key, reason });
        let sizes = &config.chunk_kib;
        if sizes.is_empty()
            || !sizes.is_sorted()
            || sizes.iter().any(|kib| *kib < 4 || !kib.is_power_of_two())
        {
            let reason = format!("{sizes:?}; must be ascending powers of two, at least 4");
            return refuse("me_hpt.chunk_kib", reason);
        }
        let table = |ways: u32, entries: u32| ElasticConfig {
            ways: ways as usize,
            entries: entries as usize,
            occupancy: config.occupancy,
            max_displacements: config.max_displacements as usize,
            rehash_per_insertion: config.rehash_per_insertion,
            growth: Growth::PerWay {
                chunk_bytes: sizes.iter().map(|kib| kib << 10).collect(),
                max_chunks: config.l2p_entries as usize,
            },
        };
        let tables = table(config.ways, config.entries);
        let walk_table = table(config.cwt.ways, config.cwt.entries);
        let keys = ["me_hpt.ways", "me_hpt.entries", "me_hpt.occupancy"];
        check_elastic(&tables, keys)?;
        let keys = ["me_hpt.cwt.ways", "me_hpt.cwt.entries", "me_hpt.occupancy"];
        check_elastic(&walk_table, keys)?;
        let first_chunks =
            (config.entries.max(config.cwt.entries) as u64 * 64).div_ceil(sizes[0] << 10);
        if first_chunks > u64::from(config.l2p_entries) {
            let reason = format!(
                "{}; a new way has {first_chunks} chunks",
                config.l2p_entries
            );
            return refuse("me_hpt.l2p_entries", reason);
        }
        let walk_caches = [
            (config.cwc.base, "me_hpt.cwc.4K"),
            (config.cwc.large, "me_hpt.cwc.2M"),
            (config.cwc.huge, "me_hpt.cwc.1G"),
        ];
        let config = CuckooConfig {
            tables,
            walk_tables: walk_caches.map(|(c, _)| (c.entries > 0).then(|| walk_table.clone())),
            walk_caches,
            hash_cycles: config.hash_cycles.saturating_add(config.l2p_cycles),
            compaction: config.compaction,
        };
        CuckooPageTable::with(config, cores)
    }
}
