//! Caches, DRAM, memory tiers: what one memory reference costs.

mod lru_sets;

pub use lru_sets::LruSets;
