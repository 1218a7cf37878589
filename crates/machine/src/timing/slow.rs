use super::counts::Counts;
use super::paths::Paths;
use super::pending::{self, Besides, Pending};
use super::task::{Read, Task, Walk};
use crate::caches::served::Served;
use crate::machine::requests::{Early, Prefetch, TlbMiss, request};
use crate::mmu::Ahead;
use pagelab_cpu::{Trapped, UNKNOWN, Waits};
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

/// A line of an access, and what its access is if it is the first.
pub(super) struct Of {
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
    pub(super) ahead: &'a [Ahead],
    pub(super) early: &'a [Early],
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
        of: &Of,
    ) {
        let &Of {
            bits,
            page,
            straddles,
            gap,
            waits,
        } = of;
        if request::is_dropped(bits) {
            Self::dropped(paths, pending, gap, waits);
            return;
        }
        let store = bits & request::STORE != 0;
        let mut faults: &[TlbMiss] = &[];
        let mut walk = None;
        if bits & request::SLOW != 0 {
            let faulting = self.tlb_misses.iter().take_while(|of| of.faulted).count();
            // Reads of the faulting walks come first.
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
            let (entry, _) = pending.dispatch(paths, gap, waits, store);
            if straddles && entry.start == UNKNOWN {
                pending.run_all(paths);
                paths.core.started(entry, waits)
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
            // An access that starts when it is dispatched comes before everything that follows.
            let at_once = entry.start == paths.core.dispatched();
            let contends = walk.is_some()
                || served != Served::L1
                || bits & request::INVALIDATES != 0
                || !prefetches.is_empty();
            if !at_once && (contends || !pending.is_empty()) {
                let walk = walk.map(|walk| (walk, ahead));
                let besides = Besides { prefetches, early };
                pending.defer_with(paths, entry, task, waits, walk, besides);
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
