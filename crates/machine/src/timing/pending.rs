use super::{Paths, Task, Walk};
use crate::by_code::Payer;
use crate::chunk::{Prefetch, part};
use crate::hierarchy::Served;
use pagelab_cpu::{Part, UNKNOWN};
use pagelab_memory::MAX_PREFETCHES;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Accesses that were dispatched and cannot run yet, since what comes after them in the program
/// may come before them in time.
///
/// An access that waits for its address, and then for a walker, a miss buffer or memory, is put
/// aside until everything that starts before it has been dispatched. So what they share is had in
/// the order in which accesses start. Whatever follows in the program is kept until it has ended,
/// since retirement is in order.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// By the access's number modulo the length, a power of two that no reorder buffer exceeds.
    records: Box<[Record]>,
    /// Those whose start is known, the earliest first.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    /// The oldest access that has not ended, and the one after the last.
    first: usize,
    end: usize,
}

/// The most reads of a walk that is put aside.
pub(super) const READS: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    part: Part,
    store: bool,
    translated: u64,
    /// [`UNKNOWN`] until it has run.
    done: u64,
    /// How many accesses later the first of those is that wait for this one, and the next that
    /// waits for the same; 0 for none.
    waiter: u32,
    next_waiter: u32,
    dispatched: u64,
    bits: u8,
    served: Served,
    page: u32,
    line: u32,
    walk: Option<Reads>,
    prefetches: [Prefetch; MAX_PREFETCHES],
    prefetch_count: u8,
}

/// A [`Walk`] with room for its reads.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    fixed: u64,
    payer: Payer,
    shift: u8,
    background: u8,
    count: u8,
    served: [Served; READS],
    steps: [u8; READS],
    lines: [u32; READS],
}

impl Pending {
    pub(crate) fn new(reorder_buffer: u32) -> Self {
        let places = (reorder_buffer as usize + 2).next_power_of_two();
        Pending {
            records: vec![Record::default(); places].into(),
            ready: BinaryHeap::with_capacity(places),
            first: 0,
            end: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    #[inline(always)]
    fn record(&mut self, access: usize) -> &mut Record {
        let last = self.records.len() - 1;
        &mut self.records[access & last]
    }

    /// Runs what has to end before the next access can be dispatched.
    pub(super) fn make_room(&mut self, paths: &mut Paths, gap: u32, store: bool) {
        while !self.is_empty() {
            let oldest = self.record(self.first).part.number;
            if paths.core.knows_dispatch(gap, store, oldest) {
                return;
            }
            self.run_next(paths);
        }
    }

    /// Runs whatever starts before `time`.
    pub(super) fn run_before(&mut self, paths: &mut Paths, time: u64) {
        while self.ready.peek().is_some_and(|next| next.0.0 <= time) {
            self.run_next(paths);
        }
    }

    /// Runs everything.
    pub(crate) fn run_all(&mut self, paths: &mut Paths) {
        while !self.is_empty() {
            self.run_next(paths);
        }
    }

    /// Puts the access aside that was dispatched last. Its walk is one that fits.
    pub(super) fn defer(&mut self, paths: &mut Paths, part: Part, task: &Task, dep: u32) {
        let access = self.add(paths, part, task.bits & part::STORE != 0);
        let dispatched = paths.core.dispatched();
        let record = self.record(access);
        record.dispatched = dispatched;
        record.bits = task.bits;
        record.served = task.served;
        record.page = task.page;
        record.line = task.line;
        record.walk = task.walk.as_ref().map(Reads::of);
        record.prefetch_count = task.prefetches.len() as u8;
        record.prefetches[..task.prefetches.len()].copy_from_slice(task.prefetches);
        if part.start != UNKNOWN {
            self.ready.push(Reverse((part.start, access)));
            return;
        }
        let producer = access - dep as usize;
        let others = std::mem::replace(&mut self.record(producer).waiter, dep);
        self.record(access).next_waiter = others;
    }

    /// The access that was dispatched last has run already.
    pub(super) fn ended(
        &mut self,
        paths: &mut Paths,
        part: Part,
        store: bool,
        translated: u64,
        done: u64,
    ) {
        let access = self.add(paths, part, store);
        let record = self.record(access);
        record.translated = translated;
        record.done = done;
        paths.core.has_data(access, done);
    }

    /// A further line of the access that has run last.
    pub(super) fn join(&mut self, paths: &mut Paths, translated: u64, done: u64) {
        let access = self.end - 1;
        let record = self.record(access);
        record.translated = record.translated.max(translated);
        record.done = record.done.max(done);
        paths.core.has_data(access, record.done);
    }

    #[inline(always)]
    fn add(&mut self, paths: &mut Paths, part: Part, store: bool) -> usize {
        let access = paths.core.dispatched_accesses() - 1;
        if self.is_empty() {
            self.first = access;
        }
        self.end = access + 1;
        let record = self.record(access);
        record.part = part;
        record.store = store;
        record.done = UNKNOWN;
        record.waiter = 0;
        record.next_waiter = 0;
        access
    }

    /// Runs the access that starts first, and ends those whose turn to retire has come.
    fn run_next(&mut self, paths: &mut Paths) {
        let Some(Reverse((start, access))) = self.ready.pop() else {
            debug_assert!(false, "an access waits for nothing");
            self.first = self.end;
            return;
        };
        let record = self.record(access);
        let task = Task {
            bits: record.bits,
            page: record.page,
            served: record.served,
            line: record.line,
            walk: record.walk.as_ref().map(Reads::walk),
            prefetches: &record.prefetches[..usize::from(record.prefetch_count)],
        };
        let asked = paths.asked(record.bits, start);
        let (translated, done) = paths.run(&task, start, asked);
        record.part.start = start;
        record.translated = translated;
        record.done = done;
        let mut waiter = record.waiter;
        paths.core.has_data(access, done);
        while waiter != 0 {
            let number = access + waiter as usize;
            let waiting = self.record(number);
            waiter = waiting.next_waiter;
            let start = waiting.dispatched.max(done);
            self.ready.push(Reverse((start, number)));
        }
        while !self.is_empty() {
            let first = self.record(self.first);
            if first.done == UNKNOWN {
                return;
            }
            paths
                .core
                .complete(first.part, first.store, first.translated, first.done);
            self.first += 1;
        }
    }
}

impl Reads {
    fn of(walk: &Walk) -> Self {
        let mut reads = Reads {
            fixed: walk.fixed,
            shift: walk.shift,
            background: walk.background as u8,
            payer: walk.payer,
            count: walk.served.len() as u8,
            ..Reads::default()
        };
        reads.served[..walk.served.len()].copy_from_slice(walk.served);
        reads.steps[..walk.steps.len()].copy_from_slice(walk.steps);
        reads.lines[..walk.lines.len()].copy_from_slice(walk.lines);
        reads
    }

    fn walk(&self) -> Walk<'_> {
        let count = usize::from(self.count);
        Walk {
            fixed: self.fixed,
            shift: self.shift,
            background: usize::from(self.background),
            payer: self.payer,
            served: &self.served[..count],
            lines: &self.lines[..count],
            steps: &self.steps[..count],
        }
    }
}
