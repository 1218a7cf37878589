//! TLB designs. Each is one file that implements [`Tlb`].

mod conventional;
mod perfect;

pub use conventional::{ConventionalTlb, TlbArrayConfig, TlbConfig, TlbError};
pub use perfect::PerfectTlb;

use crate::Translation;
use pagelab_addr::{PageId, Pfn};
use pagelab_memory::simd::Simd;
use serde::Serialize;

/// What a TLB look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlbLookup {
    /// The first level holds the page; its 4 KiB frame.
    L1(Pfn),
    /// The second level holds the page; its 4 KiB frame. It is in the first level now.
    L2(Pfn),
    /// Nothing usable: a walk is needed. A store to a page held as not writable is a miss.
    Miss,
}

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

    /// Looks a page up for a load or a store.
    fn lookup<S: Simd>(&mut self, page: PageId, store: bool) -> TlbLookup;

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
