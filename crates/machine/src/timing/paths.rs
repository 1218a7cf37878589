//! When a line of an access has its translation and its data.

use super::counts::Counts;
use super::latencies::Latencies;
use super::task::{Read, Task, Walk};
use crate::caches::served::Served;
use crate::machine::requests::{Early, Prefetch, request};
use crate::memory::MainMemory;
use crate::mmu::PrefetchWalk;
use pagelab_cpu::{Core, Idle, RobEntry, Trapped};
use pagelab_memory::MODIFY;

/// Accesses in whose time a line of memory always takes as long, where reads take different times: a
/// clock without translation then has the same latencies, and a program that reads a line again others.
const STRETCH: usize = 4096;

/// Resources that the references of a core go through.
pub(crate) struct Paths<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) memory: &'a mut MainMemory,
    pub(crate) latencies: &'a Latencies,
    pub(crate) counts: &'a mut Counts,
}

impl Paths<'_> {
    /// Times an access that starts at `start` and needs no walk: when its translation is there
    /// and when its data.
    #[inline(always)]
    pub(super) fn run(&mut self, task: &Task, start: u64) -> (u64, u64) {
        let asked = self.asked(task.bits, start);
        let translated = self.look_up(task.bits, task.page, start, asked);
        (translated, self.data(task, translated, start).0)
    }

    /// Ends an access of one line whose translation was there at `translated` and whose data at `done`.
    #[inline(always)]
    pub(super) fn complete(
        &mut self,
        entry: RobEntry,
        trapped: Trapped,
        task: &Task,
        (translated, done): (u64, u64),
    ) {
        let store = task.bits & request::STORE != 0;
        (self.core).complete(entry, trapped, store, translated, done);
    }

    /// When the translation is there of an access that starts at `start` and whose walk is asked
    /// for at `asked`. The first of `ahead` are the walks that are behind it.
    #[inline(always)]
    pub(super) fn find(
        &mut self,
        walk: &Walk,
        (reads, ahead): (&[Read], &[PrefetchWalk]),
        task: (u8, u32),
        start: u64,
        asked: u64,
    ) -> u64 {
        let (bits, page) = task;
        if bits & request::LOOKED != 0 {
            return self.find_cached(walk, (reads, ahead), (bits, page), start, asked);
        }
        let translated = self.walk(walk, reads, asked, start);
        self.core
            .under_way
            .ask_page(page, walk.shift, start, translated);
        translated
    }

    /// The same of a walk that has to do with translations in caches and buffers.
    #[inline(never)]
    pub(super) fn find_cached(
        &mut self,
        walk: &Walk,
        (reads, ahead): (&[Read], &[PrefetchWalk]),
        (bits, page): (u8, u32),
        start: u64,
        asked: u64,
    ) -> u64 {
        let cached = walk.cached;
        let (reads, mut behind) = reads.split_at(reads.len() - usize::from(cached.behind));
        let translated = if cached.found {
            self.look_up(bits, page, start, asked)
        } else {
            let translated = self.walk(walk, reads, asked, start);
            self.core
                .under_way
                .ask_page(page, walk.shift, start, translated);
            translated
        };
        if cached.shift != 0 {
            self.core
                .under_way
                .ask_cached(page, cached.shift, asked, translated);
        }
        for ahead in &ahead[..usize::from(cached.ahead)] {
            let (own, later) = behind.split_at(usize::from(ahead.reads));
            behind = later;
            let fixed = u64::from(ahead.walk);
            let walker = (self.core).walker(translated, || fixed + self.idle(own));
            let ended = self.steps(own, walker.begins + fixed, start);
            let idle = self.idle_from(start, self.latencies.walks_enter);
            self.core.walked(walker, ended, idle);
            if let Some((page, shift)) = ahead.page {
                self.core
                    .under_way
                    .ask_cached(page, shift, translated, ended);
            }
        }
        translated
    }

    /// When an access that starts at `start` is done with the TLB.
    #[inline(always)]
    pub(super) fn asked(&self, bits: u8, start: u64) -> u64 {
        if bits & request::SECOND_TLB == 0 {
            start
        } else if bits & request::CACHED == 0 {
            start + self.latencies.second_tlb
        } else {
            start + self.latencies.second_tlb + self.latencies.cached_translation
        }
    }

    /// When the translation is there of an access that starts at `start` and that needs no walk
    /// after `asked`: the TLB has the page, or the kernel is back from a fault.
    #[inline(always)]
    pub(super) fn look_up(&mut self, bits: u8, page: u32, start: u64, asked: u64) -> u64 {
        let mut translated = self.core.under_way.page_there(page, start, asked);
        if bits & request::SECOND_TLB != 0 {
            if bits & request::CACHED != 0 {
                let there = self.core.under_way.cached_there(page, start, translated);
                self.counts.late_translations += u64::from(there > translated);
                translated = there;
            }
            self.core.under_way.ask_page(page, 0, start, translated);
        }
        translated
    }

    /// When the data is there of an access that starts at `start` and has its translation at
    /// `translated`; and when the second level is asked for it, or would be.
    #[inline(always)]
    pub(super) fn data(&mut self, task: &Task, translated: u64, start: u64) -> (u64, u64) {
        let &Task { served, line, .. } = task;
        let key = line & !MODIFY;
        let hit = translated + self.latencies.served[Served::L1 as usize];
        if served == Served::L1 {
            let done = self.core.under_way.line_there(key, translated, hit);
            return (done, translated);
        }
        if let Some(arrives) = self.core.under_way.line_arrives(key, translated) {
            return (arrives.max(hit), translated);
        }
        self.fetch(served, key, translated, start)
    }

    /// When a line arrives that the first level misses at `now`, for an access that starts at
    /// `start`; and when it has a miss buffer for it.
    #[inline(always)]
    pub(super) fn fetch(&mut self, served: Served, line: u32, now: u64, start: u64) -> (u64, u64) {
        let idle = || self.takes_idle(served, line);
        let buffer = self.core.miss_buffer(now, idle);
        let done = self.comes(served, line, buffer.begins, start);
        let idle = self.idle_from(start, Served::L2);
        self.core.missed(buffer, done, idle);
        self.core.under_way.ask_line(line, now, done);
        (done, buffer.begins)
    }

    /// As [`Paths::data`]; of a store to a line that other cores have to drop, when they have.
    #[inline(always)]
    pub(super) fn data_alone(&mut self, task: &Task, translated: u64, start: u64) -> (u64, u64) {
        if task.bits & request::INVALIDATES == 0 {
            self.data(task, translated, start)
        } else {
            self.invalidating(task, translated, start)
        }
    }

    /// A fetch while others drop the line. A line that the core holds already is asked for a second
    /// time, to be its own, and not before it has come.
    #[inline(never)]
    pub(super) fn invalidating(&mut self, task: &Task, translated: u64, start: u64) -> (u64, u64) {
        let invalidate = self.latencies.invalidate;
        if !matches!(task.served, Served::L1 | Served::L2) {
            let (done, sent) = self.data(task, translated, start);
            return (done.max(translated + invalidate), sent);
        }
        let comes = self
            .core
            .under_way
            .line_arrives(task.line & !MODIFY, translated);
        let buffer = (self.core).miss_buffer(comes.unwrap_or(translated), || invalidate);
        let done = buffer.begins + invalidate;
        let idle = self.idle_from(start, Served::L2);
        self.core.missed(buffer, done, idle);
        (done, buffer.begins)
    }

    /// When a line comes that is asked for at `now`, from beyond whoever asks, for an access that starts
    /// at `start`.
    #[inline(always)]
    pub(super) fn comes(&mut self, served: Served, line: u32, now: u64, start: u64) -> u64 {
        if self.core.bounds_l2_misses() && !matches!(served, Served::L1 | Served::L2) {
            return self.comes_past_l2(served, line, now, start);
        }
        now + self.takes(served, line, now)
    }

    /// The same of a line that the second level misses, where it has so many buffers for that: the line
    /// waits there for one, and has it until it comes.
    #[inline(never)]
    fn comes_past_l2(&mut self, served: Served, line: u32, now: u64, start: u64) -> u64 {
        let to_miss = self.latencies.served[Served::L2 as usize];
        let idle = || self.takes_idle(served, line);
        let length = || idle().saturating_sub(to_miss);
        let buffer = self.core.l2_miss_buffer(now + to_miss, length);
        let sent = buffer.map_or(now, |buffer| buffer.begins - to_miss);
        let comes = sent + self.takes(served, line, sent);
        if let Some(buffer) = buffer {
            let mut idle = self.idle_from(start, Served::Llc);
            idle.least = idle.least.saturating_sub(to_miss).max(1);
            self.core.l2_missed(buffer, comes.max(buffer.begins), idle);
        }
        comes
    }

    /// Time of a reference that goes out at `now`.
    #[inline(always)]
    fn takes(&mut self, served: Served, line: u32, now: u64) -> u64 {
        let read = (line, self.stretch());
        self.latencies.of(served, read, self.memory, now)
    }

    /// The same when memory is idle.
    #[inline(always)]
    fn takes_idle(&self, served: Served, line: u32) -> u64 {
        let read = (line, self.stretch());
        self.latencies.idle(served, read, self.memory)
    }

    /// The stretch of the program in which references go out.
    #[inline(always)]
    fn stretch(&self) -> u32 {
        (self.core.dispatched_accesses() / STRETCH) as u32
    }

    /// Fetches a line into the second level at `now` for an access that starts at `start`. It needs no
    /// miss buffer of the first.
    #[inline(never)]
    pub(super) fn prefetch(&mut self, prefetch: &Prefetch, now: u64, start: u64) {
        let &Prefetch { line, served, .. } = prefetch;
        if served == Served::L2 || self.core.under_way.line_arrives(line, now).is_some() {
            return;
        }
        let arrives = self.comes(served, line, now, start);
        self.core.under_way.ask_line(line, now, arrives);
    }

    /// Fetches lines by guess for an access that starts at `start` and whose walk is asked for at
    /// `asked`.
    #[inline(always)]
    pub(super) fn fetch_early(&mut self, early: &[Early], asked: u64, start: u64) {
        if !early.is_empty() {
            self.fetch_all_early(early, asked, start);
        }
    }

    #[inline(never)]
    fn fetch_all_early(&mut self, early: &[Early], asked: u64, start: u64) {
        for early in early {
            let now = asked + u64::from(early.after);
            if self.core.under_way.line_arrives(early.line, now).is_none() {
                self.fetch(early.served, early.line, now, start);
            }
        }
    }

    /// Counts whether an access to a line that was fetched early still has to wait for it.
    #[inline(always)]
    pub(super) fn count_late(&mut self, early: &[Early], line: u32, translated: u64) {
        let line = line & !MODIFY;
        if early.iter().any(|early| early.line == line) {
            let under_way = self.core.under_way.line_arrives(line, translated).is_some();
            self.counts.late_lines += u64::from(under_way);
        }
    }

    /// Times a walk asked for at `asked`; returns when it ends.
    #[inline]
    pub(super) fn walk(&mut self, walk: &Walk, reads: &[Read], asked: u64, start: u64) -> u64 {
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
    pub(super) fn steps(&mut self, reads: &[Read], begun: u64, start: u64) -> u64 {
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
    pub(super) fn idle_from(&self, start: u64, least: Served) -> Idle {
        Idle {
            from: start.min(self.core.dispatched()),
            least: self.latencies.served[least as usize].max(1),
        }
    }

    /// Time of a walk's steps when memory is idle.
    pub(super) fn idle(&self, reads: &[Read]) -> u64 {
        let (mut length, mut step, mut longest) = (0, 0, 0);
        for read in reads {
            if read.step != step {
                step = read.step;
                length += std::mem::take(&mut longest);
            }
            longest = longest.max(self.takes_idle(read.served, read.line));
        }
        length + longest
    }

    /// When a read comes back that a walker makes at `now` for an access that starts at `start`. A
    /// miss of the first level takes one of its buffers, whoever reads.
    #[inline(always)]
    pub(super) fn read(&mut self, &Read { line, served, .. }: &Read, now: u64, start: u64) -> u64 {
        let entry = self.latencies.walks_enter;
        let hit = now + self.latencies.served[entry as usize];
        if served == entry {
            return self.core.under_way.line_there(line, now, hit);
        }
        if let Some(arrives) = self.core.under_way.line_arrives(line, now) {
            return arrives.max(hit);
        }
        if entry == Served::L1 {
            return self.fetch(served, line, now, start).0;
        }
        let arrives = self.comes(served, line, now, start);
        self.core.under_way.ask_line(line, now, arrives);
        arrives
    }
}
