//! Nested translation: a guest's page table whose addresses a host's page table translates. See
//! docs/designs/nested.md.

mod config;
#[cfg(test)]
mod tests;

pub use config::NestedConfig;

use crate::page_table::as_inside;
use crate::walk_cache::WalkCache;
use crate::{ConfigError, Frames, MapError, Page, PageTable, Translation, Walk, WalkRead, Work};
use pagelab_addr::{Asid, PAGE_SHIFT, PageId, PageSize, Pfn, PhysAddr, Vpn};
use serde::Serialize;

/// A guest's page table over a host's.
///
/// The operating system of the simulation is the guest's: to it this is the guest's page table,
/// over guest-physical frames. A walk, and so the TLB, ends in host-physical memory. The whole
/// memory of the virtual machine is mapped in `host` before, and stays where it is.
#[derive(Clone, Debug)]
pub struct Nested<G, H> {
    guest: G,
    host: H,
    /// Guest frames of page tables to host frames, per core: the nested TLB.
    tlbs: Vec<WalkCache>,
    tlb_cycles: u32,
    guest_walk: Walk,
    host_walk: Walk,
    parallel: Vec<(u8, PhysAddr)>,
    counters: NestedCounters,
}

/// Walks in both dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NestedCounters {
    /// Reads of the guest's page table.
    pub guest_reads: u64,
    /// Reads of the host's page table.
    pub host_reads: u64,
    /// Look-ups of the nested TLB, and those that hit.
    pub tlb_lookups: u64,
    /// See `tlb_lookups`.
    pub tlb_hits: u64,
    /// Bytes of the host's page table.
    pub host_table_bytes: u64,
}

/// A frame of the virtual machine, as a page of its address space on the host. Its memory starts
/// at address 0, and nothing else is on the host, so that both numbers are the frame's.
pub fn host_page(frame: Pfn) -> Page {
    Page {
        id: PageId(frame.0),
        asid: Asid(0),
        vpn: Vpn(u64::from(frame.0)),
    }
}

impl<G: PageTable, H: PageTable> Nested<G, H> {
    /// A guest's page table over a host's, in which every [`host_page`] of the guest's memory is
    /// mapped, on a machine of `cores` cores.
    ///
    /// # Errors
    /// When the nested TLB's geometry is impossible.
    pub fn new(
        guest: G,
        host: H,
        config: &NestedConfig,
        cores: usize,
    ) -> Result<Self, ConfigError> {
        let tlb = WalkCache::new(&config.tlb, "nested.tlb")?;
        Ok(Nested {
            guest,
            host,
            tlbs: vec![tlb; cores],
            tlb_cycles: config.tlb.cycles,
            guest_walk: Walk::new(),
            host_walk: Walk::new(),
            parallel: Vec::with_capacity(64),
            counters: NestedCounters::default(),
        })
    }

    /// The guest's page table.
    pub fn guest(&self) -> &G {
        &self.guest
    }

    /// Counts of walks.
    pub fn counters(&self) -> NestedCounters {
        NestedCounters {
            host_table_bytes: self.host.table_bytes(),
            ..self.counters
        }
    }

    /// Translates a guest frame by a walk of the host's page table, as the next part of `walk`.
    #[inline]
    fn walk_host(&mut self, core: usize, frame: Pfn, walk: &mut Walk) -> Option<Translation> {
        let before = walk.reads().len();
        let found = self.host.walk(core, host_page(frame), walk);
        self.counters.host_reads += (walk.reads().len() - before) as u64;
        found
    }

    /// True if the nested TLB has a guest frame.
    #[inline]
    fn look_up(&mut self, core: usize, frame: Pfn, walk: &mut Walk) -> bool {
        let hit = self.tlbs[core].get(u64::from(frame.0), frame.0);
        walk.count_cache(hit);
        self.counters.tlb_lookups += 1;
        self.counters.tlb_hits += u64::from(hit);
        hit
    }

    /// Does a step of the guest's walk that is one read: after those that translate its address.
    #[inline]
    fn read_alone(&mut self, core: usize, addr: PhysAddr, walk: &mut Walk) -> Option<()> {
        let frame = addr.pfn();
        let found = if self.look_up(core, frame, walk) {
            self.host.lookup(host_page(frame))?
        } else {
            let before = walk.reads().len();
            let found = self.walk_host(core, frame, walk)?;
            if walk.reads().len() > before {
                walk.next_step();
            }
            self.tlbs[core].insert(u64::from(frame.0), frame.0);
            found
        };
        walk.spend(self.tlb_cycles);
        walk.read(in_frame(found.pfn, addr));
        walk.next_step();
        Some(())
    }

    /// Does the reads of one step of the guest's walk, each after those that translate its
    /// address. Reads of a step go side by side, so theirs do too.
    fn read_guest(&mut self, core: usize, from: usize, to: usize, walk: &mut Walk) -> Option<()> {
        self.parallel.clear();
        let (mut longest_wait, mut last) = (0, 0);
        for read in from..to {
            let addr = self.guest_walk.reads()[read].addr;
            let frame = addr.pfn();
            let mut wait = self.tlb_cycles;
            let mut step = 0;
            let found = if self.look_up(core, frame, walk) {
                self.host.lookup(host_page(frame))?
            } else {
                self.host_walk.clear();
                let found = self
                    .host
                    .walk(core, host_page(frame), &mut self.host_walk)?;
                walk.count_cache_of(&self.host_walk);
                let reads = self.host_walk.reads();
                self.counters.host_reads += reads.len() as u64;
                self.parallel.extend(reads.iter().map(|r| (r.step, r.addr)));
                step = reads.last().map_or(0, |last| last.step + 1);
                wait += self.host_walk.cycles();
                self.tlbs[core].insert(u64::from(frame.0), frame.0);
                found
            };
            self.parallel.push((step, in_frame(found.pfn, addr)));
            longest_wait = longest_wait.max(wait);
            last = last.max(step);
        }
        walk.spend(longest_wait);
        for step in 0..=last {
            if step > 0 {
                walk.next_step();
            }
            for &(at, addr) in &self.parallel {
                if at == step {
                    walk.read(addr);
                }
            }
        }
        walk.next_step();
        Some(())
    }
}

impl<G: PageTable, H: PageTable> Nested<G, H> {
    #[inline]
    fn walk_both(&mut self, core: usize, page: Page, walk: &mut Walk) -> Option<Translation> {
        self.guest_walk.clear();
        let found = self.guest.walk(core, page, &mut self.guest_walk);
        walk.spend(self.guest_walk.cycles());
        walk.count_cache_of(&self.guest_walk);
        let reads = self.guest_walk.reads().len();
        self.counters.guest_reads += reads as u64;
        let mut from = 0;
        while from < reads {
            let all = self.guest_walk.reads();
            let WalkRead { addr, step } = all[from];
            let to = from + all[from..].iter().take_while(|r| r.step == step).count();
            if to == from + 1 {
                self.read_alone(core, addr, walk)?;
            } else {
                self.read_guest(core, from, to, walk)?;
            }
            from = to;
        }
        let guest = found?;
        let host = self.walk_host(core, guest.pfn, walk)?;
        Some(Translation {
            pfn: host.pfn,
            size: guest.size.min(host.size),
            writable: guest.writable,
        })
    }
}

/// An address in another frame.
#[inline]
fn in_frame(frame: Pfn, addr: PhysAddr) -> PhysAddr {
    let offset = addr.0 & ((1 << PAGE_SHIFT) - 1);
    PhysAddr(frame.address().0 | offset)
}

impl<G: PageTable, H: PageTable> PageTable for Nested<G, H> {
    fn reserve<F: Frames>(
        &mut self,
        frames: &mut F,
        first: Page,
        pages: u64,
        size: PageSize,
        work: &mut Work,
    ) {
        self.guest.reserve(frames, first, pages, size, work);
    }

    as_inside!(guest);

    fn map<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        translation: Translation,
        work: &mut Work,
    ) -> Result<(), MapError> {
        self.guest.map(frames, page, translation, work)
    }

    fn unmap<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Option<Translation> {
        self.guest.unmap(frames, page, size, work)
    }

    fn update(&mut self, page: Page, translation: Translation) -> bool {
        self.guest.update(page, translation)
    }

    fn found(&self, page: Page) -> Option<Translation> {
        let guest = self.guest.lookup(page)?;
        let host = self.host.lookup(host_page(guest.pfn))?;
        Some(Translation {
            pfn: host.pfn,
            size: guest.size.min(host.size),
            writable: guest.writable,
        })
    }

    /// Place of a page in host-physical memory. A TLB entry reaches as far as the smaller of the
    /// guest's and the host's page.
    #[inline]
    fn walk(&mut self, core: usize, page: Page, walk: &mut Walk) -> Option<Translation> {
        let found = self.walk_both(core, page, walk);
        // A guest's metadata is read by walks of the host.
        walk.tell_none_apart();
        found
    }

    #[inline]
    fn host_prefetch(&self, page: Page) {
        self.guest.host_prefetch(page);
    }

    #[inline]
    fn host_prefetch_behind(&self, page: Page) {
        if let Some(frame) = self.guest.entry_frame(page) {
            self.host.host_prefetch(host_page(frame));
        }
        if let Some(guest) = self.guest.lookup(page) {
            self.host.host_prefetch(host_page(guest.pfn));
        }
    }

    fn table_bytes(&self) -> u64 {
        self.guest.table_bytes()
    }
}
