//! TLB designs. Each is one file that implements [`Tlb`].

mod conventional;
mod perfect;

pub use conventional::{ConventionalTlb, TlbArrayConfig, TlbConfig, TlbError};
pub use perfect::PerfectTlb;

use crate::Translation;
use pagelab_addr::{PageId, Pfn};
use pagelab_memory::simd::Simd;
use serde::Serialize;

/// How often each level was asked and had the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TlbCounters {
    /// Translations asked for.
    pub lookups: u64,
    /// Not in the first level.
    pub l1_misses: u64,
    /// Not in the second level either: walks.
    pub l2_misses: u64,
}

/// One core's data TLB, all levels.
pub trait Tlb {
    /// Whether every translation is free: the machine then asks neither this TLB nor a walker.
    const FREE: bool = false;

    /// Looks a page up in the first level, for a load or a store: its 4 KiB frame.
    fn lookup_first<S: Simd>(&mut self, page: PageId, store: bool) -> Option<Pfn>;

    /// Looks a page up in the second level, after the first did not have it: its 4 KiB frame,
    /// which the first level then holds too. `None` calls for a walk.
    ///
    /// A store to a page held as not writable is a miss in either level.
    fn lookup_second<S: Simd>(&mut self, page: PageId, store: bool) -> Option<Pfn>;

    /// Enters what a walk found.
    fn fill<S: Simd>(&mut self, page: PageId, translation: Translation);

    /// Forgets all translations of `pages` base pages from `first` on, whatever their size. The
    /// range lies within one aligned 1 GiB of virtual memory.
    fn invalidate(&mut self, first: PageId, pages: u32);

    /// Hints to the host that a page will soon be looked up.
    fn prefetch(&self, page: PageId);

    /// Counters since construction.
    fn counters(&self) -> TlbCounters;
}
