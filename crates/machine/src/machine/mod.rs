pub(crate) mod buffer;
pub(crate) mod chunk;
pub(crate) mod costs;
pub(crate) mod counts;
pub(crate) mod gib_cache;
pub(crate) mod payer;
pub(crate) mod requests;
pub(crate) mod sharing;
pub(crate) mod turns;
pub(crate) mod virtual_machine;

use crate::caches::neighbour_pages::NeighbourPages;
use crate::caches::others::Others;
use crate::caches::unknown::Unknown;
use crate::caches::{self, PrivateCaches, SharedCache};
use crate::count::heat_map::HeatMap;
use crate::count::memory::Memory;
use crate::count::timeline::Timeline;
use crate::count::windows::Windows;
use crate::error::RunError;
use crate::fetch::Fetch;
use crate::machine::chunk::{CHUNK, Chunk, within_lines};
use crate::machine::costs::{Costs, next_tick};
use crate::machine::counts::MachineCounts;
use crate::machine::gib_cache::GibCache;
use crate::machine::sharing::Sharing;
use crate::memory::MainMemory;
use crate::mmu::{CachePort, Mmu, Walks};
use crate::timing::{self, Accesses, Counts, FreeClocks, Latencies, Paths, Pending};
use pagelab_addr::{Asid, PageDirectory};
use pagelab_cpu::Core;
use pagelab_events::{Batch, Control, Mispredicted, Op};
use pagelab_execution::Execution;
use pagelab_memory::dispatch_released;
use pagelab_memory::simd::SimdLevel;
use pagelab_os::{Effects, Os};
use serde_json::Value;
use std::collections::HashMap;

mod allocations;
mod build;
mod charge;
mod code;
mod fetch;
mod filled;
mod kernel;
mod totals;
mod translate;
mod windows;

/// Faults that one access may take before the run is given up: each either maps the page or
/// makes it writable, so a third one means that page table and operating system disagree.
const MAX_FAULTS: u32 = 3;

/// Everything that belongs to one core.
#[derive(Debug)]
pub(crate) struct CoreState {
    pub(crate) clock: Core,
    pub(crate) pending: Pending,
    /// Its last chunk walked so often that prefetching for walks is worth it.
    pub(crate) prefetch_walks: bool,
    pub(crate) accesses: u64,
    pub(crate) sharing: Sharing,
    /// Time in the kernel that went into filling pages with zeros, in slots.
    pub(crate) zeroing: u64,
    /// Unknown references to the second-level TLB, once a sample has left accesses out.
    pub(crate) unknown: Option<Box<Unknown>>,
    /// Misses of that TLB which were taken as hits.
    pub(crate) taken_as_hits: u64,
}

/// A machine of one design, fixed at compile time so that the hot path calls nothing indirectly.
#[derive(Debug)]
pub struct Machine<M> {
    pub(crate) cores: Vec<CoreState>,
    /// Each core's own.
    pub(crate) caches: Vec<PrivateCaches>,
    pub(crate) shared: SharedCache,
    /// Other programs in the last level.
    others: Option<Others>,
    pub(crate) memory: MainMemory,
    pub(crate) mmu: M,
    /// Counters of its page table.
    pub(crate) page_table_counters: fn(&M) -> Value,
    pub(crate) looks: CachePort,
    pub(crate) os: Os,
    pub(crate) directory: PageDirectory,
    pub(crate) gibs: GibCache,
    pub(crate) chunk: Chunk,
    /// Pages in which prefetchers go on from the chunk's.
    beside: NeighbourPages,
    /// Mispredicted branches of the chunk: before which of its accesses, and what each waited for.
    mispredicted: Vec<(u32, Mispredicted)>,
    /// Distances, on its core, to what the chunk's accesses wait for, just after another thread's turn.
    dep: Vec<u32>,
    pub(crate) walks: Walks,
    /// The instruction of the access that is translated, or [`NO_SITE`].
    pub(crate) instruction: u32,
    /// Addresses that prefetchers want for a load.
    targets: Vec<u64>,
    /// Its line within 4 KiB, for a design that looks into caches.
    pub(crate) line: u32,
    effects: Effects,
    pub(crate) latencies: Latencies,
    /// The instruction side, where it is simulated.
    pub(crate) fetch: Option<Box<Fetch>>,
    /// The cores between accesses, where that is simulated.
    execution: Option<Box<Execution>>,
    /// The same machine's clocks if translation were free.
    pub(crate) free: Option<FreeClocks>,
    costs: Costs,
    pub(crate) counts: MachineCounts,
    pub(crate) timing: Counts,
    pub(crate) slots_per_cycle: u64,
    level: SimdLevel,
    pub(crate) timeline: Timeline,
    /// Misses by address and time, where that is counted.
    pub(crate) heat_map: Option<Box<HeatMap>>,
    pub(crate) windows: Windows,
    /// Physical memory just before the first process ended, which gives most of it back.
    pub(crate) at_exit: Option<Memory>,
    /// The core of each thread, in order of appearance.
    pub(crate) threads: HashMap<(u32, u32), usize>,
    current: Option<(u32, usize)>,
    /// The core on which all runs that does, where each program has its own.
    pub(crate) pinned: Option<usize>,
    /// When the memory manager or khugepaged is to work next, in slots.
    next_tick: u64,
    /// Until when threads of the kernel are busy, in slots, in the order of [`pagelab_os::KernelThread::ALL`].
    threads_until: [u64; 2],
    /// Time of the chunk's faults so far, which its core's clock does not have yet, in slots.
    in_faults: u64,
    slots_per_ns: f64,
    /// Page walks have to say which pages they found.
    tells_accesses: bool,
    /// A core that goes on with another address space forgets the translations of the one before.
    flushes: bool,
    /// Entries of the second-level TLB for base pages.
    tlb_entries: usize,
}

/// Progress of a batch through the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) control: usize,
    access: usize,
    pub(crate) mispredicted: usize,
    /// The entry of the flow, the line of its block, and the thread whose flow it is.
    pub(crate) flow: usize,
    pub(crate) line: u32,
    pub(crate) thread: Option<u32>,
    /// Its core, once it is known.
    pub(crate) core: Option<usize>,
}

/// A core's way to the caches, from fields of the machine that a design does not have.
macro_rules! port {
    ($machine:ident, $core:expr) => {
        crate::mmu::Port {
            core: $core,
            caches: &mut $machine.caches,
            shared: &mut $machine.shared,
            directory: &$machine.directory,
            chunk: &mut $machine.chunk,
            looks: &mut $machine.looks,
            instruction: $machine.instruction,
        }
    };
}
pub(crate) use port;

/// Look-up of the frames of an address space's other pages, for a machine's prefetchers.
macro_rules! other_pages {
    ($machine:ident, $asid:expr) => {
        crate::caches::other_pages::OtherPages {
            mmu: &$machine.mmu,
            gibs: &$machine.gibs,
            directory: &$machine.directory,
            asid: $asid,
        }
    };
}
pub(crate) use other_pages;

impl<M: Mmu> Machine<M> {
    /// Takes a batch of events through the machine.
    ///
    /// # Errors
    /// [`RunError`]; what came before stays counted.
    pub fn run(&mut self, batch: &Batch) -> Result<(), RunError> {
        let mut cursor = Cursor::default();
        while self.step(batch, &mut cursor)? {}
        Ok(())
    }

    /// Takes the next few events of a batch through the machine: what happens before the next
    /// access, and up to a chunk of accesses. Whether there are more.
    ///
    /// # Errors
    /// [`RunError`]; what came before stays counted.
    pub(crate) fn step(&mut self, batch: &Batch, cursor: &mut Cursor) -> Result<bool, RunError> {
        let due = |cursor: &Cursor| batch.controls.get(cursor.control).map(|c| c.0 as usize);
        while due(cursor).is_some_and(|before| before <= cursor.access) {
            let control = &batch.controls[cursor.control].1;
            if self.fetch.is_some() && matches!(control, Control::Exit { .. }) {
                // Code executed before has no memory afterwards.
                self.fetch(batch, cursor, cursor.access, cursor.access + 1)?;
            }
            self.control(batch.process, control)?;
            cursor.control += 1;
        }
        let at = cursor.access;
        if at >= batch.len() {
            if self.fetch.is_some() {
                self.fetch(batch, cursor, at, usize::MAX)?;
            }
            if self.execution.is_some() {
                self.run_on(batch);
            }
            return Ok(false);
        }
        let until = due(cursor).unwrap_or(batch.len()).min(batch.len());
        if self
            .current
            .is_none_or(|(process, _)| process != batch.process)
        {
            // A program of its own core goes on with the thread that it had got to.
            let sharing = self.pinned.map(|core| &self.cores[core].sharing);
            let thread = sharing.and_then(|sharing| sharing.running(batch.process));
            self.switch(batch.process, thread.unwrap_or(0));
        }
        let sample = self.timeline.next() - self.counts.accesses;
        let most = sample.min(self.left_to_warm_up(&batch.gap[at..until], &batch.op[at..until]));
        let most = most.min(self.left_of_turn()) as usize;
        let most = if M::LOOKS_INTO_CACHES {
            1.min(most)
        } else {
            most
        };
        let mut end = until.min(at + most);
        if self.caches[self.current_core()].wants_answers() {
            end = at + within_lines(&batch.op[at..end]);
        }
        if self.fetch.is_some() {
            end = self.fetch(batch, cursor, at, end)?;
        }
        let branches = &batch.mispredicted[cursor.mispredicted..];
        let count = branches.partition_point(|branch| (branch.0 as usize) < end);
        cursor.mispredicted += count;
        self.mispredicted.clear();
        let within = |&(access, branch): &(u32, _)| (access - at as u32, branch);
        self.mispredicted
            .extend(branches[..count].iter().map(within));
        let mut dep = &batch.dep[at..end];
        let mut on_core = std::mem::take(&mut self.dep);
        let CoreState {
            sharing, accesses, ..
        } = &self.cores[self.current_core()];
        if sharing.mixes(*accesses) {
            on_core.clear();
            on_core.extend(
                (*accesses..)
                    .zip(dep)
                    .map(|(at, &dep)| sharing.on_core(at, dep)),
            );
            dep = &on_core;
            for (at, branch) in &mut self.mispredicted {
                *branch = sharing.branch(accesses + u64::from(*at), *branch);
            }
        }
        if self.execution.is_some() {
            self.execute(batch, at..end, dep);
        }
        self.chunk(
            batch.process,
            &batch.addr[at..end],
            &batch.op[at..end],
            &batch.gap[at..end],
            dep,
            batch.site.get(at..end).unwrap_or_default(),
        )?;
        self.dep = on_core;
        cursor.access = end;
        Ok(true)
    }

    /// From now on everything runs on this core.
    pub(crate) fn pin(&mut self, core: usize) {
        if self.pinned != Some(core) {
            self.pinned = Some(core);
            self.current = None;
        }
    }

    fn chunk(
        &mut self,
        process: u32,
        addr: &[u64],
        op: &[Op],
        gap: &[u32],
        dep: &[u32],
        site: &[u32],
    ) -> Result<(), RunError> {
        let core = self.current_core();
        let asid = Os::asid(process)?;
        self.in_faults = 0;
        if self.os.notes_stores() {
            self.note_stores(asid, addr, op);
        }
        let machine = &mut *self;
        dispatch_released!(machine.level, <S>[M: Mmu](
            machine: &mut Machine<M>,
            core: usize,
            asid: Asid,
            addr: &[u64],
            op: &[Op],
            site: &[u32],
        ) -> Result<(), RunError> {
            machine.translate::<S>(core, asid, addr, op, site)
        })?;
        if let Some(by_code) = &self.timing.by_code {
            if by_code.allocations.is_some() {
                self.note_faulted(asid, addr);
            }
            self.charge(asid, addr, site);
        }
        if self.heat_map.is_some() {
            self.count_by_address(asid, addr);
        }
        let state = &mut self.cores[core];
        if !M::LOOKS_INTO_CACHES {
            let pages = other_pages!(self, asid);
            let now = |addr, up| pages.beside(addr, up);
            let mut frame = |access, up| self.beside.frame(access, up, now);
            let (caches, shared) = (&mut self.caches, &mut self.shared);
            caches::reference_at(
                self.level,
                caches,
                core,
                shared,
                &mut self.chunk,
                &mut frame,
            );
        }
        let mut paths = Paths {
            core: &mut state.clock,
            memory: &mut self.memory,
            latencies: &self.latencies,
            counts: &mut self.timing,
        };
        let accesses = Accesses {
            gap,
            dep,
            mispredicted: &self.mispredicted,
        };
        let mut execution = self.execution.as_deref_mut();
        let up_to = (execution.as_mut()).map(|of| of.up_to(core, false, addr, op));
        timing::time::<false>(&mut paths, &mut state.pending, &self.chunk, accesses, up_to);
        let continued = op.iter().map(|op| u64::from(op.continues())).sum();
        state.clock.count_as_continued(continued);
        if let Some(free) = &mut self.free {
            let up_to = execution.map(|of| of.up_to(core, true, addr, op));
            free.time(core, &self.chunk, accesses, up_to);
        }
        state.accesses += addr.len() as u64;
        self.counts.run.mispredicted_branches += Mispredicted::count(&self.mispredicted);
        self.counts.accesses += addr.len() as u64;
        if self.begins_turn() {
            self.after_turn(core)?;
        }
        if self.counts.accesses == self.timeline.next() {
            let sample = self.sample();
            self.timeline.push(sample);
        }
        self.counts.run.stores += op.iter().map(|op| u64::from(op.is_store())).sum::<u64>();
        if M::LOOKS_INTO_CACHES {
            while let Some(page) = self.mmu.costly() {
                self.move_in(core, page);
            }
        }
        Ok(())
    }

    /// Work between two turns, by the clock of a core: what others bring into the last level, and the memory
    /// manager's.
    fn after_turn(&mut self, core: usize) -> Result<(), RunError> {
        let now = self.cores[core].clock.now();
        if let Some(others) = &mut self.others {
            let memory = &mut self.memory;
            others.until(now, &mut self.shared, |line| {
                if memory.takes_write_backs() {
                    memory.write_back(line, now);
                }
            });
        }
        if self.os.has_threads() {
            self.in_faults = 0;
            let paid = self.work_aside(core);
            if paid > 0 {
                self.kernel(core, 0, paid);
            }
        }
        if now >= self.next_tick {
            self.tick(core)?;
        }
        Ok(())
    }

    /// Lets the memory manager work on the core that gets there first, khugepaged on a processor of its own.
    #[cold]
    fn tick(&mut self, core: usize) -> Result<(), RunError> {
        self.effects.clear();
        self.os
            .tick(self.mmu.table_mut(), &mut self.directory, &mut self.effects)?;
        self.invalidate();
        let (kernel, migration) = self.costs.of(&self.effects);
        let own = if self.os.works_aside() { 0 } else { kernel };
        self.kernel(core, own, migration);
        let now = self.cores[core].clock.now();
        self.next_tick = next_tick(&self.os, self.slots_per_ns, now);
        Ok(())
    }

    /// Spends time in the kernel between two accesses of a core.
    pub(crate) fn kernel(&mut self, core: usize, kernel: u64, migration: u64) {
        self.finish(core);
        self.cores[core].clock.kernel(kernel, migration);
        if let Some(free) = &mut self.free {
            free.kernel(core, kernel, migration);
        }
    }

    /// Times the accesses of a core that were put aside.
    fn finish(&mut self, core: usize) {
        let state = &mut self.cores[core];
        state.pending.run_all(&mut Paths {
            core: &mut state.clock,
            memory: &mut self.memory,
            latencies: &self.latencies,
            counts: &mut self.timing,
        });
        if let Some(free) = &mut self.free {
            free.finish(core);
        }
    }

    /// Times all accesses that were put aside, so that what was counted and what took time are the
    /// same accesses.
    pub(crate) fn finish_all(&mut self) {
        for core in 0..self.cores.len() {
            self.finish(core);
        }
    }

    /// True if page walks have to say which pages they found.
    #[inline(always)]
    pub(crate) fn tells_accesses(&self) -> bool {
        self.tells_accesses
    }

    /// Accesses left of the current core's turn, a chunk: where batches end is no matter.
    fn left_of_turn(&self) -> u64 {
        let turn = CHUNK as u64;
        turn - self.cores[self.current_core()].accesses % turn
    }

    /// True if the current core is between two turns.
    pub(crate) fn begins_turn(&self) -> bool {
        self.left_of_turn() == CHUNK as u64
    }

    /// True if each core has a program of its own.
    pub(crate) fn has_programs(&self) -> bool {
        self.pinned.is_some()
    }

    /// Clock of a core if translations had taken no time, in slots.
    pub(crate) fn free_now(&self, core: usize) -> u64 {
        let free = self.free.as_ref();
        free.map_or_else(|| self.now(core), |free| free.now(core))
    }

    /// The program that the events are of.
    pub(crate) fn program(&self) -> usize {
        self.pinned.unwrap_or(0)
    }

    /// A core's clock, in slots.
    pub(crate) fn now(&self, core: usize) -> u64 {
        self.cores[core].clock.now()
    }

    /// The core that the events are of.
    pub(crate) fn current_core(&self) -> usize {
        let last = self.current.map(|(_, core)| core);
        last.or(self.pinned).unwrap_or(0)
    }
}
