//! Caches, DRAM, memory tiers: what one memory reference costs.

mod banks;
mod cache;
pub mod choice;
mod dram;
mod geometry;
mod hinted_sets;
mod lanes;
mod lru_keys;
mod lru_sets;
mod modulo;
mod prefetch;
mod replacement;
pub mod simd;

pub use banks::{BankCounts, BankTimes, Banks, BusyConfig};
pub use cache::{Cache, CacheAccess, CacheConfig, MODIFY, NO_LINE, Outcome};
pub use dram::{Dram, DramConfig, RowsConfig, SIXTEENTHS};
pub use geometry::GeometryError;
pub use hinted_sets::HintedSets;
pub use lanes::host_prefetch;
pub use lru_keys::LruKeys;
pub use lru_sets::LruSets;
pub use modulo::Modulo;
pub use prefetch::{
    IpcpKeys, Load, MAX_PREFETCHES, MOST_ASKED, NextLineKeys, PrefetchConfig, Prefetchers,
    StridesConfig,
};
pub use replacement::{Access, ChirpKeys, DrripKeys, Kind, Replacement, ShipKeys, Signature};
