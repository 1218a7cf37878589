use super::tlb_prefetch::TlbPrefetch;
use super::{ConfiguredMmu, Found, Hit, Mmu, Port, Request, Walks};
use crate::config::MachineConfig;
use crate::error::BuildError;
use crate::mmu::{ConfiguredTable, ConfiguredTlb};
use pagelab_addr::{PageId, PageSize, Pfn};
use pagelab_memory::simd::{Baseline, Simd};
use pagelab_memory::{Access, Kind};
use pagelab_os::{Os, Placement};
use pagelab_translation::{Page, PageTable, Tlb, TlbCounters, Translation, Walk};
use std::collections::BTreeMap;

/// A TLB for each core over a page table, which brings its own walk caches; with prefetchers, if
/// the machine has some.
#[derive(Debug)]
pub struct Conventional<P, T> {
    pub(super) table: P,
    /// By core.
    pub(super) tlbs: Vec<T>,
    /// By core; none where nothing is prefetched.
    prefetches: Vec<TlbPrefetch>,
}

impl<P: PageTable, T: Tlb> Conventional<P, T> {
    /// Looks for a page among what was prefetched.
    ///
    /// Takes the request by value, here and below, so that it need not be put into memory where
    /// nothing is prefetched.
    #[inline(never)]
    fn prefetched<S: Simd>(&mut self, request: Request, walks: &mut Walks) -> Option<Hit> {
        let Request { core, page, .. } = request;
        let prefetch = &mut self.prefetches[core];
        let found = self.table.found(page);
        let found = found.filter(|found| found.writable || !request.store)?;
        if !prefetch.take(page.id) {
            return None;
        }
        self.tlbs[core].fill::<S>(page, found, &self.table);
        let missed = (core, page, request.instruction);
        prefetch.missed(missed, found.size, &mut self.table, walks);
        let pfn = found.pfn;
        Some(Hit { pfn, cached: true })
    }

    /// Enters what a walk has found into the TLB of a core.
    #[inline(always)]
    pub(super) fn fill<S: Simd>(&mut self, core: usize, page: Page, found: Translation) -> Found {
        Found {
            pfn: found.pfn,
            shift: self.tlbs[core].fill::<S>(page, found, &self.table) as u8,
            cached_shift: 0,
        }
    }

    /// Prefetches after a walk; returns [`Found::cached_shift`].
    #[inline(never)]
    fn prefetch_behind(&mut self, request: Request, size: PageSize, walks: &mut Walks) -> u8 {
        let Request { core, page, .. } = request;
        let prefetch = &mut self.prefetches[core];
        let shift = prefetch.walked(page, size, &self.table);
        let missed = (core, page, request.instruction);
        prefetch.missed(missed, size, &mut self.table, walks);
        shift
    }
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
        walks: &mut Walks,
    ) -> Option<Hit> {
        let &Request {
            core, page, store, ..
        } = request;
        self.tlbs[core].describe(request.access());
        match self.tlbs[core].lookup_second::<S>(page, store) {
            Some(pfn) => Some(Hit { pfn, cached: false }),
            None if self.prefetches.is_empty() => None,
            None => self.prefetched::<S>(*request, walks),
        }
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
        let found = self.table.walk(core, page, &mut walks.asked);
        if let Some(prefetch) = self.prefetches.get(core) {
            // The walker waits until the buffer has said no.
            walks.asked.spend(prefetch.cycles);
        }
        let found = found?;
        if store && !found.writable {
            return None;
        }
        let mut filled = self.fill::<S>(core, page, found);
        if !self.prefetches.is_empty() {
            filled.cached_shift = self.prefetch_behind(*request, found.size, walks);
        }
        Some(filled)
    }

    fn bring(&mut self, request: &Request, walks: &mut Walks) {
        let &Request { core, page, .. } = request;
        if let Some(found) = self.table.walk(core, page, &mut walks.asked) {
            self.tlbs[core].fill_first_touched::<Baseline>(page, found, &self.table);
        }
        walks.asked.clear();
    }

    fn lookup_code(&mut self, core: usize, page: Page) -> Option<Pfn> {
        let access = Access::new(0, Kind::Fetch);
        self.tlbs[core].describe(Access {
            core: core as u32,
            ..access
        });
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
        if let Some(prefetch) = self.prefetches.get_mut(core) {
            prefetch.invalidate(first.id, pages);
        }
    }

    #[inline(always)]
    fn host_prefetch(&self, core: usize, page: PageId) {
        self.tlbs[core].host_prefetch(page);
    }

    #[inline(always)]
    fn counters(&self, core: usize) -> TlbCounters {
        self.tlbs[core].counters()
    }

    fn own_counters(&self) -> Vec<(&'static str, u64)> {
        let mut sums = BTreeMap::new();
        let prefetched = self.prefetches.iter().flat_map(TlbPrefetch::counters);
        for (name, count) in (self.tlbs.iter().flat_map(Tlb::own_counters)).chain(prefetched) {
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
        let prefetch = config.tlb_prefetch.filter(|_| !T::FREE);
        if let Some(prefetch) = &prefetch {
            prefetch.check()?;
            if !T::prefetches(config) {
                return Err(BuildError::TlbPrefetch(
                    "goes with conventional TLBs without `coalesce`",
                ));
            }
        }
        let of_core = |_| prefetch.as_ref().map(TlbPrefetch::new);
        Ok(Conventional {
            table,
            tlbs: tlbs.collect::<Result<_, _>>()?,
            prefetches: (0..config.cores).filter_map(of_core).collect(),
        })
    }
}
