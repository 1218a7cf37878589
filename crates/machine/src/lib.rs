//! Builds a machine from a configuration, drives events through it, keeps the statistics.
//!
//! The hot path works on chunks of accesses in three passes: [`machine`] (TLB, walks, faults), [`caches`],
//! [`timing`] (the core's clock). docs/developers/access.md says why, docs/developers/map.md what each folder has.

mod caches;
mod config;
mod count;
mod design;
mod error;
mod fetch;
mod machine;
mod memory;
mod mmu;
mod run;
mod timing;

pub use caches::coherence::CoherenceCounts;
pub use caches::served::Served;
pub use config::designed::DesignedMachine;
pub use config::{
    CachesConfig, CoherenceConfig, ConfigError, CostConfig, FilledPages, MachineConfig,
    OthersConfig, PRESETS, WalksEnter,
};
pub use count::allocations::AtSite;
pub use count::by_code::ByCode;
pub use count::heat_map::{HeatMapResult, HeatRow};
pub use count::histogram::Histogram;
pub use count::result::{
    BankResult, CacheResult, Causes, CoreResult, Cycles, DramResult, FetchResult, NodeResult,
    RunResult, SCHEMA, Sample, ServedBy, TlbResult, WalkResult, WindowResult,
};
pub use count::tally::Tally;
pub use design::Design;
pub use error::{BuildError, RunError, SimulateError};
pub use fetch::{FetchCacheConfig, FetchConfig};
pub use machine::Machine;
pub use machine::counts::{RunCounts, WalkCacheCounts};
pub use mmu::{CachePort, Conventional, Found, Hit, Mmu, Port, Request, TlbPrefetchConfig, Walks};
pub use pagelab_memory::PrefetchConfig;
pub use pagelab_os::{MANAGERS, Mapping};
pub use run::progress::Progress;
pub use run::simulate::{simulate, simulate_programs};
