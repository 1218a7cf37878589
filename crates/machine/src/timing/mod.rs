mod free;
mod pending;

pub(crate) use free::FreeClocks;
pub(crate) use pending::Pending;

use crate::by_code::{Payer, Tallies};
use crate::chunk::{Chunk, Episode, Prefetch, part};
use crate::hierarchy::{PLACES, Served};
use crate::histogram::Histogram;
use crate::main_memory::MainMemory;
use pagelab_cpu::{Core, UNKNOWN};
use pagelab_memory::MODIFY;

#[cfg(test)]
mod tests;

/// Latencies of a machine, in slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    /// From where a reference is served. Memory's nodes have their own.
    pub(crate) served: [u64; PLACES],
    /// Until other cores have dropped a line.
    pub(crate) invalidate: u64,
    /// Second-level TLB.
    pub(crate) second_tlb: u64,
    /// The first level in which walks look.
    pub(crate) walks_enter: Served,
}

impl Latencies {
    /// How long a reference takes that goes out at `now`.
    #[inline(always)]
    fn of(&self, served: Served, line: u32, memory: &mut MainMemory, now: u64) -> u64 {
        match served {
            Served::Dram => memory.read(line & !MODIFY, now),
            Served::Llc => {
                memory.of_last_level(line & !MODIFY, now, self.served[Served::Llc as usize])
            }
            cache => self.served[cache as usize],
        }
    }

    /// How long a reference takes when memory is idle.
    #[inline(always)]
    fn idle(&self, served: Served, line: u32, memory: &MainMemory) -> u64 {
        match served {
            Served::Dram => memory.latency(line & !MODIFY),
            cache => self.served[cache as usize],
        }
    }
}

/// The references of a chunk, of which the first `taken` have been timed.
struct References<'a> {
    served: &'a [Served],
    lines: &'a [u32],
    taken: usize,
}

impl<'a> References<'a> {
    #[inline(always)]
    fn next(&mut self) -> Option<(Served, u32)> {
        let next = (*self.served.get(self.taken)?, *self.lines.get(self.taken)?);
        self.taken += 1;
        Some(next)
    }

    /// The next few: where they are served, and their lines.
    #[inline(always)]
    fn take(&mut self, count: usize) -> (&'a [Served], &'a [u32]) {
        let own = self.taken..self.taken + count;
        self.taken = own.end;
        (&self.served[own.clone()], &self.lines[own])
    }
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

/// The last walk for an access, which finds its page.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'a> {
    fixed: u64,
    /// log2 of the base pages of what it finds.
    shift: u8,
    background: usize,
    payer: Payer,
    served: &'a [Served],
    lines: &'a [u32],
    steps: &'a [u8],
}

/// A line of an access that takes no more page faults.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    bits: u8,
    page: u32,
    served: Served,
    line: u32,
    walk: Option<Walk<'a>>,
    /// Lines that are fetched on its account.
    prefetches: &'a [Prefetch],
}

impl Task<'_> {
    /// Whether it uses something that others use, too.
    #[inline(always)]
    fn contends(&self) -> bool {
        self.walk.is_some() || self.served != Served::L1
    }
}

/// Takes a chunk whose references have been served through a core's clock. With `FREE`,
/// translations take no time and nothing is counted.
#[inline(always)]
pub(crate) fn time<const FREE: bool>(
    paths: &mut Paths,
    pending: &mut Pending,
    chunk: &Chunk,
    gap: &[u32],
    dep: &[u32],
) {
    let mut references = References {
        served: chunk.served.as_slice(),
        lines: chunk.references.as_slice(),
        taken: 0,
    };
    let mut episodes = chunk.episodes.as_slice().iter();
    let mut steps = chunk.steps.as_slice();
    let mut write_backs = chunk.write_backs.as_deref().unwrap_or_default();
    let mut prefetches = chunk.prefetches.as_slice();
    let mut due = first_due(write_backs, prefetches);
    let mut access = 0;
    let parts = chunk.parts.as_slice();
    for (number, (&bits, &page)) in parts.iter().zip(chunk.pages.as_slice()).enumerate() {
        let store = bits & part::STORE != 0;
        let straddles = bits & part::REST != 0
            || parts
                .get(number + 1)
                .is_some_and(|next| next & part::REST != 0);
        let bits = if FREE { bits & !part::SECOND_TLB } else { bits };
        if bits & (part::SLOW | part::INVALIDATES) == 0
            && !straddles
            && pending.is_empty()
            && references.taken < due
        {
            // Most accesses: the TLB has the page, nothing before them is unfinished, and nothing
            // is fetched or written back on their account.
            let (gap, dep) = (gap[access], dep[access]);
            access += 1;
            let part = paths.core.dispatch(gap, dep, store);
            let Some((served, line)) = references.next() else {
                debug_assert!(false, "a part has a data reference");
                return;
            };
            if !FREE {
                paths.counts.data_served[served as usize] += 1;
            }
            if served == Served::L1 || part.start == paths.core.dispatched() {
                let asked = paths.asked(bits, part.start);
                let translated = paths.look_up(bits, page, part.start, asked);
                let done = paths.data(served, line, translated, part.start);
                paths.core.complete(part, store, translated, done);
            } else {
                let task = Task {
                    bits,
                    page,
                    served,
                    line,
                    walk: None,
                    prefetches: &[],
                };
                pending.defer(paths, part, &task, dep);
            }
            continue;
        }
        let mut faults: &[Episode] = &[];
        let mut walk = None;
        if bits & part::SLOW != 0 {
            let all = episodes.as_slice();
            let faulting = all.iter().take_while(|episode| episode.faulted).count();
            faults = &all[..faulting];
            episodes = all[(faulting + 1).min(all.len())..].iter();
            // What the faulting walks read comes first.
            walk = all.get(faulting);
        }
        let reads = walk.map_or(0, |episode| usize::from(episode.reads));
        let alone = !faults.is_empty() || (!FREE && reads > pending::READS);
        if alone && !pending.is_empty() {
            pending.run_all(paths);
        }
        let mut part = if bits & part::REST != 0 {
            paths.core.dispatch_rest(store, pending.is_empty())
        } else {
            access += 1;
            let (gap, dep) = (gap[access - 1], dep[access - 1]);
            if !pending.is_empty() {
                pending.make_room(paths, gap, store);
            }
            let part = paths.core.dispatch(gap, dep, store);
            if pending.is_empty() {
                part
            } else {
                pending.run_before(paths, paths.core.dispatched());
                let known = paths.core.started(part, dep);
                if straddles && known.start == UNKNOWN {
                    pending.run_all(paths);
                    paths.core.started(part, dep)
                } else {
                    known
                }
            }
        };
        // A fault moves the start of its access; what it asks for was asked for before that.
        let start = part.start;
        let mut asked = start;
        if asked != UNKNOWN {
            asked = paths.asked(bits, start);
        }
        for episode in faults {
            if FREE {
                references.take(usize::from(episode.reads));
                steps = &steps[usize::from(episode.reads)..];
            } else if episode.walked {
                let walk = Walk::of(episode, &mut references, &mut steps, paths.counts);
                asked = paths.walk(&walk, asked, part.start);
            }
            asked = paths
                .core
                .trap(&mut part, asked, episode.fault, episode.migration);
        }
        if FREE && let Some(episode) = walk {
            references.take(usize::from(episode.reads));
            steps = &steps[usize::from(episode.reads)..];
        }
        let walk = walk
            .filter(|episode| !FREE && episode.walked)
            .map(|episode| Walk::of(episode, &mut references, &mut steps, paths.counts));
        let Some((served, line)) = references.next() else {
            debug_assert!(false, "a part has a data reference");
            return;
        };
        if !FREE {
            paths.counts.data_served[served as usize] += 1;
        }
        let taken = references.taken as u32;
        while let Some((&(place, line), later)) = write_backs.split_first()
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
            write_backs = later;
        }
        let own = prefetches.partition_point(|prefetch| prefetch.place < taken);
        let own = prefetches.split_at(own);
        prefetches = own.1;
        due = first_due(write_backs, prefetches);
        if !FREE {
            for prefetch in own.0 {
                paths.counts.prefetch_served[prefetch.served as usize] += 1;
            }
        }
        let task = Task {
            bits,
            page,
            served,
            line,
            walk,
            prefetches: own.0,
        };
        if !straddles && !alone {
            // What starts when it is dispatched comes before everything that follows.
            let early = part.start == paths.core.dispatched();
            if !early && (task.contends() || !pending.is_empty()) {
                pending.defer(paths, part, &task, dep[access - 1]);
                continue;
            }
        }
        let (translated, done) = paths.run(&task, start, asked);
        if pending.is_empty() {
            paths.core.complete(part, store, translated, done);
        } else if bits & part::REST != 0 {
            pending.join(paths, translated, done);
        } else {
            pending.ended(paths, part, store, translated, done);
        }
    }
}

/// The place of the first reference on whose account there is something to do besides.
#[inline(always)]
fn first_due(write_backs: &[(u32, u32)], prefetches: &[Prefetch]) -> usize {
    let write_back = write_backs.first().map_or(u32::MAX, |first| first.0);
    let prefetch = prefetches.first().map_or(u32::MAX, |first| first.place);
    write_back.min(prefetch) as usize
}

impl<'a> Walk<'a> {
    #[inline(always)]
    fn of(
        episode: &Episode,
        references: &mut References<'a>,
        steps: &mut &'a [u8],
        counts: &mut Counts,
    ) -> Self {
        let (served, lines) = references.take(usize::from(episode.reads));
        for (number, &served) in served.iter().enumerate() {
            counts.walk_served[served as usize] += 1;
            let metadata = number < usize::from(episode.metadata);
            counts.metadata_served[served as usize] += u64::from(metadata);
        }
        let (own, later) = steps.split_at(episode.reads as usize);
        *steps = later;
        Walk {
            fixed: episode.walk,
            shift: episode.shift,
            background: usize::from(episode.background),
            payer: episode.payer,
            served,
            lines,
            steps: own,
        }
    }

    /// What something waits for.
    #[inline(always)]
    fn waited(&self) -> impl Iterator<Item = (Served, u32, u8)> {
        let count = self.served.len() - self.background;
        let all = self.served.iter().zip(self.lines).zip(self.steps);
        all.take(count)
            .map(|((&served, &line), &step)| (served, line, step))
    }
}

impl Paths<'_> {
    /// Times a line of an access that starts at `start` and whose walk, if there is one, is asked
    /// for at `asked`: when its translation is there and when its data.
    #[inline(always)]
    fn run(&mut self, task: &Task, start: u64, asked: u64) -> (u64, u64) {
        let translated = if let Some(walk) = &task.walk {
            let translated = self.walk(walk, asked, start);
            self.core.ask_page(task.page, walk.shift, start, translated);
            translated
        } else {
            self.look_up(task.bits, task.page, start, asked)
        };
        let done = if task.bits & part::INVALIDATES == 0 {
            self.data(task.served, task.line, translated, start)
        } else {
            self.invalidating(task.served, task.line, translated, start)
        };
        for prefetch in task.prefetches {
            self.prefetch(prefetch, translated);
        }
        (translated, done)
    }

    /// When an access that starts at `start` is done with the TLB.
    #[inline(always)]
    fn asked(&self, bits: u8, start: u64) -> u64 {
        if bits & part::SECOND_TLB == 0 {
            start
        } else {
            start + self.latencies.second_tlb
        }
    }

    /// When the translation is there of an access that starts at `start` and that needs no walk
    /// after `asked`: the TLB has the page, or the kernel is back from a fault.
    #[inline(always)]
    fn look_up(&mut self, bits: u8, page: u32, start: u64, asked: u64) -> u64 {
        let translated = self.core.page_there(page, start, asked);
        if bits & part::SECOND_TLB != 0 {
            self.core.ask_page(page, 0, start, translated);
        }
        translated
    }

    /// When the data is there of an access that starts at `start` and has its translation at
    /// `translated`.
    #[inline(always)]
    fn data(&mut self, served: Served, line: u32, translated: u64, start: u64) -> u64 {
        let key = line & !MODIFY;
        let hit = translated + self.latencies.served[Served::L1 as usize];
        if served == Served::L1 {
            return self.core.line_there(key, translated, hit);
        }
        if let Some(arrives) = self.core.line_under_way(key, translated) {
            return arrives.max(hit);
        }
        let idle = || self.latencies.idle(served, key, self.memory);
        let buffer = self.core.miss_buffer(translated, idle);
        let latency = self.latencies.of(served, key, self.memory, buffer.begins);
        let done = buffer.begins + latency;
        self.core.missed(buffer, done, start);
        self.core.ask_line(key, translated, done);
        done
    }

    /// As [`Paths::data`], for a store to a line that other cores have to drop.
    ///
    /// What is fetched comes while they do. A line that the core holds already is asked for a
    /// second time, to be its own, and not before it has come.
    #[inline(never)]
    fn invalidating(&mut self, served: Served, line: u32, translated: u64, start: u64) -> u64 {
        let invalidate = self.latencies.invalidate;
        if !matches!(served, Served::L1 | Served::L2) {
            let done = self.data(served, line, translated, start);
            return done.max(translated + invalidate);
        }
        let comes = self.core.line_under_way(line & !MODIFY, translated);
        let buffer = (self.core).miss_buffer(comes.unwrap_or(translated), || invalidate);
        let done = buffer.begins + invalidate;
        self.core.missed(buffer, done, start);
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
    fn walk(&mut self, walk: &Walk, asked: u64, start: u64) -> u64 {
        let latencies = self.latencies;
        let walker = self.core.walker(asked, || {
            let mut length = walk.fixed;
            let (mut step, mut longest) = (0, 0);
            for (served, line, at) in walk.waited() {
                if at != step {
                    step = at;
                    length += std::mem::take(&mut longest);
                }
                longest = longest.max(latencies.idle(served, line, self.memory));
            }
            length + longest
        });
        let begun = walker.begins;
        let background = walk.served.len() - walk.background;
        for (&served, &line) in walk.served.iter().zip(walk.lines).skip(background) {
            self.read(served, line, begun);
        }
        let mut step_begun = begun + walk.fixed;
        let mut step_ended = step_begun;
        let mut step = 0;
        for (served, line, at) in walk.waited() {
            if at != step {
                step = at;
                step_begun = step_ended;
            }
            step_ended = step_ended.max(self.read(served, line, step_begun));
        }
        self.core.walked(walker, step_ended, start);
        self.counts.walker_wait += begun - asked;
        let cycles = (step_ended - begun) / self.core.slots_per_cycle();
        self.counts.walk_latency.record(cycles);
        if let Some(by_code) = &mut self.counts.by_code {
            by_code.walked(walk.payer, cycles);
        }
        step_ended
    }

    /// When a read that a walker makes at `now` comes back.
    #[inline(always)]
    fn read(&mut self, served: Served, line: u32, now: u64) -> u64 {
        let entry = self.latencies.walks_enter;
        let hit = now + self.latencies.served[entry as usize];
        if served == entry {
            return self.core.line_there(line, now, hit);
        }
        if let Some(arrives) = self.core.line_under_way(line, now) {
            return arrives.max(hit);
        }
        let arrives = now + self.latencies.of(served, line, self.memory, now);
        self.core.ask_line(line, now, arrives);
        arrives
    }
}
