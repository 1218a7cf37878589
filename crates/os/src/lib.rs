//! The operating system's side: frames, address spaces, demand faults, fork.
//!
//! [`Os`] owns the physical memory and the address spaces. The machine calls [`Os::control`] for
//! each control event and [`Os::fault`] for each access without a usable translation; [`Effects`]
//! says what that did, so that the machine can charge for it and invalidate its TLBs. The page
//! table itself is the machine's and comes in as an argument: which one it is makes no difference
//! here.

mod accounted;
mod accounting;
mod address_space;
mod blocks;
pub mod buddy;
mod collapse;
mod compaction;
mod config;
mod control;
mod eager;
mod effects;
mod error;
mod fault;
mod folio_frames;
mod folios;
mod fork;
mod frame_lists;
mod frame_table;
mod free_blocks;
mod free_map;
mod hashed;
mod khugepaged;
mod manager;
mod mapper;
mod mapping;
mod memory_file;
mod memory_map;
mod migrate;
mod page_cache;
mod page_policy;
mod placed_frames;
mod placing;
mod preallocate;
mod random;
mod reclaim;
mod remap;
mod reservations;
mod rmap;
mod segments;
mod shared_memory;
mod split;
mod statistics;
mod system;
mod table_frames;
mod tag;
mod touched;
mod vma;

pub use accounting::{Accounting, AccountingStatistics, AccountingWork};
pub use compaction::Defrag;
pub use config::{NodeConfig, OsConfig, Placement};
pub use effects::{Effects, Invalidation};
pub use error::{OsConfigError, OsError};
pub use frame_table::FrameTable;
pub use khugepaged::KhugepagedConfig;
pub use manager::{MANAGERS, ManagerConfig, TierStatistics, TieredConfig};
pub use mapping::Mapping;
pub use memory_map::MemoryCell;
pub use page_policy::{PagePolicy, UnknownPagePolicy};
pub use reclaim::ReclaimConfig;
pub use statistics::{
    BlockStatistics, BySize, CompactionStatistics, FileStatistics, HashedStatistics,
    KhugepagedStatistics, OsStatistics, OutsideStatistics, ReclaimStatistics, SegmentStatistics,
};
pub use system::Os;
