//! What a design is: how the accesses of a core find their frames.
//!
//! [`Mmu`] is the seam between a design and the machine. [`Conventional`] composes TLBs and a page
//! table, whose walks the machine takes through the caches afterwards, hundreds of accesses at a
//! time. A design whose translations depend on what the caches hold says so and has a [`Port`] to
//! them.

mod around_conventional;
mod conventional;
mod counters;
#[cfg(test)]
mod lists;
mod pom_tlb;
mod port;
mod revelator;
#[cfg(test)]
mod small;
mod tlb_prefetch;
mod utopia;
mod victima;

pub(crate) use around_conventional::AroundConventional;
pub use conventional::Conventional;
pub use port::{Looks, Port};
pub(crate) use revelator::MOST as MOST_EARLY;
pub(crate) use tlb_prefetch::MOST as MOST_AHEAD;
pub use tlb_prefetch::TlbPrefetchConfig;

use crate::config::MachineConfig;
use crate::designs::{Compiled, ConfiguredTable, Design, Named};
use crate::error::BuildError;
use crate::registered::registered;
use pagelab_addr::{PageId, Pfn};
use pagelab_memory::simd::Simd;
use pagelab_os::{Os, Placement};
use pagelab_translation::{Page, PageTable, TlbCounters, Walk};
use std::borrow::Cow;

macro_rules! around {
    (
        page_tables { $($skipped:tt)* }
        tlbs { $($skipped_tlbs:tt)* }
        around { $($name:ident: $keys:ident;)* }
    ) => {
        $(pub use $name::$keys;)*

        /// What is built around the conventional TLB, with the page tables that it goes with.
        pub(crate) const AROUND: &[(Named, &[(&str, Compiled)])] = &[
            $((
                Named { name: stringify!($name), description: $name::DESIGN.description },
                $name::DESIGN.with,
            ),)*
        ];
    };
}

registered!(around);

/// A page that an access of a core needs translated.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The core.
    pub core: usize,
    /// The page, with its address space.
    pub page: Page,
    /// The line within its 4 KiB; 0 for a design that does not look into caches.
    pub line: u32,
    /// Whether the access is a store.
    pub store: bool,
    /// The instruction: a site of the source's code, or [`pagelab_events::NO_SITE`].
    pub instruction: u32,
    /// Instructions that the core has been given so far; 0 for a design that does not look into
    /// caches.
    pub instructions: u64,
}

/// A page that was found without a walk.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// Its frame.
    pub pfn: Pfn,
    /// Whether the second-level cache had the translation, or a buffer of what was prefetched, and
    /// not the second-level TLB.
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

/// The walks of one translation.
#[derive(Clone, Debug)]
pub struct Walks {
    /// The one that the access waits for.
    pub asked: Walk,
    /// Those that begin when the translation is there, and that nothing waits for, one after the
    /// other.
    pub behind: Walk,
    /// Which they are.
    pub ahead: Vec<Ahead>,
}

/// A walk that nothing waits for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead {
    /// The page that is ready when it ends, if it is prefetched and there, and log2 of the base
    /// pages around it that are.
    pub page: Option<(u32, u8)>,
    /// How many of the reads are its own.
    pub reads: u16,
    /// Its fixed time, in cycles.
    pub walk: u32,
}

impl Walks {
    pub(crate) fn new() -> Self {
        Walks {
            asked: Walk::new(),
            behind: Walk::new(),
            ahead: Vec::new(),
        }
    }
}

/// A design: the TLBs of all cores, the page table that they walk, and whatever is between them.
pub trait Mmu {
    /// The page table. The operating system maps pages in it.
    type Table: PageTable;

    /// Whether every translation is free: the machine then asks the page table alone.
    const FREE: bool = false;

    /// Whether it looks into caches. Accesses then go through the machine one at a time, so that a
    /// design finds the caches as the access before has left them, and makes the reads of its
    /// walks itself, by [`Port::read_all`]. Else the caches run after it, chunk by chunk, and what
    /// it does with the port means nothing.
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

/// A design that a configuration describes.
pub(crate) trait ConfiguredMmu: Mmu<Table: ConfiguredTable> + Sized {
    /// How the operating system of a machine with this design places pages.
    fn placement(config: &MachineConfig) -> Placement;

    /// The machine that it makes of one; why not, if it does not go with that.
    fn machine(config: &MachineConfig) -> Result<Cow<'_, MachineConfig>, &'static str> {
        Ok(Cow::Borrowed(config))
    }

    /// The design over a page table, in which pages may be mapped already.
    fn over(table: Self::Table, config: &MachineConfig, os: &Os) -> Result<Self, BuildError>;

    /// [`ConfiguredMmu::machine`] of a design of this name.
    fn machine_of<'a>(
        design: Design,
        config: &'a MachineConfig,
    ) -> Result<Cow<'a, MachineConfig>, BuildError> {
        Self::machine(config).map_err(|why| BuildError::Refused {
            design: design.name(),
            why,
        })
    }

    fn build(config: &MachineConfig, os: &Os) -> Result<Self, BuildError> {
        Self::over(Self::Table::build(config)?, config, os)
    }

    /// The page table's own counters.
    fn statistics(&self) -> serde_json::Value {
        // They are plain numbers, which always have a JSON form.
        self.table().statistics().unwrap_or_default()
    }

    /// Places of the first core's last-level TLB that hold no entry; `None` where it cannot be said.
    fn empty_places(&self) -> Option<u64>;
}
