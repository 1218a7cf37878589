//! Elastic cuckoo page tables: the engine behind `ecpt` and `me_hpt`, which differ in how tables
//! grow and in their walk caches.

mod candidates;
mod config;
mod counters;
mod elastic;
mod growth;
mod header_cache;
mod headers;
mod tables;
#[cfg(test)]
mod tests;
mod walk;
mod way;

pub use config::CwtConfig;
pub use counters::{CacheCounters, CuckooCounters, Moves, WalkKinds};
pub(crate) use elastic::ElasticConfig;
pub(crate) use growth::Growth;
pub use tables::CuckooPageTable;
pub(crate) use tables::{CuckooConfig, check_elastic};
