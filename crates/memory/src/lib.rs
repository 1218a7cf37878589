//! Caches, DRAM, memory tiers: what one memory reference costs.

mod banks;
mod cache;
mod demand;
mod dram;
mod geometry;
mod hinted_sets;
mod lanes;
mod lru_keys;
mod lru_sets;
mod modulo;
mod prefetcher;
mod replacement;
pub mod simd;
mod strides;

pub use banks::{BankCounts, BankTimes, Banks, BusyConfig};
pub use cache::{Cache, CacheAccess, CacheConfig, MODIFY, NO_LINE, Outcome};
pub use demand::MOST_ASKED;
pub use dram::{Dram, DramConfig, RowsConfig, SIXTEENTHS};
pub use geometry::GeometryError;
pub use hinted_sets::HintedSets;
pub use lanes::host_prefetch;
pub use lru_keys::LruKeys;
pub use lru_sets::LruSets;
pub use modulo::Modulo;
pub use prefetcher::{MAX_PREFETCHES, PrefetchConfig, Prefetcher};
pub use replacement::Replacement;
pub use strides::{Strides, StridesConfig};
