//! The operating system's side: frames, address spaces, demand faults, fork.
//!
//! [`Os`] owns the physical memory and the address spaces. The machine calls [`Os::control`] for
//! each control event and [`Os::fault`] for each access without a usable translation; [`Effects`]
//! says what that did, so that the machine can charge for it and invalidate its TLBs. The page
//! table itself is the machine's and comes in as an argument: which one it is makes no difference
//! here.

mod accounting;
mod calls;
mod compaction;
mod config;
mod effects;
mod error;
mod faults;
mod frames;
mod grouping;
mod khugepaged;
mod manager;
mod page_size;
mod pages;
mod placement;
mod reclaim;
mod spaces;
mod statistics;
mod system;

pub use accounting::{Accounting, AccountingStatistics, AccountingWork};
pub use compaction::Defrag;
pub use config::{NodeConfig, OsConfig};
pub use effects::{Effects, Invalidation};
pub use error::{OsConfigError, OsError};
pub use frames::buddy;
pub use frames::frame_table::FrameTable;
pub use grouping::{Grouping, GroupingStatistics};
pub use khugepaged::KhugepagedConfig;
pub use manager::{MANAGERS, ManagerConfig, TierStatistics, TieredConfig};
pub use page_size::{PagePolicy, UnknownPagePolicy};
pub use placement::Placement;
pub use reclaim::ReclaimConfig;
pub use spaces::mapping::Mapping;
pub use spaces::memory_map::MemoryCell;
pub use statistics::{
    BlockStatistics, BySize, CompactionStatistics, FileStatistics, ForkStatistics,
    HashedStatistics, KcompactdStatistics, KhugepagedStatistics, KswapdStatistics, OsStatistics,
    OutsideStatistics, ReclaimStatistics, SegmentStatistics,
};
pub use system::{KernelThread, Os};
