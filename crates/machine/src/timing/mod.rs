mod free;
mod latencies;
mod pending;

pub(crate) use free::FreeClocks;
pub(crate) use latencies::Latencies;
pub(crate) use pending::Pending;

use crate::by_code::{Payer, Tallies};
use crate::chunk::{Cached, Chunk, Episode, Prefetch, part};
use crate::hierarchy::{PLACES, Served};
use crate::histogram::Histogram;
use crate::main_memory::MainMemory;
use pagelab_cpu::{Core, Idle, Trapped, UNKNOWN};
use pagelab_memory::MODIFY;

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
    /// Instructions before each access, and how far back the load is that made its address.
    pub(crate) gap: &'a [u32],
    pub(crate) dep: &'a [u32],
    /// Mispredicted branches: before which access, and how far before it the load is that decided.
    pub(crate) mispredicted: &'a [(u32, u32)],
}

/// What the timing counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Data references by where they were served.
    pub(crate) data_served: [u64; PLACES],
    /// Prefetches by where they were served.
    pub(crate) prefetch_served: [u64; PLACES],
    /// Walk references by where they were served.
    pub(crate) walk_served: [u64; PLACES],
    /// Those of them that read metadata.
    pub(crate) metadata_served: [u64; PLACES],
    /// Latency of each walk in cycles, from a walker's start to its end.
    pub(crate) walk_latency: Histogram,
    /// Cycles that walks waited for a free walker.
    pub(crate) walker_wait: u64,
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
    /// What only designs have that look into caches.
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
    let left_at = |branch: Option<&(u32, u32)>| {
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
        episodes: chunk.episodes.as_slice(),
        steps: chunk.steps.as_slice(),
        write_backs: chunk.write_backs.as_deref().unwrap_or_default(),
        prefetches: chunk.prefetches.as_slice(),
    };
    let mut due = slow.first_due();
    let mut accesses = gap.iter().zip(dep);
    let parts = chunk.parts.as_slice();
    let mut next = parts.first().copied().unwrap_or(0);
    for (number, &page) in chunk.pages.as_slice().iter().enumerate() {
        let bits = next;
        next = parts.get(number + 1).copied().unwrap_or(0);
        let straddles = (bits | next) & part::REST != 0;
        if bits & (part::SLOW | part::INVALIDATES) != 0 || straddles || references.taken >= due {
            let first = bits & part::REST == 0;
            if first && accesses.len() == branch_due {
                pending.mispredicted(paths, &mut mispredicted);
                branch_due = left_at(mispredicted.first());
            }
            let (gap, dep) = if first {
                accesses.next().unwrap_or((&0, &0))
            } else {
                (&0, &0)
            };
            slow.part::<FREE>(
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
        let bits = if FREE { bits & !part::SECOND_TLB } else { bits };
        let store = bits & part::STORE != 0;
        if accesses.len() == branch_due {
            pending.mispredicted(paths, &mut mispredicted);
            branch_due = left_at(mispredicted.first());
        }
        let (Some((&gap, &dep)), Some((served, line))) = (accesses.next(), references.next())
        else {
            debug_assert!(false, "a part has an access and a data reference");
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
        let (part, alone) = pending.dispatch(paths, gap, dep, store);
        if part.start == paths.core.dispatched() || (alone && served == Served::L1) {
            let (translated, done) = paths.run(&task, part.start);
            if alone {
                let trapped = Trapped::default();
                paths.core.complete(part, trapped, store, translated, done);
            } else {
                pending.ended(paths, part, store, translated, done);
            }
        } else {
            pending.defer(paths, part, task, dep);
        }
    }
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
    episodes: &'a [Episode],
    steps: &'a [u8],
    write_backs: &'a [(u32, u32)],
    prefetches: &'a [Prefetch],
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
    fn part<const FREE: bool>(
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
        let store = bits & part::STORE != 0;
        let mut faults: &[Episode] = &[];
        let mut walk = None;
        if bits & part::SLOW != 0 {
            let faulting = self.episodes.iter().take_while(|of| of.faulted).count();
            // What the faulting walks read comes first.
            faults = &self.episodes[..faulting];
            walk = self.episodes.get(faulting);
            self.episodes = self.episodes.get(faulting + 1..).unwrap_or_default();
        }
        let bits = if FREE { bits & !part::SECOND_TLB } else { bits };
        let reads = walk.map_or(0, |episode| usize::from(episode.reads));
        let alone = !faults.is_empty() || (!FREE && reads > pending::READS);
        if alone && !pending.is_empty() {
            pending.run_all(paths);
        }
        let mut part = if bits & part::REST != 0 {
            paths.core.dispatch_rest(store, pending.is_empty())
        } else {
            let (part, _) = pending.dispatch(paths, gap, dep, store);
            if straddles && part.start == UNKNOWN {
                pending.run_all(paths);
                paths.core.started(part, dep)
            } else {
                part
            }
        };
        // A fault moves the start of its access; what it asks for was asked for before that.
        let start = part.start;
        let mut asked = start;
        if asked != UNKNOWN {
            asked = paths.asked(bits, start);
        }
        let mut trapped = Trapped::default();
        for episode in faults {
            if FREE {
                self.skip(episode, references);
            } else if episode.walked {
                let walk = self.walk(episode, references, pending, paths);
                asked = paths.walk(&walk, pending.reads(paths, &walk), asked, part.start);
            }
            let &Episode {
                fault, migration, ..
            } = episode;
            trapped.fault += fault;
            trapped.migration += migration;
            asked = (paths.core).trap(&mut part, asked, Trapped { fault, migration });
        }
        if FREE && let Some(episode) = walk {
            self.skip(episode, references);
        }
        let walk = walk
            .filter(|episode| !FREE && episode.walked)
            .map(|episode| self.walk(episode, references, pending, paths));
        let Some((served, line)) = references.next() else {
            debug_assert!(false, "a part has a data reference");
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
        if !straddles && !alone {
            // What starts when it is dispatched comes before everything that follows.
            let early = part.start == paths.core.dispatched();
            let contends = walk.is_some() || served != Served::L1 || bits & part::INVALIDATES != 0;
            if !early && (contends || !pending.is_empty()) {
                pending.defer_with(paths, part, task, dep, walk, prefetches);
                return;
            }
        }
        let translated = match &walk {
            None => paths.look_up(bits, page, start, asked),
            Some(walk) => {
                let reads = pending.reads(paths, walk);
                paths.find(walk, reads, (bits, page), start, asked)
            }
        };
        let done = paths.data_alone(&task, translated, start);
        for prefetch in prefetches {
            paths.prefetch(prefetch, translated);
        }
        if pending.is_empty() {
            paths.core.complete(part, trapped, store, translated, done);
        } else if bits & part::REST != 0 {
            pending.join(paths, translated, done);
        } else {
            pending.ended(paths, part, store, translated, done);
        }
    }

    /// Counts what a walk reads and keeps it with the access that was dispatched last.
    #[inline(always)]
    fn walk(
        &mut self,
        episode: &Episode,
        references: &mut References,
        pending: &mut Pending,
        paths: &mut Paths,
    ) -> Walk {
        let count = usize::from(episode.reads);
        let own = references.taken..references.taken + count;
        references.taken = own.end;
        let (steps, later) = self.steps.split_at(count);
        self.steps = later;
        let served = &references.served[own.clone()];
        let lines = &references.lines[own];
        let into = pending.room_for_reads(paths, count);
        for (((into, &served), &line), &step) in into.iter_mut().zip(served).zip(lines).zip(steps) {
            *into = Read { line, served, step };
            paths.counts.walk_served[served as usize] += 1;
        }
        for &served in &served[..usize::from(episode.metadata)] {
            paths.counts.metadata_served[served as usize] += 1;
        }
        Walk {
            fixed: episode.walk,
            payer: episode.payer,
            reads: episode.reads,
            background: episode.background,
            shift: episode.shift,
            cached: episode.cached,
        }
    }

    /// Passes over what a walk reads.
    fn skip(&mut self, episode: &Episode, references: &mut References) {
        references.taken += usize::from(episode.reads);
        self.steps = &self.steps[usize::from(episode.reads)..];
    }
}

impl Paths<'_> {
    /// Times an access that starts at `start` and needs no walk: when its translation is there
    /// and when its data.
    #[inline(always)]
    fn run(&mut self, task: &Task, start: u64) -> (u64, u64) {
        let asked = self.asked(task.bits, start);
        let translated = self.look_up(task.bits, task.page, start, asked);
        (translated, self.data(task, translated, start))
    }

    /// When the translation is there of an access that starts at `start` and whose walk is asked
    /// for at `asked`.
    #[inline(always)]
    fn find(
        &mut self,
        walk: &Walk,
        reads: &[Read],
        task: (u8, u32),
        start: u64,
        asked: u64,
    ) -> u64 {
        let (bits, page) = task;
        if bits & part::LOOKED != 0 {
            return self.find_cached(walk, reads, (bits, page), start, asked);
        }
        let translated = self.walk(walk, reads, asked, start);
        self.core.ask_page(page, walk.shift, start, translated);
        translated
    }

    /// The same of a walk that has to do with translations in caches.
    #[inline(never)]
    fn find_cached(
        &mut self,
        walk: &Walk,
        reads: &[Read],
        (bits, page): (u8, u32),
        start: u64,
        asked: u64,
    ) -> u64 {
        let cached = walk.cached;
        let (reads, behind) = reads.split_at(reads.len() - usize::from(cached.behind));
        let translated = if cached.found {
            self.look_up(bits, page, start, asked)
        } else {
            let translated = self.walk(walk, reads, asked, start);
            self.core.ask_page(page, walk.shift, start, translated);
            translated
        };
        if cached.shift != 0 {
            (self.core).ask_cached(page, cached.shift, asked, translated);
        }
        if !behind.is_empty() {
            let fixed = u64::from(cached.behind_walk);
            let walker = (self.core).walker(translated, || fixed + self.idle(behind));
            let ended = self.steps(behind, walker.begins + fixed, start);
            let idle = self.idle_from(start, self.latencies.walks_enter);
            self.core.walked(walker, ended, idle);
        }
        translated
    }

    /// When an access that starts at `start` is done with the TLB.
    #[inline(always)]
    fn asked(&self, bits: u8, start: u64) -> u64 {
        if bits & part::SECOND_TLB == 0 {
            start
        } else if bits & part::CACHED == 0 {
            start + self.latencies.second_tlb
        } else {
            start + self.latencies.second_tlb + self.latencies.cached_translation
        }
    }

    /// When the translation is there of an access that starts at `start` and that needs no walk
    /// after `asked`: the TLB has the page, or the kernel is back from a fault.
    #[inline(always)]
    fn look_up(&mut self, bits: u8, page: u32, start: u64, asked: u64) -> u64 {
        let mut translated = self.core.page_there(page, start, asked);
        if bits & part::SECOND_TLB != 0 {
            if bits & part::CACHED != 0 {
                translated = self.core.cached_there(page, start, translated);
            }
            self.core.ask_page(page, 0, start, translated);
        }
        translated
    }

    /// When the data is there of an access that starts at `start` and has its translation at
    /// `translated`.
    #[inline(always)]
    fn data(&mut self, task: &Task, translated: u64, start: u64) -> u64 {
        let &Task { served, line, .. } = task;
        let key = line & !MODIFY;
        let hit = translated + self.latencies.served[Served::L1 as usize];
        if served == Served::L1 {
            return self.core.line_there(key, translated, hit);
        }
        if let Some(arrives) = self.core.line_under_way(key, translated) {
            return arrives.max(hit);
        }
        self.fetch(served, key, translated, start)
    }

    /// When a line arrives that the first level misses at `now`, for an access that starts at
    /// `start`.
    #[inline(always)]
    fn fetch(&mut self, served: Served, line: u32, now: u64, start: u64) -> u64 {
        let idle = || self.latencies.idle(served, line, self.memory);
        let buffer = self.core.miss_buffer(now, idle);
        let latency = self.latencies.of(served, line, self.memory, buffer.begins);
        let done = buffer.begins + latency;
        let idle = self.idle_from(start, Served::L2);
        self.core.missed(buffer, done, idle);
        self.core.ask_line(line, now, done);
        done
    }

    /// As [`Paths::data`]; of a store to a line that other cores have to drop, when they have.
    #[inline(always)]
    fn data_alone(&mut self, task: &Task, translated: u64, start: u64) -> u64 {
        if task.bits & part::INVALIDATES == 0 {
            self.data(task, translated, start)
        } else {
            self.invalidating(task, translated, start)
        }
    }

    /// What is fetched comes while others drop the line. A line that the core holds already is
    /// asked for a second time, to be its own, and not before it has come.
    #[inline(never)]
    fn invalidating(&mut self, task: &Task, translated: u64, start: u64) -> u64 {
        let invalidate = self.latencies.invalidate;
        if !matches!(task.served, Served::L1 | Served::L2) {
            let done = self.data(task, translated, start);
            return done.max(translated + invalidate);
        }
        let comes = self.core.line_under_way(task.line & !MODIFY, translated);
        let buffer = (self.core).miss_buffer(comes.unwrap_or(translated), || invalidate);
        let done = buffer.begins + invalidate;
        let idle = self.idle_from(start, Served::L2);
        self.core.missed(buffer, done, idle);
        done
    }

    /// Fetches a line into the second level at `now`. It needs no miss buffer of the first.
    #[inline(never)]
    fn prefetch(&mut self, &Prefetch { line, served, .. }: &Prefetch, now: u64) {
        if served == Served::L2 || self.core.line_under_way(line, now).is_some() {
            return;
        }
        let arrives = now + self.latencies.of(served, line, self.memory, now);
        self.core.ask_line(line, now, arrives);
    }

    /// Times a walk asked for at `asked`; returns when it ends.
    #[inline]
    fn walk(&mut self, walk: &Walk, reads: &[Read], asked: u64, start: u64) -> u64 {
        let (waited, background) = reads.split_at(reads.len() - usize::from(walk.background));
        let walker = (self.core).walker(asked, || walk.fixed + self.idle(waited));
        let begun = walker.begins;
        for read in background {
            self.read(read, begun, start);
        }
        let step_ended = self.steps(waited, begun + walk.fixed, start);
        let idle = self.idle_from(start, self.latencies.walks_enter);
        self.core.walked(walker, step_ended, idle);
        self.counts.walker_wait += begun - asked;
        let cycles = (step_ended - begun) / self.core.slots_per_cycle();
        self.counts.walk_latency.record(cycles);
        if let Some(by_code) = &mut self.counts.by_code {
            by_code.walked(walk.payer, cycles);
        }
        step_ended
    }

    /// When the reads of a walk have come that begins at `begun`, for an access that starts at `start`.
    #[inline(always)]
    fn steps(&mut self, reads: &[Read], begun: u64, start: u64) -> u64 {
        let mut step_begun = begun;
        let mut step_ended = begun;
        let mut step = 0;
        for read in reads {
            if read.step != step {
                step = read.step;
                step_begun = step_ended;
            }
            step_ended = step_ended.max(self.read(read, step_begun, start));
        }
        step_ended
    }

    /// The idle time of what an access has that starts at `start`: whoever comes later asks for
    /// no earlier time, and not for less than a reference that `least` serves.
    #[inline(always)]
    fn idle_from(&self, start: u64, least: Served) -> Idle {
        Idle {
            from: start.min(self.core.dispatched()),
            least: self.latencies.served[least as usize].max(1),
        }
    }

    /// How long the steps of a walk take when memory is idle.
    fn idle(&self, reads: &[Read]) -> u64 {
        let (mut length, mut step, mut longest) = (0, 0, 0);
        for read in reads {
            if read.step != step {
                step = read.step;
                length += std::mem::take(&mut longest);
            }
            longest = longest.max(self.latencies.idle(read.served, read.line, self.memory));
        }
        length + longest
    }

    /// When a read comes back that a walker makes at `now` for an access that starts at `start`. A
    /// miss of the first level takes one of its buffers, whoever reads.
    #[inline(always)]
    fn read(&mut self, &Read { line, served, .. }: &Read, now: u64, start: u64) -> u64 {
        let entry = self.latencies.walks_enter;
        let hit = now + self.latencies.served[entry as usize];
        if served == entry {
            return self.core.line_there(line, now, hit);
        }
        if let Some(arrives) = self.core.line_under_way(line, now) {
            return arrives.max(hit);
        }
        if entry == Served::L1 {
            return self.fetch(served, line, now, start);
        }
        let arrives = now + self.latencies.of(served, line, self.memory, now);
        self.core.ask_line(line, now, arrives);
        arrives
    }
}
