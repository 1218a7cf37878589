use crate::caches::served::Served;
use crate::caches::{self, PrivateCaches, SharedCache};
use crate::config::WalksEnter;
use crate::machine::chunk::Chunk;
use crate::machine::requests::{Early, Prefetch, TlbMiss, request};
use pagelab_addr::{LINE_SHIFT, PageDirectory, PageId};
use pagelab_events::NO_SITE;
use pagelab_memory::simd::Baseline;
use pagelab_memory::{Access, CacheAccess, Kind, MODIFY, Outcome};
use pagelab_translation::{Page, Walk};
use std::iter::once;

/// State of the machine for a design that looks into caches.
#[derive(Debug)]
pub struct CachePort {
    /// A reference at a time on its way through the caches.
    one: Chunk,
    /// For each core: references of data and walks that its second-level cache did not have.
    l2_misses: Vec<u64>,
}

/// A core's way to its caches and the memory behind them, for a design that looks into caches.
#[derive(Debug)]
pub struct Port<'a> {
    pub(crate) core: usize,
    pub(crate) caches: &'a mut [PrivateCaches],
    pub(crate) shared: &'a mut SharedCache,
    pub(crate) directory: &'a PageDirectory,
    pub(crate) chunk: &'a mut Chunk,
    pub(crate) looks: &'a mut CachePort,
    /// Instruction that is translated for.
    pub(crate) instruction: u32,
}

/// Outcome of a walk's reads.
#[derive(Clone, Copy, Debug)]
pub struct Reads {
    /// Memory served one that the walk waited for.
    pub memory: bool,
    /// The line of the last one that it waited for, if it read anything.
    pub last: Option<u32>,
}

/// Outcome of one reference to a line of translations.
struct OneReference(Option<CacheAccess>);

impl Outcome for OneReference {
    #[inline(always)]
    fn of(&mut self, _: usize, access: CacheAccess) {
        self.0 = Some(access);
    }

    fn describe(&self, _: usize, reference: u32) -> Access {
        Access::new(reference, Kind::Walk { level: 1 })
    }
}

impl CachePort {
    pub(crate) fn new(cores: u32, write_backs: bool) -> Self {
        CachePort {
            one: Chunk {
                write_backs: write_backs.then(Vec::new),
                ..Chunk::default()
            },
            l2_misses: vec![0; cores as usize],
        }
    }
}

impl Port<'_> {
    /// Makes the reads of a walk, in order.
    pub fn read_all(&mut self, walk: &Walk) -> Reads {
        self.read_from(walk, 0)
    }

    /// The same but for the first ones, which have been made otherwise.
    pub fn read_from(&mut self, walk: &Walk, first: usize) -> Reads {
        let waited = walk.reads().len() - usize::from(walk.background());
        let last = walk.reads()[..waited].last().map_or(0, |read| read.step);
        let mut done = Reads {
            memory: false,
            last: None,
        };
        for (number, read) in walk.reads().iter().enumerate().skip(first) {
            let line = (read.addr.0 >> LINE_SHIFT) as u32;
            self.chunk.references.push(line);
            self.chunk.steps.push(read.step);
            let level = 1 + last.saturating_sub(read.step);
            let access = Access {
                core: self.core as u32,
                instruction: Some(self.instruction).filter(|&site| site != NO_SITE),
                ..Access::new(line, Kind::Walk { level })
            };
            let served = self.serve(line, request::SLOW, access);
            if number < waited {
                done.memory |= served == Served::Dram;
                done.last = Some(line);
            }
        }
        done
    }

    /// Fetches a line of memory into the core's second-level cache by guess, so many cycles after
    /// the second-level TLB has answered, whatever the walk is at then; whether it was in neither
    /// of the first two levels. Whoever asks for it later has it there, or when it comes. It holds
    /// a miss buffer until then.
    pub fn fetch(&mut self, line: u32, cycles: u32) -> bool {
        let caches = &mut self.caches[self.core];
        let near = [&caches.l1, &caches.l2];
        if near.iter().any(|level| level.modified(line).is_some()) {
            return false;
        }
        let gone = &mut self.looks.one.write_backs;
        if let Some(gone) = gone {
            gone.clear();
        }
        let access = Access {
            core: self.core as u32,
            ..Access::new(line, Kind::Prefetch)
        };
        let served = caches::fetch(caches, self.shared, access, gone.as_mut());
        if let (Some(into), Some(gone)) = (&mut self.chunk.write_backs, gone) {
            let place = self.chunk.served.as_slice().len().saturating_sub(1) as u32;
            into.extend(gone.iter().map(|&(_, line)| (place, line)));
        }
        self.chunk.early.push(Early {
            line,
            served,
            after: cycles,
        });
        true
    }

    /// Makes a walker's read of a line that the first level of cache never has; what served it, or
    /// would have if memory is asked at once and not `past` the caches. The second level has it
    /// then.
    pub(crate) fn read_behind_first(&mut self, line: u32, step: u8, past: bool) -> Served {
        let gone = &mut self.looks.one.write_backs;
        if let Some(gone) = gone {
            gone.clear();
        }
        let caches = &mut self.caches[self.core];
        let access = Access {
            core: self.core as u32,
            ..Access::new(line, Kind::Walk { level: 1 })
        };
        let served = caches::fetch(caches, self.shared, access, gone.as_mut());
        let place = self.chunk.served.as_slice().len() as u32;
        if let (Some(into), Some(gone)) = (&mut self.chunk.write_backs, gone) {
            into.extend(gone.iter().map(|&(_, line)| (place, line)));
        }
        let answer = if past { Served::PastCaches } else { served };
        self.list(line, step, answer);
        let missed = !past && served != Served::L2;
        self.looks.l2_misses[self.core] += u64::from(missed);
        served
    }

    /// Makes a walker's read of a line that no cache holds.
    pub fn read_memory(&mut self, line: u32, step: u8) {
        self.list(line, step, Served::PastCaches);
    }

    /// References that have gone through the caches in this chunk.
    pub(crate) fn references(&self) -> usize {
        self.chunk.served.as_slice().len()
    }

    /// Places that served the reads from a number on.
    pub(crate) fn served_since(&self, first: usize) -> &[Served] {
        &self.chunk.served.as_slice()[first..]
    }

    fn list(&mut self, line: u32, step: u8, served: Served) {
        self.chunk.references.push(line);
        self.chunk.steps.push(step);
        self.chunk.served.push(served);
    }

    /// Writes to a line that only [`Port::read_behind_first`] brings into caches: to memory, and to
    /// what this core's second level has of it. Other cores drop it.
    pub fn write_past_caches(&mut self, line: u32) {
        for (core, caches) in self.caches.iter_mut().enumerate() {
            if core != self.core {
                caches.l2.remove(line);
            }
        }
        self.shared.writebacks += 1;
        if let Some(list) = &mut self.chunk.write_backs {
            let place = self.chunk.served.as_slice().len().saturating_sub(1);
            list.push((place as u32, line));
        }
    }

    /// True if the core's second-level cache has a line. The look changes nothing there.
    pub fn holds(&self, line: u32) -> bool {
        self.caches[self.core].l2.modified(line).is_some()
    }

    /// Number of reads of the first-level cache that a walk waits for, one after the other, if that
    /// has them all.
    pub fn first_level_reads(&self, walk: &Walk) -> Option<u32> {
        let caches = &self.caches[self.core];
        let waited = walk.reads().len() - usize::from(walk.background());
        let reads = &walk.reads()[..waited];
        let has = |line: u64| caches.l1.modified(line as u32).is_some();
        let all = caches.walks_enter == WalksEnter::L1
            && reads.iter().all(|read| has(read.addr.0 >> LINE_SHIFT));
        let steps = reads.last().map_or(0, |read| u32::from(read.step) + 1);
        all.then_some(steps)
    }

    /// True if it has a line, which is then a hit.
    pub fn look(&mut self, line: u32) -> bool {
        let holds = self.holds(line);
        if holds {
            let l2 = &mut self.caches[self.core].l2;
            l2.access_all::<Baseline>(once(line), &mut OneReference(None));
        }
        holds
    }

    /// Enters a line that is not there, and that no memory is behind, into the second-level cache;
    /// takes another one out that it is made of. What leaves for it goes its usual way.
    pub fn transform(&mut self, from: Option<u32>, into: u32) {
        let l2 = &mut self.caches[self.core].l2;
        if let Some(from) = from {
            l2.remove(from);
        }
        let mut taken = OneReference(None);
        l2.access_all::<Baseline>(once(into), &mut taken);
        let Some(CacheAccess {
            evicts_modified: true,
            evicted,
            ..
        }) = taken.0
        else {
            return;
        };
        let gone = self.shared.write_back(evicted | MODIFY);
        if let (Some(line), Some(list)) = (gone, &mut self.chunk.write_backs) {
            let place = self.chunk.served.as_slice().len().saturating_sub(1);
            list.push((place as u32, line));
        }
    }

    /// Takes a line out of the second-level cache; whether it was there.
    pub fn remove(&mut self, line: u32) -> bool {
        let holds = self.holds(line);
        self.caches[self.core].l2.remove(line);
        holds
    }

    /// Has the second-level cache favour lines from a number on ([`pagelab_memory::Cache::favour`]).
    pub fn favour(&mut self, first: u32) {
        self.caches[self.core].l2.favour(first);
    }

    /// References of data and walks that the core's second-level cache has not had so far.
    pub fn l2_misses(&self) -> u64 {
        self.looks.l2_misses[self.core]
    }

    /// A page of which only the number is known.
    pub fn page(&self, id: PageId) -> Page {
        let (asid, vpn) = self.directory.resolve(id);
        Page { id, asid, vpn }
    }

    /// Takes the data references through the caches that are not through yet: of an instruction each,
    /// or all of one.
    pub(crate) fn serve_data(&mut self, sites: &[u32]) {
        let first = self.chunk.served.as_slice().len();
        let is_slow = |bits: &u8| bits & request::SLOW != 0;
        let walked = self.chunk.requests.as_slice().last().is_some_and(is_slow)
            && self
                .chunk
                .tlb_misses
                .as_slice()
                .last()
                .is_some_and(TlbMiss::has_walk);
        while let Some(&reference) = {
            let next = self.chunk.served.as_slice().len();
            self.chunk.references.as_slice().get(next)
        } {
            let place = self.chunk.served.as_slice().len() - first;
            let site = sites.get(place).or(sites.last()).copied();
            let access = Access {
                core: self.core as u32,
                instruction: site.filter(|&site| site != NO_SITE),
                walked,
                ..Access::of_data(reference)
            };
            self.serve(reference, 0, access);
        }
    }

    /// Takes a reference through the caches: a walk's if `bits` are [`request::SLOW`], else data's.
    #[inline(never)]
    fn serve(&mut self, reference: u32, bits: u8, access: Access) -> Served {
        let one = &mut self.looks.one;
        one.clear();
        one.only = Some(access);
        one.references.push(reference);
        one.requests.push(bits);
        let place = self.chunk.served.as_slice().len() as u32;
        if !self.chunk.by_loads.is_empty() {
            let by_loads = self.chunk.by_loads.iter().filter(|of| of.0 == place);
            one.by_loads.extend(by_loads.map(|&(_, line)| (0, line)));
        }
        if bits == request::SLOW {
            one.tlb_misses.push(TlbMiss {
                reads: 1,
                ..TlbMiss::default()
            });
        }
        caches::reference::<Baseline>(self.caches, self.core, self.shared, one, &mut |_, _| None);
        let served = one.served.as_slice()[0];
        self.chunk.served.push(served);
        let prefetches = one.prefetches.iter();
        let at_place = |&prefetch: &Prefetch| Prefetch { place, ..prefetch };
        self.chunk.prefetches.extend(prefetches.map(at_place));
        if let (Some(into), Some(from)) = (&mut self.chunk.write_backs, &one.write_backs) {
            into.extend(from.iter().map(|&(_, line)| (place, line)));
        }
        let missed = !matches!(served, Served::L1 | Served::L2);
        self.looks.l2_misses[self.core] += u64::from(missed);
        served
    }
}
