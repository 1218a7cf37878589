//! Several programs at once, each on a core of its own.

use crate::error::RunError;
use crate::machine::{Machine, Place};
use crate::simulate::{Progress, Stopped};
use pagelab_events::{Batch, Control, Definition, Source};
use pagelab_translation::{PageTable, Tlb};
use std::ops::ControlFlow;

/// A program, and how far it is.
struct Program<'a> {
    source: &'a mut dyn Source,
    batch: Batch,
    place: Place,
    ended: bool,
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
pub(crate) fn run<P: PageTable, T: Tlb>(
    machine: &mut Machine<P, T>,
    sources: &mut [&mut dyn Source],
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Option<Stopped> {
    let mut programs: Vec<Program> = sources
        .iter_mut()
        .map(|source| Program {
            source: &mut **source,
            batch: Batch::default(),
            place: Place::default(),
            ended: false,
        })
        .collect();
    let count = programs.len();
    if programs.iter().any(|program| program.source.has_code()) {
        machine.count_by_code();
    }
    loop {
        let running = (0..programs.len()).filter(|&core| !programs[core].ended);
        let core = running.min_by_key(|&core| machine.now(core))?;
        machine.pin(core);
        loop {
            let program = &mut programs[core];
            match machine.step(&program.batch, &mut program.place) {
                Ok(true) if machine.begins_turn() => break,
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => return Some(Stopped::from(error).of_program(core)),
            }
            program.place = Place::default();
            match program.source.next_batch(&mut program.batch) {
                Ok(more) => program.ended = !more,
                Err(error) => {
                    return Some(Stopped::from(RunError::from(error)).of_program(core));
                }
            }
            renumber(&mut program.batch, core, count);
            machine.set_warm_up(program.source.warm_up());
            machine.define_code(&program.batch);
            if program.ended {
                break;
            }
            let left = programs.iter().map(|program| program.source.remaining());
            let progress_now = Progress {
                accesses: machine.accesses(),
                remaining: left.sum(),
            };
            if progress(progress_now).is_break() {
                return Some(Stopped::interrupted());
            }
        }
    }
}
