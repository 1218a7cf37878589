use super::counts::Counts;
use super::paths::Paths;
use super::pending::{self, Pending, SideFetches};
use super::task::{Read, Task, Walk};
use crate::caches::served::Served;
use crate::machine::requests::{Early, Prefetch, TlbMiss, request};
use crate::mmu::PrefetchWalk;
use pagelab_cpu::{RobEntry, Trapped, UNKNOWN, Waits};
use pagelab_memory::MODIFY;

/// The references of a chunk that have not been timed yet.
pub(super) struct References<'a> {
    pub(super) served: &'a [Served],
    pub(super) lines: &'a [u32],
    pub(super) taken: usize,
}

impl References<'_> {
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<(Served, u32)> {
        let next = (*self.served.get(self.taken)?, *self.lines.get(self.taken)?);
        self.taken += 1;
        Some(next)
    }
}

/// One line that an access requests. The instructions before the access, and its waits, are with its first line.
pub(super) struct RequestLine {
    pub(super) bits: u8,
    pub(super) page: u32,
    pub(super) straddles: bool,
    pub(super) gap: u32,
    pub(super) waits: Waits,
}

/// Parts of a chunk that only some of its accesses have, from the next of them on.
pub(super) struct Slow<'a> {
    pub(super) tlb_misses: &'a [TlbMiss],
    pub(super) steps: &'a [u8],
    pub(super) write_backs: &'a [(u32, u32)],
    pub(super) prefetches: &'a [Prefetch],
    pub(super) ahead: &'a [PrefetchWalk],
    pub(super) early: &'a [Early],
}

/// TLB misses of a request: walks that faulted, in program order, and the walk that found the page.
struct Misses<'a> {
    faults: &'a [TlbMiss],
    walk: Option<&'a TlbMiss>,
    /// Walks that follow it, for which nothing waits.
    ahead: &'a [PrefetchWalk],
}

impl<'a> Slow<'a> {
    /// The place of the first reference on whose account there is something to do besides.
    #[inline(always)]
    pub(super) fn first_due(&self) -> usize {
        let write_back = self.write_backs.first().map_or(u32::MAX, |first| first.0);
        let prefetch = (self.prefetches.first()).map_or(u32::MAX, |first| first.place);
        write_back.min(prefetch) as usize
    }

    /// Times a line of an access that has a walk, faults, other lines, or something that is
    /// fetched or written back on its account.
    #[inline(never)]
    pub(super) fn request<const FREE: bool>(
        &mut self,
        paths: &mut Paths,
        pending: &mut Pending,
        references: &mut References,
        of: &RequestLine,
    ) {
        if request::is_dropped(of.bits) {
            Self::dropped(paths, pending, of.gap, of.waits);
            return;
        }
        let bits = if FREE {
            of.bits & !request::SECOND_TLB
        } else {
            of.bits
        };
        let Misses {
            faults,
            walk,
            ahead,
        } = self.misses(bits);
        let reads = walk.map_or(0, |tlb_miss| usize::from(tlb_miss.reads));
        let alone = !faults.is_empty() || (!FREE && reads > pending::READS);
        if alone && !pending.is_empty() {
            pending.run_all(paths);
        }
        let mut entry = Self::dispatch(paths, pending, of);
        // A fault moves the start of its access; what it asks for was asked for before that.
        let start = entry.start;
        let mut asked = start;
        if asked != UNKNOWN {
            asked = paths.asked(bits, start);
        }
        let mut trapped = Trapped::default();
        for tlb_miss in faults {
            let times = (&mut entry, &mut asked, &mut trapped);
            self.fault::<FREE>(tlb_miss, times, references, pending, paths);
        }
        let (mut early, walk) = match walk {
            Some(tlb_miss) => self.found::<FREE>(bits, tlb_miss, references, pending, paths),
            None => (Default::default(), None),
        };
        let Some((served, line)) = references.next() else {
            debug_assert!(false, "a request has a data reference");
            return;
        };
        if !FREE {
            paths.counts.data_served[served as usize] += 1;
        }
        self.write_back(references.taken, start, paths);
        let prefetches = self.prefetches::<FREE>(references.taken, paths.counts);
        let task = Task {
            page: of.page,
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
        if !of.straddles && !alone {
            // An access that starts when it is dispatched comes before everything that follows.
            let at_once = entry.start == paths.core.dispatched();
            let contends = walk.is_some()
                || served != Served::L1
                || bits & request::INVALIDATES != 0
                || !prefetches.is_empty();
            if !at_once && (contends || !pending.is_empty()) {
                let walk = walk.map(|walk| (walk, ahead));
                let side = SideFetches { prefetches, early };
                pending.defer_with(paths, entry, task, of.waits, walk, side);
                return;
            }
        }
        paths.fetch_early(early, asked, start);
        let translated = match &walk {
            None => paths.look_up(bits, of.page, start, asked),
            Some(walk) => {
                let reads = pending.reads(paths, walk);
                paths.find(walk, (reads, ahead), (bits, of.page), start, asked)
            }
        };
        paths.count_late(early, line, translated);
        let (done, sent) = paths.data_alone(&task, translated, start);
        let done = task.ends(done, sent);
        for prefetch in prefetches {
            paths.prefetch(prefetch, sent, start);
        }
        if pending.is_empty() {
            paths.complete(entry, trapped, &task, (translated, done));
        } else if bits & request::REST != 0 {
            pending.join(paths, translated, done);
        } else {
            pending.ended(paths, entry, task, translated, done);
        }
    }

    /// Takes the TLB misses of a request.
    #[inline(always)]
    fn misses(&mut self, bits: u8) -> Misses<'a> {
        let mut misses = Misses {
            faults: &[],
            walk: None,
            ahead: &[],
        };
        if bits & request::SLOW != 0 {
            let faulting = self.tlb_misses.iter().take_while(|of| of.faulted).count();
            // Reads of the faulting walks come first.
            misses.faults = &self.tlb_misses[..faulting];
            misses.walk = self.tlb_misses.get(faulting);
            self.tlb_misses = self.tlb_misses.get(faulting + 1..).unwrap_or_default();
        }
        if bits & request::LOOKED != 0
            && let Some(tlb_miss) = misses.walk
        {
            (misses.ahead, self.ahead) = self.ahead.split_at(tlb_miss.cached.ahead.into());
        }
        misses
    }

    /// Dispatches a line of an access. The first of several lines has its start known.
    #[inline(always)]
    fn dispatch(paths: &mut Paths, pending: &mut Pending, of: &RequestLine) -> RobEntry {
        let store = of.bits & request::STORE != 0;
        if of.bits & request::REST != 0 {
            return paths.core.dispatch_rest(store, pending.is_empty());
        }
        let (entry, _) = pending.dispatch(paths, of.gap, of.waits, store);
        if of.straddles && entry.start == UNKNOWN {
            pending.run_all(paths);
            return paths.core.started(entry, of.waits);
        }
        entry
    }

    /// Times a walk that faulted, and the fault.
    #[inline(always)]
    fn fault<const FREE: bool>(
        &mut self,
        tlb_miss: &TlbMiss,
        (entry, asked, trapped): (&mut RobEntry, &mut u64, &mut Trapped),
        references: &mut References,
        pending: &mut Pending,
        paths: &mut Paths,
    ) {
        let early = self.early(tlb_miss, paths.counts);
        if FREE {
            self.skip(tlb_miss, references);
        } else if tlb_miss.walked {
            paths.fetch_early(early, *asked, entry.start);
            let walk = self.walk(tlb_miss, references, pending, paths);
            *asked = paths.walk(&walk, pending.reads(paths, &walk), *asked, entry.start);
        }
        let &TlbMiss {
            fault, migration, ..
        } = tlb_miss;
        trapped.fault += fault;
        trapped.migration += migration;
        *asked = (paths.core).trap(entry, *asked, Trapped { fault, migration });
    }

    /// Takes the walk that found a request's page, and what was fetched by guess meanwhile.
    #[inline(always)]
    fn found<const FREE: bool>(
        &mut self,
        bits: u8,
        tlb_miss: &TlbMiss,
        references: &mut References,
        pending: &mut Pending,
        paths: &mut Paths,
    ) -> (&'a [Early], Option<Walk>) {
        let mut early: &[Early] = &[];
        if bits & request::LOOKED != 0 {
            early = self.early(tlb_miss, paths.counts);
        }
        if FREE {
            self.skip(tlb_miss, references);
            return (early, None);
        }
        let walked = tlb_miss.walked;
        let walk = walked.then(|| self.walk(tlb_miss, references, pending, paths));
        (early, walk)
    }

    /// Gives memory the lines that leave the caches on account of the references taken so far.
    #[inline(always)]
    fn write_back(&mut self, taken: usize, start: u64, paths: &mut Paths) {
        while let Some((&(place, line), later)) = self.write_backs.split_first()
            && place < taken as u32
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
    }

    /// Takes the prefetches on account of the references taken so far.
    #[inline(always)]
    fn prefetches<const FREE: bool>(
        &mut self,
        taken: usize,
        counts: &mut Counts,
    ) -> &'a [Prefetch] {
        let taken = taken as u32;
        let mut prefetches: &[Prefetch] = &[];
        if self.prefetches.first().is_some_and(|of| of.place < taken) {
            let own = (self.prefetches).partition_point(|prefetch| prefetch.place < taken);
            (prefetches, self.prefetches) = self.prefetches.split_at(own);
        }
        if !FREE {
            for prefetch in prefetches {
                counts.prefetch_served[prefetch.served as usize] += 1;
            }
        }
        prefetches
    }

    /// Dispatches a prefetch where nothing is mapped.
    fn dropped(paths: &mut Paths, pending: &mut Pending, gap: u32, waits: Waits) {
        // The loads that make its address retire before it; nothing else asks when it has that.
        let waits = Waits {
            computed: waits.computed,
            ..Waits::default()
        };
        let (entry, alone) = pending.dispatch(paths, gap, waits, false);
        let (task, ended) = (Task::default(), (entry.start, entry.start));
        if alone {
            paths.complete(entry, Trapped::default(), &task, ended);
        } else {
            pending.ended(paths, entry, task, ended.0, ended.1);
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
    pub(super) fn walk_into(
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
    pub(super) fn skip(&mut self, tlb_miss: &TlbMiss, references: &mut References) {
        references.taken += usize::from(tlb_miss.reads);
        self.steps = &self.steps[usize::from(tlb_miss.reads)..];
    }
}
