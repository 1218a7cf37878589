//! Several programs at once, each on a core of its own.

use crate::error::RunError;
use crate::machine::{Cursor, Machine};
use crate::mmu::Mmu;
use crate::run::progress::Progress;
use crate::run::stopped::Stopped;
use pagelab_events::{Batch, Control, Definition, Source};
use std::ops::ControlFlow;

/// A program, and how far it is.
struct Program<'a> {
    source: &'a mut dyn Source,
    batch: Batch,
    cursor: Cursor,
    ended: bool,
}

impl Program<'_> {
    /// Takes it to its first access, as far as it is read. Returns whether that comes after others
    /// that were left out: what has happened then is not measured. `None` if it is to be read on.
    fn initialise<M: Mmu>(&mut self, machine: &mut Machine<M>) -> Result<Option<bool>, RunError> {
        while let Some((0, control)) = self.batch.controls.get(self.cursor.control) {
            if matches!(control, Control::Skipped { .. }) {
                return Ok(Some(true));
            }
            machine.control(self.batch.process, control)?;
            self.cursor.control += 1;
        }
        let begins = self.ended || !self.batch.addr.is_empty();
        Ok(begins.then_some(false))
    }
}

/// Reads the next batch of the program on a core, and says how far all are.
fn read<M: Mmu>(
    machine: &mut Machine<M>,
    programs: &mut [Program],
    core: usize,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), Stopped> {
    let count = programs.len();
    let program = &mut programs[core];
    program.cursor = Cursor::default();
    let more = program.source.next_batch(&mut program.batch);
    program.ended = !more.map_err(|error| Stopped::from(RunError::from(error)).of_program(core))?;
    renumber(&mut program.batch, core, count);
    machine.set_warm_up(program.source.warm_up());
    machine.define_code(&program.batch);
    if program.ended {
        return Ok(());
    }
    let left = programs.iter().map(|program| program.source.remaining());
    let progress_now = Progress {
        accesses: machine.accesses(),
        remaining: left.sum(),
        so_far: None,
    };
    match progress(progress_now) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Stopped::interrupted()),
    }
}

/// Takes all programs to their first accesses. Those whose initialisation is not measured begin
/// together, when the last of them is through with it: else the one that was through first would
/// be measured alone.
fn initialise<M: Mmu>(
    machine: &mut Machine<M>,
    programs: &mut [Program],
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), Stopped> {
    let mut waiting = Vec::new();
    for core in 0..programs.len() {
        machine.pin(core);
        loop {
            let begins = programs[core].initialise(machine);
            match begins.map_err(|error| Stopped::from(error).of_program(core))? {
                None => read(machine, programs, core, progress)?,
                Some(false) => break,
                Some(true) => {
                    waiting.push(core);
                    break;
                }
            }
        }
    }
    let last = waiting.iter().map(|&core| machine.now(core)).max();
    for core in waiting {
        let wait = last.map_or(0, |last| last - machine.now(core));
        if wait > 0 {
            machine.kernel(core, wait, 0);
        }
    }
    Ok(())
}

/// Numbers the processes of a batch anew, since each source begins at 0: those of all programs in
/// turns, so that a number depends on nothing but the program and its own number.
fn renumber(batch: &mut Batch, program: usize, programs: usize) {
    let number = |process: u32| {
        // A number past the last that the operating system takes is refused there.
        let turn = process.saturating_mul(programs as u32);
        turn.saturating_add(program as u32)
    };
    batch.process = number(batch.process);
    for (_, control) in &mut batch.controls {
        if let Control::Fork { child } = control {
            *child = number(*child);
        }
    }
    for definition in &mut batch.definitions {
        if let Definition::Mapping { ranges, .. } = definition {
            ranges
                .iter_mut()
                .for_each(|range| range.process = number(range.process));
        }
    }
}

/// Takes all sources to their ends, the n-th on core n. The core whose clock is least has a turn,
/// a chunk of accesses, so that what cores share sees them nearly in the order of time.
///
/// Returns why it ended early, if it did.
pub(crate) fn run<M: Mmu>(
    machine: &mut Machine<M>,
    sources: &mut [&mut dyn Source],
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Option<Stopped> {
    let mut programs: Vec<Program> = sources
        .iter_mut()
        .map(|source| Program {
            source: &mut **source,
            batch: Batch::default(),
            cursor: Cursor::default(),
            ended: false,
        })
        .collect();
    if programs.iter().any(|program| program.source.has_code()) {
        machine.count_by_code();
    }
    if let Err(stopped) = initialise(machine, &mut programs, progress) {
        return Some(stopped);
    }
    loop {
        let running = (0..programs.len()).filter(|&core| !programs[core].ended);
        let core = running.min_by_key(|&core| machine.now(core))?;
        machine.pin(core);
        loop {
            let program = &mut programs[core];
            match machine.step(&program.batch, &mut program.cursor) {
                Ok(true) if machine.begins_turn() => break,
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => return Some(Stopped::from(error).of_program(core)),
            }
            if let Err(stopped) = read(machine, &mut programs, core, progress) {
                return Some(stopped);
            }
            if programs[core].ended {
                break;
            }
        }
    }
}
