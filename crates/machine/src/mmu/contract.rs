use super::port::Port;
use super::walks::Walks;
use pagelab_addr::{PageId, Pfn};
use pagelab_events::NO_SITE;
use pagelab_memory::simd::Simd;
use pagelab_memory::{Access, Kind};
use pagelab_translation::{Page, PageTable, TlbCounters, Walk};

/// A page that an access of a core needs translated.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The core.
    pub core: usize,
    /// The page, with its address space.
    pub page: Page,
    /// The line within its 4 KiB; 0 for a design that does not look into caches.
    pub line: u32,
    /// The access is a store.
    pub store: bool,
    /// The instruction: a site of the source's code, or [`pagelab_events::NO_SITE`].
    pub instruction: u32,
    /// Instructions that the core has been given so far; 0 for a design that does not look into
    /// caches.
    pub instructions: u64,
}

impl Request {
    /// Description for the TLB's replacement policy.
    #[inline(always)]
    pub(crate) fn access(&self) -> Access {
        let kind = if self.store { Kind::Store } else { Kind::Load };
        Access {
            core: self.core as u32,
            instruction: Some(self.instruction).filter(|&site| site != NO_SITE),
            ..Access::new(0, kind)
        }
    }
}

/// A page that was found without a walk.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// Its frame.
    pub pfn: Pfn,
    /// The second-level cache had the translation, or a buffer of prefetched ones, and not the
    /// second-level TLB.
    pub cached: bool,
}

/// A page that a walk found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Its frame.
    pub pfn: Pfn,
    /// log2 of the aligned base pages that may have come into the TLB with it.
    pub shift: u8,
    /// log2 of those that are in a cache or buffer now because of the walk, if any are.
    pub cached_shift: u8,
}

/// A design: the TLBs of all cores, the page table that they walk, and whatever is between them.
pub trait Mmu {
    /// The page table. The operating system maps pages in it.
    type Table: PageTable;

    /// Every translation is free: the machine then asks the page table alone.
    const FREE: bool = false;

    /// The design looks into caches. Accesses then go through the machine one at a time, so that a
    /// design finds the caches as the access before has left them, and makes the reads of its walks
    /// itself, by [`Port::read_all`]. Else the caches run after it, chunk by chunk, and what it
    /// does with the port means nothing.
    const LOOKS_INTO_CACHES: bool = false;

    /// The page table.
    fn table(&self) -> &Self::Table;

    /// The page table, to be changed.
    fn table_mut(&mut self) -> &mut Self::Table;

    /// Looks a page up in the first-level TLB of a core, for a load or a store.
    fn lookup_first<S: Simd>(&mut self, core: usize, page: PageId, store: bool) -> Option<Pfn>;

    /// Looks up what the first level does not have, wherever it can be but in the page table.
    fn lookup_behind<S: Simd>(
        &mut self,
        request: &Request,
        port: &mut Port,
        walks: &mut Walks,
    ) -> Option<Hit>;

    /// Walks, and enters what was found into the TLB; `None` calls for a page fault, after which
    /// the access walks again.
    fn walk<S: Simd>(
        &mut self,
        request: &Request,
        port: &mut Port,
        walks: &mut Walks,
    ) -> Option<Found>;

    /// Enters a page that the TLB lacks only because a sample left out its use: as its fault brought it in,
    /// and by a walk that nobody pays for. For designs that do not look into caches.
    fn bring(&mut self, request: &Request, walks: &mut Walks);

    /// Looks up a page of code that the instructions' first-level TLB does not have, wherever it can
    /// be but in the page table.
    fn lookup_code(&mut self, core: usize, page: Page) -> Option<Pfn>;

    /// Walks for an instruction, and enters what was found into the TLB that data shares; `None`
    /// calls for a page fault.
    fn walk_code(&mut self, core: usize, page: Page, walk: &mut Walk) -> Option<Found>;

    /// A page that is to be moved to where it is found sooner, if the operating system can: each once.
    /// Asked of designs that look into caches.
    fn costly(&mut self) -> Option<Page> {
        None
    }

    /// The TLB entry that a page would be in: pages that one walk brings have the same.
    fn entry(&self, core: usize, page: PageId) -> u32;

    /// Forgets all translations of `pages` base pages from `first` on, whatever their size. The
    /// range lies within one aligned 1 GiB of virtual memory.
    fn invalidate(&mut self, core: usize, first: Page, pages: u32, port: &mut Port);

    /// Hints to the host that a page will soon be looked up.
    fn host_prefetch(&self, core: usize, page: PageId);

    /// The TLB counters of a core.
    fn counters(&self, core: usize) -> TlbCounters;

    /// The design's own counters, by name, of all cores together.
    fn own_counters(&self) -> Vec<(&'static str, u64)>;
}
