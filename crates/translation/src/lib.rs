//! Page tables, their walkers and walk caches, and TLBs.
//!
//! A page table is one folder under this crate that implements [`Organisation`]: where entries lie
//! and how a walk reads them. What is mapped is in the [`PageMap`] beside it. A test calls the
//! conformance suite on it, and one line in the machine's list of designs registers it. What it
//! needs of the operating system's frames it asks of [`Frames`].

mod city;
mod clustered;
mod collisions;
mod config;
#[cfg(test)]
mod conformance;
mod cuckoo;
mod dpt;
mod ecpt;
mod flattened;
mod frames;
mod hashed;
mod iceberg;
mod ideal;
mod me_hpt;
mod nested;
mod organisation;
mod page;
mod page_map;
mod page_table;
mod radix;
mod ranges;
mod replay;
mod segmented;
mod tiers;
mod tlb;
mod walk;
mod walk_cache;

pub use clustered::{Clustered, ClusteredConfig, ClusteredCounters};
pub use collisions::hash_collisions;
pub use config::ConfigError;
pub use cuckoo::{CacheCounters, CuckooCounters, CuckooPageTable, CwtConfig, Moves, WalkKinds};
pub use dpt::{DmcConfig, DmtConfig, Dpt, DptConfig, DptCounters, Prefer};
pub use ecpt::{Ecpt, EcptConfig, EcptCwcConfig};
pub use flattened::{Flattened, FlattenedConfig, FlattenedCounters, FlattenedPwcConfig};
pub use frames::{Displaced, FrameUse, Frames};
pub use hashed::ContiguityCounters;
pub use iceberg::{Cpfn, Iceberg, Yard};
pub use ideal::Ideal;
pub use me_hpt::{MeHpt, MeHptConfig, MeHptCwcConfig};
pub use nested::{Nested, NestedConfig, NestedCounters, host_page};
pub use organisation::{Organisation, Paged};
pub use page::{Page, Translation};
pub use page_map::{PageMap, Run};
pub use page_table::{MapError, PageTable, Work};
pub use radix::{PwcConfig, Radix, RadixConfig, RadixCounters};
pub use ranges::{Range, RangeCounters, Ranged};
pub use replay::{ReplayError, Replayed, replay_ranges};
pub use segmented::{RestSeg, RestSegs, Segmented};
pub use tiers::Tiers;
pub use tlb::{
    ConventionalTlb, Mapped, MosaicConfig, MosaicError, MosaicTlb, PerfectTlb, RangeConfig,
    RangeTlb, Tlb, TlbArrayConfig, TlbConfig, TlbCounters, TlbError,
};
pub use walk::{Walk, WalkRead};
pub use walk_cache::WalkCacheConfig;

/// Frames that a page table here can name: those of the first 8 TiB.
pub const MAX_FRAMES: u32 = page_map::Pte::MAX_FRAMES;
