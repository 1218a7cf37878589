//! One piece of a stream.

use super::crew::Crew;
use super::event::Event;
use super::intervals::TIMED;
use super::recent::{Line, Past};
use super::state::{MemoryState, Warmth, look_up};
use crate::caches;
use crate::config::MachineConfig;
use crate::count::own_counters::OwnCounters;
use crate::count::statistics::Outcome;
use crate::error::{BuildError, RunError};
use crate::machine::{Cursor, Machine, filled_lines};
use crate::mmu::ConfiguredMmu;
use crate::run::stopped::Stopped;
use pagelab_events::{Access, Batch, Divisible, SourceError, Unit, WarmUp};
use pagelab_os::OsStatistics;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Extent of a piece in its stream.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Extent {
    /// Accesses before the measured part ...
    pub(super) start: u64,
    /// ... and what is simulated, after so many.
    pub(super) from: u64,
    pub(super) to: Option<u64>,
}

/// A piece to be simulated by itself.
pub(crate) struct OnePiece<'a> {
    pub(super) stream: &'a dyn Divisible,
    pub(super) extent: Extent,
    pub(super) events: &'a [Event],
    pub(super) lines: &'a Past,
    pub(super) crew: &'a Crew,
}

/// Accesses from which is seen how much time passes, where that matters before a piece.
pub(super) const PACED: u64 = 1 << 18;

/// Accesses of a batch of lines that are brought in.
const BATCH: usize = 4096;

/// State of a machine where a piece began to be measured.
#[derive(Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) skipped_instructions: u64,
    pub(super) os: OsStatistics,
    pub(super) own: OwnCounters,
    pub(super) empty: Empty,
}

/// Places of caches and TLB in which nothing has been yet.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Empty {
    pub(super) tlb: Option<u64>,
    pub(super) caches: [u64; 3],
}

/// Outcome of a piece.
#[derive(Serialize, Deserialize)]
pub(crate) struct Ended {
    /// `None` for one that ended while it warmed up.
    pub(super) begun: Option<Begun>,
    pub(super) outcome: Outcome,
    pub(super) empty: Empty,
    pub(super) stopped: Option<Stopped>,
}

/// State that all pieces share.
pub(super) struct Run<'a> {
    pub(super) config: &'a MachineConfig,
    pub(super) stream: &'a dyn Divisible,
    pub(super) stop: &'a AtomicBool,
    /// Accesses simulated.
    pub(super) progress: &'a AtomicU64,
}

/// Simulates a piece on the memory that it begins with.
pub(super) fn run<M: ConfiguredMmu>(
    run: &Run,
    extent: Extent,
    warmth: &[Warmth],
    memory: MemoryState<M::Table>,
) -> Result<Ended, BuildError> {
    let pace = pace::<M>(run, extent, warmth, &memory)?;
    let MemoryState {
        os,
        table,
        directory,
    } = memory;
    let mmu = M::over(table, run.config, &os)?;
    let mut machine = Machine::new(run.config, os, mmu, M::statistics)?;
    machine.directory = directory;
    let lines = mapped(&machine, warmth);
    let data = lines.iter().filter_map(Warmth::data).count();
    let warm_up = data as u64 + extent.start - extent.from;
    if warm_up > 0 {
        machine.untimed = warm_up.saturating_sub(TIMED);
        machine.set_warm_up(WarmUp {
            length: warm_up,
            unit: Unit::Accesses,
        });
    }
    if let Some(heat_map) = &mut machine.heat_map {
        heat_map.begin(extent.start);
    }
    if run.stream.has_code() {
        machine.count_by_code(false);
    }
    let mut begun = None;
    let mut stopped = None;
    if let Err(error) = bring_in(&mut machine, &lines, pace, run.progress) {
        stopped = Some(error.into());
    }
    let untimed = (extent.start - extent.from).saturating_sub(TIMED);
    machine.pass_to_others((pace * untimed as f64) as u64);
    match run.stream.interval(extent.from, extent.to) {
        Ok(mut source) => {
            let mut batch = Batch::default();
            loop {
                if warm_up == 0 && begun.is_none() {
                    begun = Some(begin(&machine));
                }
                let read = source.next_batch(&mut batch);
                match take(&mut machine, read, &batch, warm_up, &mut begun) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        stopped = Some(error.into());
                        break;
                    }
                }
                run.progress
                    .fetch_add(batch.len() as u64, Ordering::Relaxed);
                if run.stop.load(Ordering::Relaxed) {
                    stopped = Some(Stopped::interrupted());
                    break;
                }
            }
        }
        Err(error) => stopped = Some(RunError::from(error).into()),
    }
    let empty = empty(&machine);
    Ok(Ended {
        begun,
        outcome: machine.outcome(),
        empty,
        stopped,
    })
}

/// Slots that an access takes where a piece begins, if others use the last level by time: as its first
/// accesses do without them. 0 otherwise.
fn pace<M: ConfiguredMmu>(
    run: &Run,
    extent: Extent,
    warmth: &[Warmth],
    memory: &MemoryState<M::Table>,
) -> Result<f64, BuildError> {
    if run.config.caches.others.is_none() || extent.start == 0 {
        return Ok(0.0);
    }
    let mut config = run.config.clone();
    config.caches.others = None;
    let alone = Run {
        config: &config,
        progress: &AtomicU64::new(0),
        ..*run
    };
    let end = extent.to.unwrap_or(run.stream.accesses());
    let first = Extent {
        to: Some(end.min(extent.start + PACED)),
        ..extent
    };
    let ended = self::run::<M>(&alone, first, warmth, memory.clone())?;
    let totals = ended.outcome.measured.totals;
    Ok(totals.elapsed as f64 / totals.accesses.max(1) as f64)
}

/// All but lines of pages that are not mapped, which come later. Whether one is stored to is left out
/// where it may not be any more.
fn mapped<M: ConfiguredMmu>(machine: &Machine<M>, warmth: &[Warmth]) -> Vec<Warmth> {
    // Pages that it does not know yet are numbered when they are used.
    let mut directory = machine.directory.clone();
    let table = machine.mmu.table();
    let mut last = None;
    let mut found = Vec::with_capacity(warmth.len());
    for &warm in warmth {
        let Warmth::Page(line) = warm else {
            found.push(warm);
            continue;
        };
        let (process, vpn) = (line.process(), line.vpn());
        let writable = match last {
            Some((page, writable)) if page == (process, vpn) => writable,
            _ => {
                let translation = look_up(table, &mut directory, process, vpn);
                let writable = translation.map(|found| found.writable);
                last = Some(((process, vpn), writable));
                writable
            }
        };
        let line = writable.map(|writable| if writable { line } else { line.loaded() });
        found.extend(line.map(Warmth::Page));
    }
    found
}

/// Uses lines once each.
fn bring_in<M: ConfiguredMmu>(
    machine: &mut Machine<M>,
    lines: &[Warmth],
    pace: f64,
    progress: &AtomicU64,
) -> Result<(), RunError> {
    let mut batch = Batch::default();
    for &warm in lines {
        let of = warm.data().map(Line::process);
        if of != Some(batch.process) || batch.len() == BATCH {
            use_all(machine, &mut batch, progress)?;
        }
        match warm {
            Warmth::Page(line) if line.is_code() => {
                machine.bring_in_code(line.process(), line.addr())?;
            }
            Warmth::Page(line) => {
                batch.process = line.process();
                batch.push(Access {
                    addr: line.addr(),
                    op: line.op(),
                    gap: 0,
                    dep: 0,
                });
            }
            Warmth::Frame(line) => {
                let access = pagelab_memory::Access::of_data(line);
                caches::fetch(&mut machine.caches[0], &mut machine.shared, access, None);
            }
            Warmth::Passed(accesses) => {
                machine.pass_to_others((pace * accesses as f64) as u64);
            }
            Warmth::Filled(pfn) => {
                for line in filled_lines(pfn) {
                    caches::fill(&mut machine.caches[0], &mut machine.shared, line);
                }
            }
        }
    }
    use_all(machine, &mut batch, progress)
}

fn use_all<M: ConfiguredMmu>(
    machine: &mut Machine<M>,
    batch: &mut Batch,
    progress: &AtomicU64,
) -> Result<(), RunError> {
    if !batch.is_empty() {
        machine.run(batch)?;
        progress.fetch_add(batch.len() as u64, Ordering::Relaxed);
        batch.clear();
    }
    Ok(())
}

/// Takes a batch through the machine, if there is one; begins to measure after the warm-up.
fn take<M: ConfiguredMmu>(
    machine: &mut Machine<M>,
    read: Result<bool, SourceError>,
    batch: &Batch,
    warm_up: u64,
    begun: &mut Option<Begun>,
) -> Result<bool, RunError> {
    if !read? {
        return Ok(false);
    }
    machine.define_code(batch);
    let mut cursor = Cursor::default();
    while machine.step(batch, &mut cursor)? {
        // Before what happens after the last access of the warm-up, which belongs to the piece.
        if begun.is_none() && machine.accesses() == warm_up {
            machine.measure_from_here();
            *begun = Some(begin(machine));
        }
    }
    Ok(true)
}

fn begin<M: ConfiguredMmu>(machine: &Machine<M>) -> Begun {
    Begun {
        skipped_instructions: machine.counts.skipped_instructions,
        os: machine.os.statistics(machine.mmu.table()),
        own: machine.own_counters(),
        empty: empty(machine),
    }
}

fn empty<M: ConfiguredMmu>(machine: &Machine<M>) -> Empty {
    let private = &machine.caches[0];
    Empty {
        tlb: machine.mmu.empty_places(),
        caches: [&private.l1, &private.l2, &machine.shared.llc].map(|cache| cache.empty_places()),
    }
}
