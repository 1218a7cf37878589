//! Builds a machine from a configuration, drives events through it, keeps the statistics.
//!
//! The hot path works on chunks of accesses in three passes: [`machine`] (TLB, walks, faults),
//! [`hierarchy`] (caches), [`timing`] (the core's clock). docs/developers/access.md says why.

mod arithmetic;
mod beside;
mod buffer;
mod by_code;
mod by_program;
mod check;
mod chunk;
mod coherence;
mod compiled;
mod config;
mod costs;
mod design_name;
mod designed;
mod designs;
mod drive;
mod error;
mod fetch;
mod gib_cache;
mod heat_map;
mod hierarchy;
mod histogram;
mod load;
mod look_ahead;
mod machine;
mod main_memory;
mod memory;
mod mmu;
mod other_pages;
mod others;
mod own_counters;
mod payer;
mod pieces;
mod programs;
mod progress;
mod registered;
mod requests;
mod result;
mod rows;
mod sampled;
mod served;
mod sharing;
mod simulate;
mod spread;
mod statistics;
mod stopped;
mod timeline;
mod timing;
mod totals;
mod turns;
mod unknown;
mod virtual_machine;
mod windows;

pub use by_code::{ByCode, Tally};
pub use config::{
    CachesConfig, CoherenceConfig, ConfigError, CostConfig, FilledPages, MachineConfig,
    OthersConfig, PRESETS, WalksEnter,
};
pub use designed::DesignedMachine;
pub use designs::Design;
pub use error::{BuildError, RunError, SimulateError};
pub use fetch::{FetchCacheConfig, FetchConfig};
pub use heat_map::{HeatMapResult, HeatRow};
pub use histogram::Histogram;
pub use machine::Machine;
pub use mmu::{Conventional, Found, Hit, Looks, Mmu, Port, Request, TlbPrefetchConfig, Walks};
pub use pagelab_memory::PrefetchConfig;
pub use pagelab_os::{MANAGERS, Mapping};
pub use pieces::{
    BadSurvey, PieceApart, PiecesApart, SurveyFile, check_in_pieces, look_at_interval,
    simulate_piece,
};
pub use progress::Progress;
pub use result::{
    BankResult, CacheResult, CoherenceResult, CoreResult, Cycles, DramResult, FetchResult,
    NodeResult, PiecesBound, PiecesResult, RunResult, SCHEMA, Sample, ServedBy, TlbResult,
    WalkResult, WindowResult,
};
pub use served::Served;
pub use simulate::{simulate, simulate_in_pieces, simulate_in_pieces_keeping, simulate_programs};
