use super::{ConfiguredMmu, Found, Hit, Mmu, Port, Request, Walks};
use crate::config::MachineConfig;
use crate::designs::{ConfiguredTable, ConfiguredTlb};
use crate::error::BuildError;
use pagelab_addr::{PageId, Pfn};
use pagelab_memory::simd::{Baseline, Simd};
use pagelab_os::{Os, Placement};
use pagelab_translation::{Page, PageTable, Tlb, TlbCounters, Walk};
use std::collections::BTreeMap;

/// A TLB for each core over a page table, which brings its own walk caches.
#[derive(Debug)]
pub struct Conventional<P, T> {
    pub(super) table: P,
    /// By core.
    pub(super) tlbs: Vec<T>,
}

impl<P: PageTable, T: Tlb> Mmu for Conventional<P, T> {
    type Table = P;

    const FREE: bool = T::FREE;

    #[inline(always)]
    fn table(&self) -> &P {
        &self.table
    }

    #[inline(always)]
    fn table_mut(&mut self) -> &mut P {
        &mut self.table
    }

    #[inline(always)]
    fn lookup_first<S: Simd>(&mut self, core: usize, page: PageId, store: bool) -> Option<Pfn> {
        self.tlbs[core].lookup_first::<S>(page, store)
    }

    #[inline(always)]
    fn lookup_behind<S: Simd>(
        &mut self,
        request: &Request,
        _: &mut Port,
        _: &mut Walks,
    ) -> Option<Hit> {
        let &Request {
            core, page, store, ..
        } = request;
        let pfn = self.tlbs[core].lookup_second::<S>(page, store)?;
        Some(Hit { pfn, cached: false })
    }

    #[inline(always)]
    fn walk<S: Simd>(
        &mut self,
        request: &Request,
        _: &mut Port,
        walks: &mut Walks,
    ) -> Option<Found> {
        let &Request {
            core, page, store, ..
        } = request;
        let found = self.table.walk(core, page, &mut walks.asked)?;
        if store && !found.writable {
            return None;
        }
        Some(Found {
            pfn: found.pfn,
            shift: self.tlbs[core].fill::<S>(page, found, &self.table) as u8,
            cached_shift: 0,
        })
    }

    const HOLDS_CODE: bool = T::HOLDS_CODE;

    fn lookup_code(&mut self, core: usize, page: Page) -> Option<Pfn> {
        self.tlbs[core].lookup_code::<Baseline>(page)
    }

    fn walk_code(&mut self, core: usize, page: Page, walk: &mut Walk) -> Option<Found> {
        let found = self.table.walk(core, page, walk)?;
        Some(Found {
            pfn: found.pfn,
            shift: self.tlbs[core].fill_code::<Baseline>(page, found, &self.table) as u8,
            cached_shift: 0,
        })
    }

    #[inline(always)]
    fn entry(&self, core: usize, page: PageId) -> u32 {
        self.tlbs[core].entry(page)
    }

    fn invalidate(&mut self, core: usize, first: Page, pages: u32, _: &mut Port) {
        self.tlbs[core].invalidate(first, pages);
    }

    #[inline(always)]
    fn prefetch(&self, core: usize, page: PageId) {
        self.tlbs[core].prefetch(page);
    }

    #[inline(always)]
    fn counters(&self, core: usize) -> TlbCounters {
        self.tlbs[core].counters()
    }

    fn own_counters(&self) -> Vec<(&'static str, u64)> {
        let mut sums = BTreeMap::new();
        for (name, count) in self.tlbs.iter().flat_map(Tlb::own_counters) {
            *sums.entry(name).or_default() += count;
        }
        sums.into_iter().collect()
    }
}

impl<P: ConfiguredTable, T: ConfiguredTlb> ConfiguredMmu for Conventional<P, T> {
    fn placement(config: &MachineConfig) -> Placement {
        T::placement(config)
    }

    fn over(table: P, config: &MachineConfig, os: &Os) -> Result<Self, BuildError> {
        let tlbs = (0..config.cores).map(|_| T::build(config, os));
        Ok(Conventional {
            table,
            tlbs: tlbs.collect::<Result<_, _>>()?,
        })
    }

    fn empty_places(&self) -> Option<u64> {
        self.tlbs[0].empty_places()
    }
}
