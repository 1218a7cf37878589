use super::{MAX_FAULTS, Machine, other_pages, port};
use crate::caches;
use crate::config::FilledPages;
use crate::error::RunError;
use crate::machine::chunk::CHUNK;
use crate::machine::requests::{TlbMiss, request};
use crate::mmu::{Found, Hit, Mmu, PrefetchWalk, Request, Walks};
use pagelab_addr::{Asid, LINE_BYTES, LINE_SHIFT, PAGE_SHIFT, PageId, Pfn, VirtAddr, Vpn};
use pagelab_events::{NO_SITE, Op};
use pagelab_memory::simd::{Baseline, Simd};
use pagelab_memory::{Load, MODIFY};
use pagelab_translation::{Page, PageTable};

impl<M: Mmu> Machine<M> {
    /// Translates a chunk of accesses of one thread in program order: looks up the TLB, walks,
    /// takes faults, and lists what the caches and the clock will have to do.
    #[inline(always)]
    pub(crate) fn translate<S: Simd>(
        &mut self,
        core: usize,
        asid: Asid,
        addr: &[u64],
        op: &[Op],
        site: &[u32],
    ) -> Result<(), RunError> {
        self.chunk.clear();
        self.instruction = NO_SITE;
        if caches::want_descriptions(&self.caches[core], &self.shared) {
            self.chunk.sites.extend_from_slice(site);
        }
        if M::LOOKS_INTO_CACHES {
            self.chunk.served.clear();
        }
        let mut pages = [PageId::default(); CHUNK];
        // Hardly any program has some, and asking each access would cost all of them.
        let prefetches: u16 = op.iter().map(|op| u16::from(op.is_prefetch())).sum();
        self.counts.run.prefetches += u64::from(prefetches);
        let prefetches = prefetches > 0;
        if prefetches {
            self.name_pages(asid, addr, op, &mut pages)?;
        } else {
            for (page, &addr) in pages.iter_mut().zip(addr) {
                *page = self.page_id(asid, addr)?;
            }
        }
        let misses = self.mmu.counters(core).l2_misses;
        if (M::FREE || self.cores[core].prefetch_walks) && !prefetches {
            self.host_prefetch(core, asid, addr, &pages);
        }
        if self.caches[core].crosses_pages() {
            self.beside.begin(addr);
        }
        let follows = self.caches[core].follows_loads() && site.len() == addr.len();
        let mut at = 0;
        while at < addr.len() {
            let first = at;
            if !M::FREE {
                let mut until = addr.len();
                if prefetches {
                    let next = op[at..].iter().position(|op| op.is_prefetch());
                    until = next.map_or(until, |next| at + next);
                }
                let (addr, op) = (&addr[at..until], &op[at..until]);
                at += self.translate_hits::<S>(core, addr, op, &pages[at..]);
            }
            if follows {
                self.follow(
                    core,
                    asid,
                    &addr[first..at],
                    &op[first..at],
                    &site[first..at],
                );
            }
            self.serve_data(core, site.get(first..at).unwrap_or_default());
            if at == addr.len() {
                break;
            }
            if let Some(&site) = site.get(at) {
                self.instruction = site;
            }
            self.beside.now = at;
            let (addr, op) = (addr[at], op[at]);
            self.at(addr);
            let page = Page {
                id: pages[at],
                asid,
                vpn: VirtAddr(addr).vpn(),
            };
            let store = op.is_store();
            let bits = if store { request::STORE } else { 0 };
            if straddles(addr, op) {
                self.straddle(core, page, addr, op)?;
            } else if prefetches && op.is_prefetch() {
                self.prefetch(core, page, addr)?;
            } else {
                let pfn = self.locate_missed::<S>(core, page, store, bits)?;
                self.chunk.references.push(reference(pfn, addr, op));
                if follows {
                    self.follow(core, asid, &[addr], &[op], &site[at..=at]);
                }
                self.serve_data(core, &[self.instruction]);
            }
            at += 1;
        }
        // Worth it only where the host's own cache misses are.
        let missed = self.mmu.counters(core).l2_misses - misses;
        self.cores[core].prefetch_walks = missed as usize * 16 > addr.len();
        Ok(())
    }

    /// Has the host fetch what walks for pages will read.
    #[inline(always)]
    fn host_prefetch(&self, core: usize, asid: Asid, addr: &[u64], pages: &[PageId]) {
        let named = |(&id, &addr): (&PageId, &u64)| Page {
            id,
            asid,
            vpn: VirtAddr(addr).vpn(),
        };
        for page in pages.iter().zip(addr).map(named) {
            self.mmu.host_prefetch(core, page.id);
            self.mmu.table().host_prefetch(page);
        }
        for page in pages.iter().zip(addr).map(named) {
            self.mmu.table().host_prefetch_behind(page);
        }
    }

    /// Enters accesses into the chunk as long as the first-level TLB has them and they lie within
    /// a line; returns how many.
    #[inline(always)]
    fn translate_hits<S: Simd>(
        &mut self,
        core: usize,
        addr: &[u64],
        op: &[Op],
        pages: &[PageId],
    ) -> usize {
        let mmu = &mut self.mmu;
        let requests = self.chunk.requests.room(addr.len());
        let names = self.chunk.pages.room(addr.len());
        let references = self.chunk.references.room(addr.len());
        let mut hits = 0;
        let slots = requests.iter_mut().zip(names).zip(references);
        let accesses = addr.iter().zip(op).zip(pages);
        for (((&addr, &op), &page), ((bits, name), entry)) in accesses.zip(slots) {
            let store = op.is_store();
            if straddles(addr, op) {
                break;
            }
            let Some(pfn) = mmu.lookup_first::<S>(core, page, store) else {
                break;
            };
            *bits = if store { request::STORE } else { 0 };
            *name = mmu.entry(core, page);
            *entry = reference(pfn, addr, op);
            hits += 1;
        }
        self.chunk.requests.added(hits);
        self.chunk.pages.added(hits);
        self.chunk.references.added(hits);
        hits
    }

    /// Has what prefetchers want for these accesses be fetched: they are the last in the chunk, a
    /// reference each.
    #[inline(never)]
    fn follow(&mut self, core: usize, asid: Asid, addr: &[u64], op: &[Op], site: &[u32]) {
        let first = self.chunk.references.as_slice().len() - addr.len();
        let Some(prefetchers) = &mut self.caches[core].prefetchers else {
            return;
        };
        for (number, ((&address, &op), &instruction)) in addr.iter().zip(op).zip(site).enumerate() {
            if op.is_store() || instruction == NO_SITE {
                continue;
            }
            self.targets.clear();
            let load = Load {
                instruction,
                address,
            };
            prefetchers.loaded(load, &mut self.targets);
            let place = first + number;
            for &target in &self.targets {
                let line = if target >> PAGE_SHIFT == address >> PAGE_SHIFT {
                    let own = self.chunk.references.as_slice()[place] & !MODIFY;
                    own & !(LINES_PER_PAGE - 1) | line_in_page(target)
                } else {
                    let Some(frame) = other_pages!(self, asid).frame(address, target) else {
                        continue;
                    };
                    (frame * LINES_PER_PAGE) | line_in_page(target)
                };
                self.chunk.by_loads.push((place as u32, line));
            }
        }
    }

    /// An access of several lines. Rare, so it is compiled once, for the level that every
    /// processor has.
    #[inline(never)]
    fn straddle(&mut self, core: usize, first: Page, addr: u64, op: Op) -> Result<(), RunError> {
        let mut page = first;
        let store = op.is_store();
        let bits = if store { request::STORE } else { 0 };
        let mut pfn = self.locate(core, page, store, bits)?;
        self.chunk.references.push(reference(pfn, addr, op));
        self.serve_data(core, &[self.instruction]);
        let bits = bits | request::REST;
        let last = addr.saturating_add(u64::from(op.size()) - 1) >> LINE_SHIFT;
        for line in (addr >> LINE_SHIFT) + 1..=last {
            let vpn = Vpn(line >> (PAGE_SHIFT - LINE_SHIFT));
            if vpn == page.vpn {
                let name = self.mmu.entry(core, page.id);
                self.chunk.enter(bits, name);
            } else {
                page = Page {
                    id: self.page_id(page.asid, vpn.address().0)?,
                    vpn,
                    ..page
                };
                self.at(line << LINE_SHIFT);
                pfn = self.locate(core, page, store, bits)?;
            }
            let reference = reference(pfn, line << LINE_SHIFT, op);
            self.chunk.references.push(reference);
            self.serve_data(core, &[self.instruction]);
        }
        Ok(())
    }

    /// Names the pages of accesses some of which are prefetches. These name no region: they may ask for anything.
    #[cold]
    fn name_pages(
        &mut self,
        asid: Asid,
        addr: &[u64],
        op: &[Op],
        pages: &mut [PageId; CHUNK],
    ) -> Result<(), RunError> {
        for ((page, &addr), op) in pages.iter_mut().zip(addr).zip(op) {
            if !op.is_prefetch() {
                *page = self.page_id(asid, addr)?;
            }
        }
        Ok(())
    }

    /// A prefetch. One of a page that is not mapped does nothing; the walk that finds this out is left out.
    #[inline(never)]
    fn prefetch(&mut self, core: usize, page: Page, addr: u64) -> Result<(), RunError> {
        let mapped = (self.gibs)
            .known(&self.directory, page.asid, addr)
            .map(|id| Page { id, ..page })
            .filter(|&page| self.mmu.table().lookup(page).is_some());
        let Some(page) = mapped else {
            self.chunk.enter(request::DROPPED, 0);
            return Ok(());
        };
        let pfn = self.locate(core, page, false, request::PREFETCH)?;
        self.chunk
            .references
            .push(reference(pfn, addr, Op::PREFETCH));
        self.serve_data(core, &[self.instruction]);
        Ok(())
    }

    /// Names a page.
    #[inline(always)]
    pub(super) fn page_id(&mut self, asid: Asid, addr: u64) -> Result<PageId, RunError> {
        Ok(self.gibs.page(&mut self.directory, asid, addr)?)
    }

    /// Finds the frame of a page, and enters the request that asked for it, with its walks and
    /// faults, into the chunk.
    fn locate(&mut self, core: usize, page: Page, store: bool, bits: u8) -> Result<Pfn, RunError> {
        match self.mmu.lookup_first::<Baseline>(core, page.id, store) {
            Some(pfn) => {
                let name = self.mmu.entry(core, page.id);
                self.chunk.enter(bits, name);
                Ok(pfn)
            }
            None => self.locate_missed::<Baseline>(core, page, store, bits),
        }
    }

    /// [`Machine::locate`] for a page that is not in the first-level TLB.
    #[inline(always)]
    fn locate_missed<S: Simd>(
        &mut self,
        core: usize,
        page: Page,
        store: bool,
        bits: u8,
    ) -> Result<Pfn, RunError> {
        if M::FREE {
            if let Some(found) = self.mmu.table().lookup(page)
                && (found.writable || !store)
            {
                self.chunk.enter(bits, page.id.0);
                if self.tells_accesses() {
                    self.os.access(found.pfn);
                }
                return Ok(found.pfn);
            }
        } else {
            let request = self.request(core, page, store);
            let port = &mut port!(self, core);
            let found = (self.mmu).lookup_behind::<S>(&request, port, &mut self.walks);
            if let Some(Hit { pfn, cached }) = found {
                if self.cores[core].unknown.is_some() {
                    self.note_touched(core, page);
                }
                let name = self.mmu.entry(core, page.id);
                let bits = bits | request::SECOND_TLB;
                if cached {
                    self.enter_cached(bits | request::CACHED, name);
                } else {
                    self.chunk.enter(bits, name);
                }
                return Ok(pfn);
            }
            if self.cores[core].unknown.is_some()
                && let Some(pfn) = self.take_as_hit(core, page, store, bits)
            {
                return Ok(pfn);
            }
        }
        self.walk::<S>(core, page, store, bits)
    }

    /// A page was found in the second-level TLB, of a sample.
    #[cold]
    fn note_touched(&mut self, core: usize, page: Page) {
        let entry = self.unit(core, page);
        if let Some(unknown) = &mut self.cores[core].unknown {
            unknown.note(entry);
        }
    }

    /// Takes a page as one that the second-level TLB has, if it does not, only because a sample left out what
    /// brought it there. The entry comes in by a walk that costs nothing.
    #[cold]
    fn take_as_hit(&mut self, core: usize, page: Page, store: bool, bits: u8) -> Option<Pfn> {
        let entry = self.unit(core, page);
        let found = self.mmu.table().lookup(page);
        let found = found.filter(|found| found.writable || !store);
        let unknown = self.cores[core].unknown.as_mut()?;
        // A design that looks into caches keeps translations there: its walks cannot be had for nothing.
        let Some(found) = found.filter(|_| !M::LOOKS_INTO_CACHES) else {
            unknown.note(entry);
            return None;
        };
        if unknown.misses(entry) != Some(false) {
            return None;
        }
        self.cores[core].taken_as_hits += 1;
        let request = self.request(core, page, store);
        self.mmu.bring(&request, &mut self.walks);
        let name = self.mmu.entry(core, page.id);
        self.chunk.enter(bits | request::SECOND_TLB, name);
        Some(found.pfn)
    }

    /// Has the TLB hold a page that a sample's gap touched first, if it would still have it.
    pub(super) fn translate_touched(&mut self, page: Page) {
        let core = self.current_core();
        let unknown = self.cores[core].unknown.as_ref();
        if M::FREE || M::LOOKS_INTO_CACHES || unknown.is_some_and(|unknown| !unknown.lasts()) {
            return;
        }
        let request = self.request(core, page, false);
        self.mmu.bring(&request, &mut self.walks);
        let entry = self.unit(core, page);
        if let Some(unknown) = &mut self.cores[core].unknown {
            unknown.touch(entry);
        }
    }

    /// The TLB entry of a page, the same for all of a large one.
    fn unit(&self, core: usize, page: Page) -> u32 {
        let found = self.mmu.table().lookup(page);
        let order = found.map_or(0, |found| found.size.order());
        self.mmu.entry(core, PageId(page.id.0 >> order << order))
    }

    /// Enters a request whose translation the second-level cache or a buffer had.
    #[inline(never)]
    fn enter_cached(&mut self, bits: u8, name: u32) {
        if self.walks.ahead.is_empty() {
            self.chunk.enter(bits, name);
            return;
        }
        let mut tlb_miss = TlbMiss {
            walked: true,
            ..TlbMiss::default()
        };
        tlb_miss.cached.found = true;
        self.walk_behind(&mut tlb_miss);
        self.chunk
            .enter(bits | request::SLOW | request::LOOKED, name);
        self.chunk.tlb_misses.push(tlb_miss);
    }

    /// Adds the walks that nothing waits for to a TLB miss.
    #[inline(never)]
    fn walk_behind(&mut self, tlb_miss: &mut TlbMiss) {
        let Walks { behind, ahead, .. } = &mut self.walks;
        if !M::LOOKS_INTO_CACHES {
            self.chunk.list(behind);
        }
        let reads = ahead.iter().map(|walk| walk.reads).sum();
        tlb_miss.reads += reads;
        tlb_miss.cached.behind = reads;
        tlb_miss.cached.ahead = ahead.len() as u8;
        let slots = self.slots_per_cycle as u32;
        let in_slots = ahead.drain(..).map(|ahead| PrefetchWalk {
            walk: ahead.walk * slots,
            ..ahead
        });
        self.chunk.ahead.extend(in_slots);
    }

    /// Has the data references of these instructions go through the caches for a design that looks
    /// into them.
    #[inline(always)]
    fn serve_data(&mut self, core: usize, sites: &[u32]) {
        if M::LOOKS_INTO_CACHES {
            port!(self, core).serve_data(sites);
        }
    }

    /// The next translation is for this address.
    #[inline(always)]
    fn at(&mut self, addr: u64) {
        if M::LOOKS_INTO_CACHES {
            self.line = line_in_page(addr);
        }
    }

    #[inline(always)]
    fn request(&self, core: usize, page: Page, store: bool) -> Request {
        let instructions = if M::LOOKS_INTO_CACHES {
            self.cores[core].clock.instructions()
        } else {
            0
        };
        Request {
            core,
            page,
            line: if M::LOOKS_INTO_CACHES { self.line } else { 0 },
            store,
            instruction: self.instruction,
            instructions,
        }
    }

    /// Walks until the page is there, taking the faults on the way.
    #[inline(always)]
    fn walk<S: Simd>(
        &mut self,
        core: usize,
        page: Page,
        store: bool,
        bits: u8,
    ) -> Result<Pfn, RunError> {
        let second = if M::FREE { 0 } else { request::SECOND_TLB };
        let name = self.mmu.entry(core, page.id);
        self.chunk.enter(bits | second | request::SLOW, name);
        for _ in 0..=MAX_FAULTS {
            self.walks.asked.clear();
            let early = self.chunk.early.len();
            let found = if M::FREE {
                let found = self.mmu.table().lookup(page);
                let found = found.filter(|found| found.writable || !store);
                found.map(|found| Found {
                    pfn: found.pfn,
                    shift: found.size.order() as u8,
                    cached_shift: 0,
                })
            } else {
                let request = self.request(core, page, store);
                let port = &mut port!(self, core);
                let found = self.mmu.walk::<S>(&request, port, &mut self.walks);
                let (lookups, hits) = self.walks.asked.cache();
                self.counts.walk_cache.lookups += u64::from(lookups);
                self.counts.walk_cache.hits += u64::from(hits);
                found
            };
            let walk = &self.walks.asked;
            let reads = walk.reads();
            if !M::LOOKS_INTO_CACHES {
                self.chunk.list(walk);
            }
            let mut tlb_miss = TlbMiss {
                walk: u64::from(walk.cycles()) * self.slots_per_cycle,
                reads: reads.len() as u16,
                background: walk.background(),
                metadata: walk.metadata(),
                walked: !M::FREE,
                ..TlbMiss::default()
            };
            if M::LOOKS_INTO_CACHES {
                let slots = self.slots_per_cycle as u32;
                let own = &mut self.chunk.early[early..];
                own.iter_mut().for_each(|early| early.after *= slots);
                tlb_miss.cached.early = own.len() as u8;
            }
            if let Some(Found {
                pfn,
                shift,
                cached_shift,
            }) = found
            {
                if self.tells_accesses() {
                    self.os.access(pfn);
                }
                tlb_miss.shift = shift;
                if M::LOOKS_INTO_CACHES || cached_shift != 0 || !self.walks.ahead.is_empty() {
                    tlb_miss.cached.shift = cached_shift;
                    self.walk_behind(&mut tlb_miss);
                    if let Some(bits) = self.chunk.requests.as_mut_slice().last_mut() {
                        *bits |= request::LOOKED;
                    }
                }
                self.chunk.tlb_misses.push(tlb_miss);
                return Ok(pfn);
            }
            let pages = other_pages!(self, page.asid);
            self.beside.keep(|addr, up| pages.beside(addr, up));
            let (fault, migration) = self.fault(core, page, store)?;
            if self.shared.filled_pages != FilledPages::Memory {
                self.list_filled(page);
            }
            tlb_miss.faulted = true;
            tlb_miss.fault = fault;
            tlb_miss.migration = migration;
            self.chunk.tlb_misses.push(tlb_miss);
        }
        Err(RunError::Unresolved {
            address: page.vpn.address().0,
        })
    }
}

/// The physical line of an address in a frame, 31 bits since the memory is at most 128 GiB, with
/// `MODIFY` for a store.
#[inline(always)]
pub(crate) fn reference(pfn: Pfn, addr: u64, op: Op) -> u32 {
    let modify = if op.is_store() { MODIFY } else { 0 };
    (pfn.0 * LINES_PER_PAGE) | line_in_page(addr) | modify
}

const LINES_PER_PAGE: u32 = 1 << (PAGE_SHIFT - LINE_SHIFT);

#[inline(always)]
fn line_in_page(addr: u64) -> u32 {
    (addr >> LINE_SHIFT) as u32 & (LINES_PER_PAGE - 1)
}

/// True if an access touches more than one line.
#[inline(always)]
fn straddles(addr: u64, op: Op) -> bool {
    (addr % LINE_BYTES) + u64::from(op.size()) > LINE_BYTES
}
