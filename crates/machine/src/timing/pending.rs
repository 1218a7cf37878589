use super::accesses::loads;
use super::paths::Paths;
use super::task::{Read, Task, Walk};
use crate::machine::requests::{Early, MOST_AHEAD, MOST_EARLY, Prefetch};
use crate::mmu::PrefetchWalk;
use pagelab_cpu::{RobEntry, Trapped, UNKNOWN, Waits};
use pagelab_events::Mispredicted;
use pagelab_memory::MAX_PREFETCHES;

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
    /// Walks, which few entries have, at the same places.
    walks: Box<[(Walk, [Read; READS])]>,
    prefetches: Box<[[Prefetch; MAX_PREFETCHES]]>,
    ahead: Box<[[PrefetchWalk; MOST_AHEAD]]>,
    early: Box<[[Early; MOST_EARLY]]>,
    /// The reads of a walk that is not put aside.
    long: Vec<Read>,
    /// Entries whose start is known.
    ready: Ready,
    /// The oldest access that has not ended, and the one after the last.
    first: usize,
    end: usize,
}

/// The most reads of a walk that is put aside.
pub(super) const READS: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// Its start is when it was dispatched, until the true one is known.
    entry: RobEntry,
    translated: u64,
    /// [`UNKNOWN`] until it has run.
    done: u64,
    task: Task,
    walks: bool,
    prefetches: u8,
    early: u8,
    /// Loads that it waits for.
    waits: Waits,
    /// Distances of the accesses that wait for this one, the first and the last, and of the next
    /// that waits for the same; 0 for none.
    first_waiter: u32,
    last_waiter: u32,
    next_waiter: u32,
}

/// Lines fetched on an access's account.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SideFetches<'a> {
    pub(super) prefetches: &'a [Prefetch],
    pub(super) early: &'a [Early],
}

/// Times and accesses, the earliest first: a ring that is sorted as it is filled. What comes is
/// mostly later than what is there.
#[derive(Clone, Debug)]
struct Ready {
    /// A power of two.
    places: Box<[(u64, usize)]>,
    first: usize,
    end: usize,
}

impl Ready {
    #[inline(always)]
    fn first(&self) -> Option<(u64, usize)> {
        let last = self.places.len() - 1;
        (self.first != self.end).then(|| self.places[self.first & last])
    }

    #[inline(always)]
    fn push(&mut self, entry: (u64, usize)) {
        let last = self.places.len() - 1;
        let mut at = self.end;
        while at != self.first && self.places[(at - 1) & last] > entry {
            self.places[at & last] = self.places[(at - 1) & last];
            at -= 1;
        }
        self.places[at & last] = entry;
        self.end += 1;
    }
}

impl Pending {
    pub(crate) fn new(reorder_buffer: u32) -> Self {
        let places = (reorder_buffer as usize + 2).next_power_of_two();
        Pending {
            records: vec![Record::default(); places].into(),
            walks: vec![Default::default(); places].into(),
            prefetches: vec![Default::default(); places].into(),
            ahead: vec![Default::default(); places].into(),
            early: vec![Default::default(); places].into(),
            long: Vec::new(),
            ready: Ready {
                places: vec![(0, 0); places].into(),
                first: 0,
                end: 0,
            },
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

    /// Dispatches an access, after whatever has to run before; also, whether nothing is put aside.
    #[inline(always)]
    pub(super) fn dispatch(
        &mut self,
        paths: &mut Paths,
        gap: u32,
        waits: Waits,
        store: bool,
    ) -> (RobEntry, bool) {
        while !self.is_empty() {
            // The oldest entry has to end before this one can be dispatched.
            let oldest = self.record(self.first).entry.number;
            if paths.core.knows_dispatch(gap, store, oldest) {
                break;
            }
            self.run_next(paths);
        }
        if paths.core.on_wrong_path() {
            return self.dispatch_on_wrong_path(paths, gap, waits, store);
        }
        let entry = paths.core.dispatch(gap, waits, store);
        if self.is_empty() {
            return (entry, true);
        }
        self.run_until(paths, paths.core.dispatched());
        (paths.core.started(entry, waits), self.is_empty())
    }

    /// The same, after a branch that may be decided by then. It can be dispatched.
    #[cold]
    fn dispatch_on_wrong_path(
        &mut self,
        paths: &mut Paths,
        gap: u32,
        waits: Waits,
        store: bool,
    ) -> (RobEntry, bool) {
        loop {
            let time = paths.core.next_dispatch(gap, store);
            self.run_until(paths, time);
            if !paths.core.leave_wrong_path(gap, store) {
                break;
            }
        }
        let entry = paths.core.dispatch(gap, waits, store);
        let mut entry = paths.core.started(entry, waits);
        // An entry that is put aside finds out when it starts.
        if self.is_empty() && entry.start > paths.core.dispatched() {
            let access = paths.core.dispatched_accesses() - 1;
            entry.start = paths.core.start_again(access, entry.number, entry.start);
        }
        (entry, self.is_empty())
    }

    /// Runs whatever starts by then.
    fn run_until(&mut self, paths: &mut Paths, time: u64) {
        while self.ready.first().is_some_and(|next| next.0 <= time) {
            self.run_next(paths);
        }
    }

    /// Takes the first of the mispredicted branches, and those before the same access. Nothing
    /// after it is dispatched before it is decided, so what it waits for may run first, unless its wrong
    /// path joins the right one.
    #[cold]
    pub(super) fn mispredicted(
        &mut self,
        paths: &mut Paths,
        branches: &mut &[(u32, Mispredicted)],
    ) {
        let at = branches.first().map(|branch| branch.0);
        while let Some((&(place, branch), later)) = branches.split_first()
            && Some(place) == at
        {
            let loads = loads(branch.dep);
            while !branch.reconverges && !paths.core.knows_branch(loads) && !self.is_empty() {
                self.run_next(paths);
            }
            paths.core.mispredicted(loads, branch.reconverges);
            paths.core.mispredicted_more(branch.more);
            *branches = later;
        }
    }

    /// Takes mispredicted branches before the access that is dispatched next.
    pub(crate) fn mispredicted_all(
        &mut self,
        paths: &mut Paths,
        mut branches: &[(u32, Mispredicted)],
    ) {
        while paths.core.mispredicts() && !branches.is_empty() {
            self.mispredicted(paths, &mut branches);
        }
    }

    /// Runs what starts before the next instruction is dispatched; returns when that would be.
    pub(super) fn front_end(&mut self, paths: &mut Paths) -> u64 {
        let dispatched = paths.core.dispatched();
        self.run_until(paths, dispatched);
        dispatched
    }

    /// Room for the reads of a walk that no access waits for.
    pub(super) fn long_reads(&mut self) -> &mut Vec<Read> {
        &mut self.long
    }

    /// Runs everything.
    pub(crate) fn run_all(&mut self, paths: &mut Paths) {
        while !self.is_empty() {
            self.run_next(paths);
        }
    }

    /// Room for the reads of the walk of the access that was dispatched last.
    #[inline(always)]
    pub(super) fn room_for_reads(&mut self, paths: &Paths, count: usize) -> &mut [Read] {
        if count <= READS {
            let place = (paths.core.dispatched_accesses() - 1) & (self.walks.len() - 1);
            return &mut self.walks[place].1[..count];
        }
        self.long
            .resize(count.max(self.long.len()), Read::default());
        &mut self.long[..count]
    }

    /// Reads that went there.
    #[inline(always)]
    pub(super) fn reads(&self, paths: &Paths, walk: &Walk) -> &[Read] {
        let count = usize::from(walk.reads);
        if count <= READS {
            let place = (paths.core.dispatched_accesses() - 1) & (self.walks.len() - 1);
            return &self.walks[place].1[..count];
        }
        &self.long[..count]
    }

    /// Puts the access aside that was dispatched last, and that does not walk.
    #[inline(always)]
    pub(super) fn defer(&mut self, paths: &mut Paths, entry: RobEntry, task: Task, waits: Waits) {
        self.defer_with(paths, entry, task, waits, None, SideFetches::default());
    }

    /// Puts the access aside that was dispatched last. The reads of its walk are where
    /// [`Pending::room_for_reads`] said.
    #[inline(always)]
    pub(super) fn defer_with(
        &mut self,
        paths: &mut Paths,
        entry: RobEntry,
        task: Task,
        waits: Waits,
        walk: Option<(Walk, &[PrefetchWalk])>,
        SideFetches { prefetches, early }: SideFetches,
    ) {
        let access = self.add(paths, entry);
        let last = self.records.len() - 1;
        let dispatched = paths.core.dispatched();
        let record = self.record(access);
        record.done = UNKNOWN;
        record.task = task;
        record.walks = walk.is_some();
        record.prefetches = prefetches.len() as u8;
        record.early = early.len() as u8;
        if let Some((walk, ahead)) = walk {
            self.walks[access & last].0 = walk;
            if !ahead.is_empty() {
                self.ahead[access & last][..ahead.len()].copy_from_slice(ahead);
            }
        }
        if !prefetches.is_empty() {
            self.prefetches[access & last][..prefetches.len()].copy_from_slice(prefetches);
        }
        if !early.is_empty() {
            self.early[access & last][..early.len()].copy_from_slice(early);
        }
        if entry.start != UNKNOWN {
            self.ready.push((entry.start, access));
            return;
        }
        let record = self.record(access);
        record.entry.start = dispatched;
        record.waits = waits;
        self.wait(paths, access);
    }

    /// Has an access wait for one of its loads that are under way, or makes it ready if none is.
    #[inline(always)]
    fn wait(&mut self, paths: &Paths, access: usize) {
        let record = self.record(access);
        record.next_waiter = 0;
        let (start, waits) = (record.entry.start, record.waits);
        let Some(distance) = paths.core.waits_for(access, waits.loads) else {
            let start = paths.core.loaded(access, waits, start);
            self.ready.push((start, access));
            return;
        };
        let load = access - distance as usize;
        let producer = self.record(load);
        if producer.first_waiter == 0 {
            producer.first_waiter = distance;
            producer.last_waiter = distance;
        } else {
            let before = std::mem::replace(&mut producer.last_waiter, distance);
            self.record(load + before as usize).next_waiter = distance;
        }
    }

    /// The access that was dispatched last has run already.
    #[inline(always)]
    pub(super) fn ended(
        &mut self,
        paths: &mut Paths,
        entry: RobEntry,
        task: Task,
        translated: u64,
        done: u64,
    ) {
        let access = self.add(paths, entry);
        let record = self.record(access);
        record.task = task;
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
    fn add(&mut self, paths: &mut Paths, entry: RobEntry) -> usize {
        let access = paths.core.dispatched_accesses() - 1;
        if self.is_empty() {
            self.first = access;
        }
        self.end = access + 1;
        let record = self.record(access);
        record.entry = entry;
        record.first_waiter = 0;
        record.next_waiter = 0;
        access
    }

    /// Runs the access that starts first, and ends those whose turn to retire has come.
    #[inline(never)]
    fn run_next(&mut self, paths: &mut Paths) {
        let Some((start, access)) = self.ready.first() else {
            debug_assert!(false, "an access waits for nothing");
            self.first = self.end;
            return;
        };
        self.ready.first += 1;
        let last = self.records.len() - 1;
        let place = access & last;
        let record = &mut self.records[place];
        if paths.core.on_wrong_path() {
            let later = (paths.core).start_again(access, record.entry.number, start);
            if later > start {
                self.ready.push((later, access));
                return;
            }
        }
        record.entry.start = start;
        let task = record.task;
        let asked = paths.asked(task.bits, start);
        let early = &self.early[place][..usize::from(record.early)];
        paths.fetch_early(early, asked, start);
        let translated = if record.walks {
            let (walk, reads) = &self.walks[place];
            let reads = &reads[..usize::from(walk.reads)];
            let ahead = &self.ahead[place];
            paths.find(walk, (reads, ahead), (task.bits, task.page), start, asked)
        } else {
            paths.look_up(task.bits, task.page, start, asked)
        };
        paths.count_late(early, task.line, translated);
        let (done, sent) = paths.data_alone(&task, translated, start);
        let done = task.ends(done, sent);
        for prefetch in &self.prefetches[place][..usize::from(record.prefetches)] {
            paths.prefetch(prefetch, sent, start);
        }
        record.translated = translated;
        record.done = done;
        let mut waiter = record.first_waiter;
        paths.core.has_data(access, done);
        while waiter != 0 {
            let number = access + waiter as usize;
            waiter = self.records[number & last].next_waiter;
            self.wait(paths, number);
        }
        while !self.is_empty() {
            let first = &self.records[self.first & last];
            if first.done == UNKNOWN {
                return;
            }
            let times = (first.translated, first.done);
            paths.complete(first.entry, Trapped::default(), &first.task, times);
            self.first += 1;
        }
    }
}
