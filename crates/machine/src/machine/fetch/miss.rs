use super::Wanted;
use crate::caches;
use crate::caches::served::Served;
use crate::error::RunError;
use crate::fetch::{Fetch, Held, LINES_SHIFT};
use crate::machine::MAX_FAULTS;
use crate::machine::requests::TlbMiss;
use crate::machine::{Cursor, Machine, port};
use crate::mmu::{Found, Mmu};
use crate::timing::{self, Fetched, Paths};
use pagelab_addr::{LINE_SHIFT, Pfn, VirtAddr};
use pagelab_events::{Batch, Mispredicted, NO_SITE};
use pagelab_memory::{Access, Kind};
use pagelab_translation::{Page, PageTable};

impl<M: Mmu> Machine<M> {
    /// Mispredicted branches before the next access come before what is fetched there: which of the
    /// blocks before it they end is not known.
    pub(super) fn branches(&mut self, of: &Wanted, batch: &Batch, cursor: &mut Cursor, at: usize) {
        let branches = &batch.mispredicted[cursor.mispredicted..];
        let count = branches.partition_point(|branch| branch.0 as usize <= at);
        if count == 0 {
            return;
        }
        cursor.mispredicted += count;
        self.counts.run.mispredicted_branches += Mispredicted::count(&branches[..count]);
        let state = &mut self.cores[of.core];
        let on_core: Vec<(u32, Mispredicted)>;
        let mut branches = &branches[..count];
        if state.sharing.mixes(state.accesses) {
            let here = |&(place, branch): &_| (place, state.sharing.branch(state.accesses, branch));
            on_core = branches.iter().map(here).collect();
            branches = &on_core;
        }
        let mut paths = Paths {
            core: &mut state.clock,
            memory: &mut self.memory,
            latencies: &self.latencies,
            counts: &mut self.timing,
        };
        state.pending.mispredicted_all(&mut paths, branches);
        if let Some(free) = &mut self.free {
            free.mispredicted(of.core, branches);
        }
    }

    /// Fetches a line that is not at hand.
    #[cold]
    #[inline(never)]
    pub(super) fn fetch_line(&mut self, of: &Wanted) -> Result<(), RunError> {
        let &Wanted {
            core, asid, line, ..
        } = of;
        self.chunk.clear();
        self.chunk.served.clear();
        self.instruction = of.site;
        let mut fetched = Fetched {
            gap: of.gap,
            ..Fetched::default()
        };
        let Some(fetch) = &self.fetch else {
            return Ok(());
        };
        if !fetch.cores[core].has_page(line) {
            let addr = VirtAddr(line << LINE_SHIFT);
            let page = Page {
                id: self.gibs.page(&mut self.directory, asid, addr.0)?,
                asid,
                vpn: addr.vpn(),
            };
            fetched.page = self.mmu.entry(core, page.id);
            let pfn = self.translate_code(of, page, &mut fetched)?;
            if let Some(fetch) = &mut self.fetch {
                fetch.cores[core].translated(line, page.id, pfn);
            }
        }
        self.fetch_from_caches(core, line, of.site, &mut fetched);
        let state = &mut self.cores[core];
        let mut paths = Paths {
            core: &mut state.clock,
            memory: &mut self.memory,
            latencies: &self.latencies,
            counts: &mut self.timing,
        };
        let ahead = self.fetch.as_ref().map_or(&[][..], |fetch| &fetch.ahead);
        timing::fetch::<false>(&mut paths, &mut state.pending, &self.chunk, &fetched, ahead);
        if let Some(free) = &mut self.free {
            free.fetch(core, &self.chunk, &fetched, ahead);
        }
        Ok(())
    }

    /// Finds the frame of a page of code.
    fn translate_code(
        &mut self,
        of: &Wanted,
        page: Page,
        fetched: &mut Fetched,
    ) -> Result<Pfn, RunError> {
        let core = of.core;
        let Some(Fetch { cores, counts, .. }) = self.fetch.as_deref_mut() else {
            return Ok(Pfn(0));
        };
        counts.tlb_lookups += 1;
        // Nothing is missed and nothing is kept where translation is free.
        if !M::FREE {
            if let Some(pfn) = cores[core].find_page(page.id) {
                return Ok(pfn);
            }
            counts.tlb_l1_misses += 1;
            fetched.second_tlb = true;
        }
        let pfn = match self.mmu.lookup_code(core, page) {
            Some(pfn) => pfn,
            None => self.walk_for_code(of, page)?,
        };
        if let (false, Some(fetch)) = (M::FREE, &mut self.fetch) {
            fetch.cores[core].fill_tlb(page.id, pfn);
        }
        Ok(pfn)
    }

    /// Walks until the page is there, taking the faults on the way.
    fn walk_for_code(&mut self, of: &Wanted, page: Page) -> Result<Pfn, RunError> {
        let core = of.core;
        if let Some(fetch) = &mut self.fetch {
            fetch.counts.tlb_l2_misses += u64::from(!M::FREE);
        }
        for _ in 0..=MAX_FAULTS {
            self.walks.asked.clear();
            let found = if M::FREE {
                self.mmu.table().lookup(page).map(|found| Found {
                    pfn: found.pfn,
                    shift: 0,
                    cached_shift: 0,
                })
            } else {
                let found = self.mmu.walk_code(core, page, &mut self.walks.asked);
                let (lookups, hits) = self.walks.asked.cache();
                self.counts.walk_cache.lookups += u64::from(lookups);
                self.counts.walk_cache.hits += u64::from(hits);
                port!(self, core).read_all(&self.walks.asked);
                if let Some(fetch) = &mut self.fetch {
                    fetch.counts.walks += 1;
                }
                found
            };
            let walk = &self.walks.asked;
            let mut tlb_miss = TlbMiss {
                walk: u64::from(walk.cycles()) * self.slots_per_cycle,
                reads: walk.reads().len() as u16,
                background: walk.background(),
                metadata: walk.metadata(),
                walked: !M::FREE,
                ..TlbMiss::default()
            };
            if let Some(Found { pfn, shift, .. }) = found {
                if self.tells_accesses() {
                    self.os.access(pfn);
                }
                tlb_miss.shift = shift;
                self.chunk.tlb_misses.push(tlb_miss);
                self.charge_code(page, of.site);
                return Ok(pfn);
            }
            (tlb_miss.fault, tlb_miss.migration) = self.fault_code(core, page)?;
            tlb_miss.faulted = true;
            self.chunk.tlb_misses.push(tlb_miss);
        }
        Err(RunError::Unresolved {
            address: page.vpn.address().0,
        })
    }

    /// Takes a line, and those that are fetched ahead with it, through the caches.
    fn fetch_from_caches(&mut self, core: usize, line: u64, site: u32, fetched: &mut Fetched) {
        let Some(Fetch {
            cores,
            next_lines,
            counts,
            ahead,
            one,
            ..
        }) = self.fetch.as_deref_mut()
        else {
            return;
        };
        ahead.clear();
        one.write_backs = self.chunk.write_backs.as_ref().map(|_| Vec::new());
        let front_end = &mut cores[core];
        let physical = front_end.physical(line);
        fetched.line = physical;
        let held = front_end.fetch(line);
        fetched.ahead = held == Held::Ahead;
        let mut write_backs = self.chunk.write_backs.as_mut();
        let mut below = |line: u32, kind: Kind| {
            let access = Access {
                core: core as u32,
                instruction: Some(site).filter(|&site| site != NO_SITE),
                ..Access::new(line, kind)
            };
            let list = write_backs.as_deref_mut();
            let (caches, shared) = (&mut self.caches[..], &mut self.shared);
            if shared.directory.is_none() {
                return caches::fetch(&mut caches[core], shared, access, list);
            }
            let served = caches::fetch_coherently(caches, core, shared, access, one);
            if let (Some(list), Some(gone)) = (list, &one.write_backs) {
                list.extend_from_slice(gone);
            }
            served
        };
        fetched.served = match held {
            Held::Missing => below(physical, Kind::Fetch),
            _ => Served::L1,
        };
        counts.served[fetched.served as usize] += 1;
        if held == Held::Used {
            return;
        }
        let page_end = physical | ((1 << LINES_SHIFT) - 1);
        for next in physical + 1..=page_end.min(physical + *next_lines) {
            if front_end.fetch_ahead(next) {
                let served = below(next, Kind::Prefetch);
                counts.prefetched[served as usize] += 1;
                ahead.push((next, served));
            }
        }
    }
}
