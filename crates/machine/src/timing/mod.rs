mod fetch;
mod free;
mod latencies;
mod paths;
mod pending;

pub(crate) use fetch::{Fetched, fetch};
pub(crate) use free::FreeClocks;
pub(crate) use latencies::Latencies;
pub(crate) use pending::Pending;

use crate::by_code::{Payer, Tallies};
use crate::chunk::{Cached, Chunk, Early, Prefetch, TlbMiss, request};
use crate::hierarchy::{PLACES, Served};
use crate::histogram::Histogram;
use crate::main_memory::MainMemory;
use crate::mmu::Ahead;
use pagelab_cpu::{Core, Trapped, UNKNOWN};
use pagelab_events::{Mispredicted, dependence};
use pagelab_memory::MODIFY;
use pending::Besides;

#[cfg(test)]
mod tests;

/// The references of a chunk that have not been timed yet.
struct References<'a> {
    served: &'a [Served],
    lines: &'a [u32],
    taken: usize,
}

impl References<'_> {
    #[inline(always)]
    fn next(&mut self) -> Option<(Served, u32)> {
        let next = (*self.served.get(self.taken)?, *self.lines.get(self.taken)?);
        self.taken += 1;
        Some(next)
    }
}

/// What a core does between the accesses of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accesses<'a> {
    /// Instructions before each access, and how far back the loads are that made its address.
    pub(crate) gap: &'a [u32],
    pub(crate) dep: &'a [u32],
    /// Mispredicted branches, and before which access.
    pub(crate) mispredicted: &'a [(u32, Mispredicted)],
}

/// What the timing counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Data references by where they were served.
    pub(crate) data_served: [u64; PLACES],
    /// Prefetches by where they were served.
    pub(crate) prefetch_served: [u64; PLACES],
    /// Lines that were fetched by guess, by where they were served.
    pub(crate) early_served: [u64; PLACES],
    /// Walk references by where they were served.
    pub(crate) walk_served: [u64; PLACES],
    /// Those of them that read metadata.
    pub(crate) metadata_served: [u64; PLACES],
    /// Latency of each walk in cycles, from a walker's start to its end.
    pub(crate) walk_latency: Histogram,
    /// Cycles that walks waited for a free walker.
    pub(crate) walker_wait: u64,
    /// Translations that a cache or buffer had, and that were still under way.
    pub(crate) late_translations: u64,
    /// Lines that were fetched by a right guess and were still under way when the translation came.
    pub(crate) late_lines: u64,
    /// What the instructions came to, where that is counted.
    pub(crate) by_code: Option<Box<Tallies>>,
}

/// What the references of a core go through.
pub(crate) struct Paths<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) memory: &'a mut MainMemory,
    pub(crate) latencies: &'a Latencies,
    pub(crate) counts: &'a mut Counts,
}

/// A read of a walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Read {
    line: u32,
    served: Served,
    step: u8,
}

/// A walk, but for its reads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    fixed: u64,
    payer: Payer,
    reads: u16,
    /// Of those, the last ones, which nothing waits for.
    background: u16,
    /// log2 of the base pages of what it finds.
    shift: u8,
    /// What has to do with translations in caches and buffers.
    cached: Cached,
}

/// A line of an access that takes no more page faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Task {
    page: u32,
    line: u32,
    bits: u8,
    served: Served,
}

/// Takes a chunk whose references have been served through a core's clock. With `FREE`,
/// translations take no time and nothing is counted.
///
/// It is not compiled into each design's machine: there is one, whatever the design.
#[inline(never)]
pub(crate) fn time<const FREE: bool>(
    paths: &mut Paths,
    pending: &mut Pending,
    chunk: &Chunk,
    accesses: Accesses,
) {
    let Accesses {
        gap,
        dep,
        mut mispredicted,
    } = accesses;
    // A branch is due when so many accesses are left.
    let left_at = |branch: Option<&(u32, Mispredicted)>| {
        branch.map_or(usize::MAX, |&(at, _)| gap.len().wrapping_sub(at as usize))
    };
    if !paths.core.mispredicts() {
        mispredicted = &[];
    }
    let mut branch_due = left_at(mispredicted.first());
    let mut references = References {
        served: chunk.served.as_slice(),
        lines: chunk.references.as_slice(),
        taken: 0,
    };
    let mut slow = Slow {
        tlb_misses: chunk.tlb_misses.as_slice(),
        steps: chunk.steps.as_slice(),
        write_backs: chunk.write_backs.as_deref().unwrap_or_default(),
        prefetches: chunk.prefetches.as_slice(),
        ahead: chunk.ahead.as_slice(),
        early: chunk.early.as_slice(),
    };
    let mut due = slow.first_due();
    let mut accesses = gap.iter().zip(dep);
    let requests = chunk.requests.as_slice();
    let mut next = requests.first().copied().unwrap_or(0);
    for (number, &page) in chunk.pages.as_slice().iter().enumerate() {
        let bits = next;
        next = requests.get(number + 1).copied().unwrap_or(0);
        let straddles = (bits | next) & request::REST != 0;
        if bits & (request::SLOW | request::INVALIDATES) != 0
            || straddles
            || references.taken >= due
        {
            let first = bits & request::REST == 0;
            if first && accesses.len() == branch_due {
                pending.mispredicted(paths, &mut mispredicted);
                branch_due = left_at(mispredicted.first());
            }
            let (gap, dep) = if first {
                accesses.next().unwrap_or((&0, &0))
            } else {
                (&0, &0)
            };
            slow.request::<FREE>(
                paths,
                pending,
                &mut references,
                &Of {
                    bits,
                    page,
                    straddles,
                    gap: *gap,
                    dep: *dep,
                },
            );
            due = slow.first_due();
            continue;
        }
        // Most accesses: the TLB has the page, and nothing is fetched or written back on their
        // account.
        let bits = if FREE {
            bits & !request::SECOND_TLB
        } else {
            bits
        };
        let store = bits & request::STORE != 0;
        if accesses.len() == branch_due {
            pending.mispredicted(paths, &mut mispredicted);
            branch_due = left_at(mispredicted.first());
        }
        let (Some((&gap, &dep)), Some((served, line))) = (accesses.next(), references.next())
        else {
            debug_assert!(false, "a request has an access and a data reference");
            return;
        };
        if !FREE {
            paths.counts.data_served[served as usize] += 1;
        }
        let task = Task {
            page,
            line,
            bits,
            served,
        };
        let (entry, alone) = pending.dispatch(paths, gap, dep, store);
        if entry.start == paths.core.dispatched() || (alone && served == Served::L1) {
            let (translated, done) = paths.run(&task, entry.start);
            if alone {
                let trapped = Trapped::default();
                paths.core.complete(entry, trapped, store, translated, done);
            } else {
                pending.ended(paths, entry, store, translated, done);
            }
        } else {
            pending.defer(paths, entry, task, dep);
        }
    }
}

/// How far back the loads are that a dependence names.
#[inline(always)]
fn loads(dep: u32) -> [u32; 2] {
    [dependence::near(dep), dependence::far(dep)]
}

/// A line of an access, and what its access is if it is the first.
struct Of {
    bits: u8,
    page: u32,
    straddles: bool,
    gap: u32,
    dep: u32,
}

/// What a chunk has for some of its accesses only, from the next of them on.
struct Slow<'a> {
    tlb_misses: &'a [TlbMiss],
    steps: &'a [u8],
    write_backs: &'a [(u32, u32)],
    prefetches: &'a [Prefetch],
    ahead: &'a [Ahead],
    early: &'a [Early],
}

impl<'a> Slow<'a> {
    /// The place of the first reference on whose account there is something to do besides.
    #[inline(always)]
    fn first_due(&self) -> usize {
        let write_back = self.write_backs.first().map_or(u32::MAX, |first| first.0);
        let prefetch = (self.prefetches.first()).map_or(u32::MAX, |first| first.place);
        write_back.min(prefetch) as usize
    }

    /// Times a line of an access that has a walk, faults, other lines, or something that is
    /// fetched or written back on its account.
    #[inline(never)]
    fn request<const FREE: bool>(
        &mut self,
        paths: &mut Paths,
        pending: &mut Pending,
        references: &mut References,
        of: &Of,
    ) {
        let &Of {
            bits,
            page,
            straddles,
            gap,
            dep,
        } = of;
        let store = bits & request::STORE != 0;
        let mut faults: &[TlbMiss] = &[];
        let mut walk = None;
        if bits & request::SLOW != 0 {
            let faulting = self.tlb_misses.iter().take_while(|of| of.faulted).count();
            // What the faulting walks read comes first.
            faults = &self.tlb_misses[..faulting];
            walk = self.tlb_misses.get(faulting);
            self.tlb_misses = self.tlb_misses.get(faulting + 1..).unwrap_or_default();
        }
        let mut ahead: &[Ahead] = &[];
        if bits & request::LOOKED != 0
            && let Some(tlb_miss) = walk
        {
            (ahead, self.ahead) = self.ahead.split_at(tlb_miss.cached.ahead.into());
        }
        let bits = if FREE {
            bits & !request::SECOND_TLB
        } else {
            bits
        };
        let reads = walk.map_or(0, |tlb_miss| usize::from(tlb_miss.reads));
        let alone = !faults.is_empty() || (!FREE && reads > pending::READS);
        if alone && !pending.is_empty() {
            pending.run_all(paths);
        }
        let mut entry = if bits & request::REST != 0 {
            paths.core.dispatch_rest(store, pending.is_empty())
        } else {
            let (entry, _) = pending.dispatch(paths, gap, dep, store);
            if straddles && entry.start == UNKNOWN {
                pending.run_all(paths);
                paths.core.started(entry, loads(dep))
            } else {
                entry
            }
        };
        // A fault moves the start of its access; what it asks for was asked for before that.
        let start = entry.start;
        let mut asked = start;
        if asked != UNKNOWN {
            asked = paths.asked(bits, start);
        }
        let mut trapped = Trapped::default();
        for tlb_miss in faults {
            let early = self.early(tlb_miss, paths.counts);
            if FREE {
                self.skip(tlb_miss, references);
            } else if tlb_miss.walked {
                paths.fetch_early(early, asked, entry.start);
                let walk = self.walk(tlb_miss, references, pending, paths);
                asked = paths.walk(&walk, pending.reads(paths, &walk), asked, entry.start);
            }
            let &TlbMiss {
                fault, migration, ..
            } = tlb_miss;
            trapped.fault += fault;
            trapped.migration += migration;
            asked = (paths.core).trap(&mut entry, asked, Trapped { fault, migration });
        }
        let mut early: &[Early] = &[];
        if bits & request::LOOKED != 0
            && let Some(tlb_miss) = walk
        {
            early = self.early(tlb_miss, paths.counts);
        }
        if FREE && let Some(tlb_miss) = walk {
            self.skip(tlb_miss, references);
        }
        let walk = walk
            .filter(|tlb_miss| !FREE && tlb_miss.walked)
            .map(|tlb_miss| self.walk(tlb_miss, references, pending, paths));
        let Some((served, line)) = references.next() else {
            debug_assert!(false, "a request has a data reference");
            return;
        };
        if !FREE {
            paths.counts.data_served[served as usize] += 1;
        }
        let taken = references.taken as u32;
        while let Some((&(place, line), later)) = self.write_backs.split_first()
            && place < taken
        {
            // Memory holds writes back until it has time: an access that waits for its address is
            // not waited for.
            let now = if start == UNKNOWN {
                paths.core.dispatched()
            } else {
                start
            };
            paths.memory.write_back(line, now);
            self.write_backs = later;
        }
        let mut prefetches: &[Prefetch] = &[];
        if self.prefetches.first().is_some_and(|of| of.place < taken) {
            let own = (self.prefetches).partition_point(|prefetch| prefetch.place < taken);
            (prefetches, self.prefetches) = self.prefetches.split_at(own);
        }
        if !FREE {
            for prefetch in prefetches {
                paths.counts.prefetch_served[prefetch.served as usize] += 1;
            }
        }
        let task = Task {
            page,
            line,
            bits,
            served,
        };
        let own;
        if FREE {
            // There is nothing to guess: the access itself asks for its line.
            let asked = early.iter().find(|early| early.line == line & !MODIFY);
            own = asked.map(|&early| Early { after: 0, ..early });
            early = own.as_slice();
        }
        if !straddles && !alone {
            // What starts when it is dispatched comes before everything that follows.
            let at_once = entry.start == paths.core.dispatched();
            let contends = walk.is_some()
                || served != Served::L1
                || bits & request::INVALIDATES != 0
                || !prefetches.is_empty();
            if !at_once && (contends || !pending.is_empty()) {
                let walk = walk.map(|walk| (walk, ahead));
                let besides = Besides { prefetches, early };
                pending.defer_with(paths, entry, task, dep, walk, besides);
                return;
            }
        }
        paths.fetch_early(early, asked, start);
        let translated = match &walk {
            None => paths.look_up(bits, page, start, asked),
            Some(walk) => {
                let reads = pending.reads(paths, walk);
                paths.find(walk, (reads, ahead), (bits, page), start, asked)
            }
        };
        paths.count_late(early, line, translated);
        let done = paths.data_alone(&task, translated, start);
        for prefetch in prefetches {
            paths.prefetch(prefetch, translated);
        }
        if pending.is_empty() {
            paths.core.complete(entry, trapped, store, translated, done);
        } else if bits & request::REST != 0 {
            pending.join(paths, translated, done);
        } else {
            pending.ended(paths, entry, store, translated, done);
        }
    }

    /// Counts what a walk reads and keeps it with the access that was dispatched last.
    #[inline(always)]
    fn walk(
        &mut self,
        tlb_miss: &TlbMiss,
        references: &mut References,
        pending: &mut Pending,
        paths: &mut Paths,
    ) -> Walk {
        let into = pending.room_for_reads(paths, usize::from(tlb_miss.reads));
        self.walk_into(into, tlb_miss, references, paths.counts)
    }

    /// The same, with a place for the reads.
    #[inline(always)]
    fn walk_into(
        &mut self,
        into: &mut [Read],
        tlb_miss: &TlbMiss,
        references: &mut References,
        counts: &mut Counts,
    ) -> Walk {
        let count = usize::from(tlb_miss.reads);
        let own = references.taken..references.taken + count;
        references.taken = own.end;
        let (steps, later) = self.steps.split_at(count);
        self.steps = later;
        let served = &references.served[own.clone()];
        let lines = &references.lines[own];
        for (((into, &served), &line), &step) in into.iter_mut().zip(served).zip(lines).zip(steps) {
            *into = Read { line, served, step };
            counts.walk_served[served as usize] += 1;
        }
        for &served in &served[..usize::from(tlb_miss.metadata)] {
            counts.metadata_served[served as usize] += 1;
        }
        Walk {
            fixed: tlb_miss.walk,
            payer: tlb_miss.payer,
            reads: tlb_miss.reads,
            background: tlb_miss.background,
            shift: tlb_miss.shift,
            cached: tlb_miss.cached,
        }
    }

    /// Counts what is fetched by guess while a walk is made.
    #[inline(always)]
    fn early(&mut self, tlb_miss: &TlbMiss, counts: &mut Counts) -> &'a [Early] {
        let (early, later) = self.early.split_at(tlb_miss.cached.early.into());
        self.early = later;
        for early in early {
            counts.early_served[early.served as usize] += 1;
        }
        early
    }

    /// Passes over what a walk reads.
    fn skip(&mut self, tlb_miss: &TlbMiss, references: &mut References) {
        references.taken += usize::from(tlb_miss.reads);
        self.steps = &self.steps[usize::from(tlb_miss.reads)..];
    }
}
