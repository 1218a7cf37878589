//! One stream in pieces that run side by side. docs/architecture.md says what a piece needs.

mod bound;
mod join;
mod piece;
mod plan;
mod state;
mod survey;
mod touched;

#[cfg(test)]
mod tests;

use crate::config::MachineConfig;
use crate::designs::{ConfiguredTable, Design};
use crate::error::BuildError;
use crate::mmu::ConfiguredMmu;
use crate::result::RunResult;
use crate::simulate::Progress;
use pagelab_addr::PageDirectory;
use pagelab_events::Divisible;
use pagelab_os::Os;
use pagelab_translation::PageTable;
use piece::{Ended, Extent, Run};
use plan::{Cut, Plan, Planner, TIMED};
use state::{Leader, MemoryState};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use survey::Seen;

/// A stream to be simulated in pieces.
#[derive(Clone, Copy)]
pub(crate) struct Pieces<'a> {
    pub(crate) stream: &'a dyn Divisible,
    /// How many pieces are simulated at once.
    pub(crate) workers: usize,
    /// How many there are, where the length of the stream is not to decide.
    pub(crate) count: Option<u64>,
}

/// How often is said how far it is.
const REPORT: Duration = Duration::from_millis(50);

/// Simulates a stream in pieces. The result depends on the stream and the machine alone, not on how
/// many workers there are.
pub(crate) fn run<M: ConfiguredMmu>(
    config: &MachineConfig,
    design: Design,
    pieces: Pieces,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<RunResult, BuildError> {
    let config = &*M::machine_of(design, config)?;
    let os = Os::with_placement(config.memory.clone(), M::placement(config), config.seed)?;
    check(config, &os, pieces.stream.has_code())?;
    if M::LOOKS_INTO_CACHES {
        return Err(BuildError::Uncuttable(
            "the design looks into caches: what it knows of pages comes from all walks before",
        ));
    }
    let table = M::Table::build(config)?;
    let cut = Cut::new(pieces.stream.accesses(), config, pieces.count);
    let work = Work {
        config,
        pieces,
        cut,
        stop: AtomicBool::new(false),
        done: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        simulating: AtomicBool::new(false),
    };
    let plan = work.survey(progress);
    if plan.leaves_out {
        return Err(BuildError::Uncuttable(
            "the trace leaves accesses out: it was recorded in windows or samples",
        ));
    }
    let state = MemoryState {
        os,
        table,
        directory: PageDirectory::new(),
    };
    let ended = work.simulate::<M>(&plan, state, progress)?;
    let result = join::join(ended.into_iter(), cut, &plan, config, design);
    result.ok_or(BuildError::Uncuttable("it was stopped before it began"))
}

/// Refuses machines whose pieces could not be put together.
fn check(config: &MachineConfig, os: &Os, has_code: bool) -> Result<(), BuildError> {
    if config.cores != 1 {
        return Err(BuildError::Uncuttable(
            "the machine has several cores, and the order in which they share caches and memory \
             depends on all that was before",
        ));
    }
    if config.fetch.is_some() && has_code {
        return Err(BuildError::Uncuttable(
            "the machine fetches instructions (`fetch`), whose first touches of pages are not looked for: --set fetch=none leaves them out",
        ));
    }
    if os.tick_ns().is_some() {
        return Err(BuildError::Uncuttable(
            "the memory manager moves pages by time and by what page walks see: where a page is \
             depends on what caches and TLB hold",
        ));
    }
    Ok(())
}

/// Takes a lock whoever may have died with it: what it guards is only ever replaced whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What workers share.
struct Work<'a> {
    config: &'a MachineConfig,
    pieces: Pieces<'a>,
    cut: Cut,
    stop: AtomicBool,
    /// Accesses that are done with, and pieces that have ended.
    done: AtomicU64,
    ended: AtomicU64,
    /// Whether pieces are simulated, and not looked at.
    simulating: AtomicBool,
}

/// What has been seen of the pieces so far.
struct Survey {
    planner: Planner,
    /// What was seen and waits for a piece before it.
    ahead: BTreeMap<u64, Seen>,
    /// The piece to be added next.
    next: u64,
}

impl Survey {
    /// Takes in what was seen of a piece.
    fn add(&mut self, piece: u64, seen: Seen) {
        self.ahead.insert(piece, seen);
        while let Some(seen) = self.ahead.remove(&self.next) {
            self.planner.add(seen);
            self.next += 1;
        }
    }
}

impl Work<'_> {
    /// Looks at the whole stream, piece by piece.
    fn survey(&self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Plan {
        if self.cut.pieces == 1 {
            return Plan::of_one_piece();
        }
        let stream = self.pieces.stream;
        let next = AtomicU64::new(0);
        let survey = Mutex::new(Survey {
            planner: Planner::new(self.cut, stream.accesses(), self.config),
            ahead: BTreeMap::new(),
            next: 0,
        });
        self.side_by_side(progress, stream.accesses(), || {
            loop {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                if piece >= self.cut.pieces || lock(&survey).planner.broken {
                    return;
                }
                let (from, to) = (self.cut.start(piece), self.cut.end(piece));
                let seen = survey::look(stream, from, to, &self.stop, &self.done);
                lock(&survey).add(piece, seen);
            }
        });
        let survey = survey.into_inner().unwrap_or_else(PoisonError::into_inner);
        survey.planner.plan
    }

    /// Simulates the pieces, those that begin first before others.
    fn simulate<M: ConfiguredMmu>(
        &self,
        plan: &Plan,
        state: MemoryState<M::Table>,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Vec<Option<Ended>>, BuildError> {
        let count = plan.warm_up.len() as u64;
        let leader = Mutex::new(Leader::new(state));
        let results: Vec<_> = (0..count).map(|_| Mutex::new(None)).collect();
        self.done.store(0, Ordering::Relaxed);
        self.simulating.store(true, Ordering::Relaxed);
        let run = Run {
            config: self.config,
            stream: self.pieces.stream,
            stop: &self.stop,
            progress: &self.done,
        };
        let accesses = self.cut.accesses(plan, self.pieces.stream.accesses());
        self.side_by_side(progress, accesses, || {
            while !self.stop.load(Ordering::Relaxed) {
                let Some((piece, extent, state)) = self.begin(&leader, plan) else {
                    return;
                };
                let ended = piece::run::<M>(&run, extent, state);
                *lock(&results[piece as usize]) = Some(ended);
                self.ended.fetch_add(1, Ordering::Relaxed);
            }
        });
        let results = results.into_iter();
        results
            .map(|result| {
                let result = result.into_inner();
                result.unwrap_or_else(PoisonError::into_inner).transpose()
            })
            .collect()
    }

    /// The next piece, where it is, and the memory that it begins with.
    fn begin<P: PageTable + Clone>(
        &self,
        leader: &Mutex<Leader<P>>,
        plan: &Plan,
    ) -> Option<(u64, Extent, MemoryState<P>)> {
        let mut leader = lock(leader);
        let piece = leader.piece;
        let &warm_up = plan.warm_up.get(piece as usize)?;
        leader.piece += 1;
        let start = self.cut.start(piece);
        let timed = if piece == 0 { 0 } else { TIMED };
        let from = start - (warm_up + timed).min(start);
        let last = piece + 1 == plan.warm_up.len() as u64;
        let state = leader.at(from, plan, last)?;
        let to = self.cut.end(piece);
        Some((piece, Extent { start, from, to }, state))
    }

    /// Has all workers do the same work, and says meanwhile how far it is.
    fn side_by_side(
        &self,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
        accesses: u64,
        work: impl Fn() + Sync,
    ) {
        // Closed when the last worker has ended, however it has.
        let (working, ended) = channel::<()>();
        let work = &work;
        std::thread::scope(|scope| {
            for _ in 0..self.pieces.workers.max(1) {
                let working = working.clone();
                scope.spawn(move || {
                    work();
                    drop(working);
                });
            }
            drop(working);
            while ended.recv_timeout(REPORT) == Err(RecvTimeoutError::Timeout) {
                let done = self.done.load(Ordering::Relaxed);
                let now = Progress {
                    accesses: done,
                    remaining: Some(accesses.saturating_sub(done)),
                    pieces: (self.simulating.load(Ordering::Relaxed))
                        .then(|| (self.ended.load(Ordering::Relaxed), self.cut.pieces)),
                };
                if progress(now).is_break() {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
        });
    }
}
