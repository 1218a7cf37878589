//! TLB designs. Each is one file that implements [`Tlb`].

mod array;
mod conventional;
mod groups;
mod level;
mod mosaic;
mod perfect;
mod range;

pub use array::{TlbArrayConfig, TlbError};
pub use conventional::{ConventionalTlb, TlbConfig};
pub use mosaic::{MosaicConfig, MosaicError, MosaicTlb};
pub use perfect::PerfectTlb;
pub use range::{RangeConfig, RangeTlb};

use crate::{Page, PageTable, Range, Translation};
use pagelab_addr::{PageId, Pfn};
use pagelab_memory::Access;
use pagelab_memory::simd::Simd;
use serde::Serialize;

/// Number of times that each level was asked and had the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TlbCounters {
    /// Translations asked for.
    pub lookups: u64,
    /// Not in the first level.
    pub l1_misses: u64,
    /// Not in the second level either: walks.
    pub l2_misses: u64,
}

/// Mapped pages: a page table, as a TLB sees it after a walk.
pub trait Mapped {
    /// Place of a page, as a walk finds it.
    fn lookup(&self, page: Page) -> Option<Translation>;

    /// The range of contiguous pages around a page, where there is a table of them.
    fn range(&self, page: Page) -> Option<Range> {
        let _ = page;
        None
    }
}

impl<P: PageTable> Mapped for P {
    #[inline(always)]
    fn lookup(&self, page: Page) -> Option<Translation> {
        PageTable::found(self, page)
    }

    #[inline(always)]
    fn range(&self, page: Page) -> Option<Range> {
        PageTable::range(self, page)
    }
}

/// One core's data TLB, all levels.
pub trait Tlb {
    /// Every translation is free: the machine then asks neither this TLB nor a walker.
    const FREE: bool = false;

    /// Describes what the second level is asked for next, with the walk that may follow, to its
    /// replacement policy. The line means nothing.
    fn describe(&mut self, _access: Access) {}

    /// Looks a page up in the first level, for a load or a store: its 4 KiB frame.
    fn lookup_first<S: Simd>(&mut self, page: PageId, store: bool) -> Option<Pfn>;

    /// Looks a page up in the second level, after the first did not have it: its 4 KiB frame,
    /// which the first level then holds too. `None` calls for a walk.
    ///
    /// A store to a page held as not writable is a miss in either level.
    fn lookup_second<S: Simd>(&mut self, page: Page, store: bool) -> Option<Pfn>;

    /// Enters what a walk found. A design may enter more of what the walk has read than the page
    /// that it was for. Returns log2 of the aligned base pages that may have come with the page.
    fn fill<S: Simd>(&mut self, page: Page, translation: Translation, mapped: &impl Mapped) -> u32;

    /// Enters a page as the walk after its fault did, where that found none of its neighbours mapped yet.
    /// Returns what [`Tlb::fill`] does.
    fn fill_first_touched<S: Simd>(
        &mut self,
        page: Page,
        translation: Translation,
        mapped: &impl Mapped,
    ) -> u32 {
        self.fill::<S>(page, translation, mapped)
    }

    /// Looks a page of code up in the second level, for a first level of the instructions' own.
    fn lookup_code<S: Simd>(&mut self, page: Page) -> Option<Pfn>;

    /// Enters what a walk for an instruction found into the second level; returns what
    /// [`Tlb::fill`] does.
    fn fill_code<S: Simd>(
        &mut self,
        page: Page,
        translation: Translation,
        mapped: &impl Mapped,
    ) -> u32;

    /// Forgets all translations of `pages` base pages from `first` on, whatever their size. The
    /// range lies within one aligned 1 GiB of virtual memory.
    fn invalidate(&mut self, first: Page, pages: u32);

    /// The entry that a 4 KiB page would be in: pages that one walk brings have the same.
    #[inline(always)]
    fn entry(&self, page: PageId) -> u32 {
        page.0
    }

    /// Hints to the host that a page will soon be looked up.
    fn host_prefetch(&self, page: PageId);

    /// Counters since construction.
    fn counters(&self) -> TlbCounters;

    /// The design's own counters, by name; those of several cores are added up.
    fn own_counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
