use super::{Mapped, Tlb, TlbCounters};
use crate::{Page, Translation};
use pagelab_addr::{PageId, Pfn};
use pagelab_memory::simd::Simd;

/// A TLB that translates every page at no cost: with the `ideal` page table, the bound that no
/// design can pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct PerfectTlb;

impl Tlb for PerfectTlb {
    const FREE: bool = true;

    fn lookup_first<S: Simd>(&mut self, _page: PageId, _store: bool) -> Option<Pfn> {
        None
    }

    fn lookup_second<S: Simd>(&mut self, _page: Page, _store: bool) -> Option<Pfn> {
        None
    }

    fn fill<S: Simd>(
        &mut self,
        _page: Page,
        translation: Translation,
        _mapped: &impl Mapped,
    ) -> u32 {
        translation.size.order()
    }

    fn lookup_code<S: Simd>(&mut self, _page: Page) -> Option<Pfn> {
        None
    }

    fn fill_code<S: Simd>(
        &mut self,
        _page: Page,
        translation: Translation,
        _mapped: &impl Mapped,
    ) -> u32 {
        translation.size.order()
    }

    fn invalidate(&mut self, _first: Page, _pages: u32) {}

    fn host_prefetch(&self, _page: PageId) {}

    fn counters(&self) -> TlbCounters {
        TlbCounters::default()
    }
}
