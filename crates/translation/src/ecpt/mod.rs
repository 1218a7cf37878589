//! Elastic cuckoo page tables (Skarlatos, Kokolis, Xu, Torrellas, ASPLOS 2020). See
//! docs/designs/ecpt.md; the engine is in `cuckoo/`.

mod config;
#[cfg(test)]
mod tests;

pub use config::{EcptConfig, EcptCwcConfig};

use crate::ConfigError;
use crate::cuckoo::{CuckooConfig, CuckooPageTable, ElasticConfig, Growth, check_elastic};

/// An elastic cuckoo page table.
pub type Ecpt = CuckooPageTable<EcptConfig>;

impl Ecpt {
    /// One line about it.
    pub const DESCRIPTION: &str =
        "elastic cuckoo page tables: hashed tables of several ways, read at once";

    /// An empty elastic cuckoo page table for a machine of `cores` cores.
    ///
    /// # Errors
    /// When a value of the configuration is impossible.
    pub fn new(config: &EcptConfig, cores: usize) -> Result<Self, ConfigError> {
        if config.growth < 2 || !config.growth.is_power_of_two() {
            return Err(ConfigError {
                key: "ecpt.growth",
                reason: format!("{}; must be a power of two, at least 2", config.growth),
            });
        }
        let table = |ways: u32, entries: u32| ElasticConfig {
            ways: ways as usize,
            entries: entries as usize,
            occupancy: config.occupancy,
            max_displacements: config.max_displacements as usize,
            rehash_per_insertion: config.rehash_per_insertion,
            growth: Growth::Together {
                factor: config.growth as usize,
            },
        };
        let tables = table(config.ways, config.entries);
        let walk_table = table(config.cwt.ways, config.cwt.entries);
        check_elastic(&tables, ["ecpt.ways", "ecpt.entries", "ecpt.occupancy"])?;
        check_elastic(
            &walk_table,
            ["ecpt.cwt.ways", "ecpt.cwt.entries", "ecpt.occupancy"],
        )?;
        let walk_caches = [
            (config.cwc.base, "ecpt.cwc.4K"),
            (config.cwc.large, "ecpt.cwc.2M"),
            (config.cwc.huge, "ecpt.cwc.1G"),
        ];
        let config = CuckooConfig {
            tables,
            walk_tables: walk_caches.map(|(c, _)| (c.entries > 0).then(|| walk_table.clone())),
            walk_caches,
            hash_cycles: config.hash_cycles,
            compaction: config.compaction,
        };
        CuckooPageTable::with(config, cores)
    }
}
