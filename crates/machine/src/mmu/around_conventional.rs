use super::{ConfiguredMmu, Conventional, Found, Hit, Mmu, Port, Request, Walks};
use crate::config::MachineConfig;
use crate::error::BuildError;
use crate::mmu::ConfiguredTable;
use pagelab_addr::{PageId, Pfn};
use pagelab_memory::simd::Simd;
use pagelab_os::{Os, Placement};
use pagelab_translation::{ConventionalTlb, Page, PageTable, TlbCounters, Walk};
use std::borrow::Cow;

/// A design that puts something between the conventional TLB and a page table and looks into caches
/// for it. What it says nothing of is as it is without. Methods mean what those of the same name in
/// [`Mmu`] and [`ConfiguredMmu`] do.
///
/// Instructions go by it: what the second-level TLB has not of them is walked for.
pub trait AroundConventional: Sized {
    type Table: PageTable;

    /// The conventional design that it is around.
    fn walked(&self) -> &Conventional<Self::Table, ConventionalTlb>;

    fn walked_mut(&mut self) -> &mut Conventional<Self::Table, ConventionalTlb>;

    #[inline(always)]
    fn lookup_behind<S: Simd>(
        &mut self,
        request: &Request,
        port: &mut Port,
        walks: &mut Walks,
    ) -> Option<Hit> {
        self.walked_mut().lookup_behind::<S>(request, port, walks)
    }

    fn walk<S: Simd>(
        &mut self,
        request: &Request,
        port: &mut Port,
        walks: &mut Walks,
    ) -> Option<Found>;

    /// Forgets translations as the TLB has done ([`Mmu::invalidate`]).
    fn forget(&mut self, core: usize, first: Page, pages: u32, port: &mut Port) {
        let _ = (core, first, pages, port);
    }

    fn costly(&mut self) -> Option<Page> {
        None
    }

    fn own_counters(&self) -> Vec<(&'static str, u64)>;

    fn placement(_: &MachineConfig) -> Placement {
        Placement::Buddy
    }

    fn machine(config: &MachineConfig) -> Result<Cow<'_, MachineConfig>, &'static str>;

    /// The design around it.
    fn around(
        walked: Conventional<Self::Table, ConventionalTlb>,
        config: &MachineConfig,
        os: &Os,
    ) -> Self;
}

impl<D: AroundConventional> Mmu for D {
    type Table = <D as AroundConventional>::Table;

    const LOOKS_INTO_CACHES: bool = true;

    fn table(&self) -> &Self::Table {
        self.walked().table()
    }

    fn table_mut(&mut self) -> &mut Self::Table {
        self.walked_mut().table_mut()
    }

    #[inline(always)]
    fn lookup_first<S: Simd>(&mut self, core: usize, page: PageId, store: bool) -> Option<Pfn> {
        self.walked_mut().lookup_first::<S>(core, page, store)
    }

    #[inline(always)]
    fn lookup_behind<S: Simd>(
        &mut self,
        request: &Request,
        port: &mut Port,
        walks: &mut Walks,
    ) -> Option<Hit> {
        AroundConventional::lookup_behind::<S>(self, request, port, walks)
    }

    #[inline(always)]
    fn walk<S: Simd>(
        &mut self,
        request: &Request,
        port: &mut Port,
        walks: &mut Walks,
    ) -> Option<Found> {
        AroundConventional::walk::<S>(self, request, port, walks)
    }

    fn bring(&mut self, request: &Request, walks: &mut Walks) {
        self.walked_mut().bring(request, walks);
    }

    fn lookup_code(&mut self, core: usize, page: Page) -> Option<Pfn> {
        self.walked_mut().lookup_code(core, page)
    }

    fn walk_code(&mut self, core: usize, page: Page, walk: &mut Walk) -> Option<Found> {
        self.walked_mut().walk_code(core, page, walk)
    }

    fn costly(&mut self) -> Option<Page> {
        AroundConventional::costly(self)
    }

    #[inline(always)]
    fn entry(&self, core: usize, page: PageId) -> u32 {
        self.walked().entry(core, page)
    }

    fn invalidate(&mut self, core: usize, first: Page, pages: u32, port: &mut Port) {
        self.walked_mut().invalidate(core, first, pages, port);
        self.forget(core, first, pages, port);
    }

    #[inline(always)]
    fn host_prefetch(&self, core: usize, page: PageId) {
        self.walked().host_prefetch(core, page);
    }

    #[inline(always)]
    fn counters(&self, core: usize) -> TlbCounters {
        self.walked().counters(core)
    }

    fn own_counters(&self) -> Vec<(&'static str, u64)> {
        AroundConventional::own_counters(self)
    }
}

impl<D: AroundConventional<Table: ConfiguredTable>> ConfiguredMmu for D {
    fn placement(config: &MachineConfig) -> Placement {
        <D as AroundConventional>::placement(config)
    }

    fn machine(config: &MachineConfig) -> Result<Cow<'_, MachineConfig>, &'static str> {
        if config.tlb_prefetch.is_some() {
            return Err("it does not go with tlb_prefetch");
        }
        if config.caches.coherence.is_some() && config.cores > 1 {
            return Err("it does not go with caches.coherence and several cores");
        }
        <D as AroundConventional>::machine(config)
    }

    fn over(table: Self::Table, config: &MachineConfig, os: &Os) -> Result<Self, BuildError> {
        Ok(D::around(
            Conventional::over(table, config, os)?,
            config,
            os,
        ))
    }
}
