//! Page tables, their walkers and walk caches, and TLBs.
//!
//! A page table is one folder under this crate that implements [`PageTable`]; a test calls the
//! conformance suite on it, and one line in the machine's list of designs registers it. What it
//! needs of the operating system's frames it asks of [`Frames`].

mod config;
#[cfg(test)]
mod conformance;
mod dpt;
mod frames;
mod ideal;
mod leaf;
mod page_table;
mod radix;
mod tlb;
mod walk;
mod walk_cache;

pub use config::ConfigError;
pub use dpt::{DmcConfig, DmtConfig, Dpt, DptConfig, DptCounters, Prefer};
pub use frames::{Displaced, FrameUse, Frames};
pub use ideal::Ideal;
pub use page_table::{MapError, Page, PageTable, Translation, Work};
pub use radix::{PwcConfig, Radix, RadixConfig, RadixCounters};
pub use tlb::{ConventionalTlb, PerfectTlb, Tlb, TlbArrayConfig, TlbConfig, TlbCounters, TlbError};
pub use walk::{Walk, WalkRead};
pub use walk_cache::WalkCacheConfig;
