//! Takes sources through the machine of a design.

use crate::config::MachineConfig;
use crate::count::result::RunResult;
use crate::design::name::DesignName;
use crate::error::{BuildError, RunError, SimulateError};
use crate::machine::Machine;
use crate::machine::turns::Turns;
use crate::mmu::{ConfiguredMmu, Mmu};
use crate::run::pieces::{self, BadSurvey, Ended, OnePiece, Pieces, Plan};
use crate::run::programs;
use crate::run::progress::Progress;
use crate::run::stopped::Stopped;
use pagelab_events::{Batch, Source};
use pagelab_os::Os;
use std::ops::ControlFlow;

/// Sources of a run: one whose threads go round the cores, one for each core, or a stream in
/// pieces, together or apart.
pub(crate) enum Sources<'a, 'b> {
    Pieces(Pieces<'a>),
    Apart(Apart<'a>),
    One(&'a mut dyn Source),
    PerCore(&'a mut [&'b mut dyn Source]),
}

/// Part of the work on a stream in pieces that several processes share.
pub(crate) enum Apart<'a> {
    /// Nothing, but that refuses what cannot be done.
    Check,
    /// One piece.
    Piece(OnePiece<'a>),
    /// All that came of them is put together.
    Join(&'a Plan, Vec<Option<Ended>>),
}

/// Outcome of a run.
pub(crate) enum Ran {
    Whole(Box<RunResult>),
    Piece(Option<Box<Ended>>),
    Checked,
}

impl Ran {
    /// A whole result, which is what is asked for.
    pub(crate) fn whole(self) -> Result<RunResult, SimulateError> {
        match self {
            Ran::Whole(result) => Ok(*result),
            Ran::Piece(_) | Ran::Checked => Err(BadSurvey::Impossible.into()),
        }
    }

    /// Outcome of a piece, if that is what was asked for.
    pub(crate) fn piece(self) -> Option<Box<Ended>> {
        match self {
            Ran::Piece(ended) => ended,
            Ran::Whole(_) | Ran::Checked => None,
        }
    }
}

/// Inputs of a run besides the machine.
pub(crate) struct Drive<'a, 'b> {
    pub(crate) design: DesignName,
    pub(crate) sources: Sources<'a, 'b>,
    pub(crate) progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
}

/// Builds the machine of a design and takes the sources through it.
pub(crate) fn run<M: ConfiguredMmu>(
    config: &MachineConfig,
    drive: &mut Drive,
) -> Result<Ran, BuildError> {
    let whole = |result| Ran::Whole(Box::new(result));
    match &mut drive.sources {
        Sources::Pieces(pieces) => {
            pieces::run::<M>(config, drive.design, *pieces, drive.progress).map(whole)
        }
        Sources::Apart(Apart::Check) => {
            pieces::check_design::<M>(config, drive.design).map(|()| Ran::Checked)
        }
        Sources::Apart(Apart::Piece(piece)) => {
            let ended = pieces::run_one::<M>(config, drive.design, piece, drive.progress)?;
            Ok(Ran::Piece(ended.map(Box::new)))
        }
        Sources::Apart(Apart::Join(plan, ended)) => {
            let ended = std::mem::take(ended);
            pieces::put_together::<M>(config, drive.design, plan, ended).map(whole)
        }
        Sources::One(_) | Sources::PerCore(_) => run_whole::<M>(config, drive).map(whole),
    }
}

fn run_whole<M: ConfiguredMmu>(
    config: &MachineConfig,
    drive: &mut Drive,
) -> Result<RunResult, BuildError> {
    let config = &*M::machine_of(drive.design, config)?;
    let os = Os::with_placement(config.memory.clone(), M::placement(config), config.seed)?;
    let mmu = M::build(config, &os)?;
    let mut machine = Machine::new(config, os, mmu, M::statistics)?;
    let stopped = match &mut drive.sources {
        Sources::One(source) => {
            let mut turns;
            let source: &mut dyn Source = match config.threads_turn() {
                0 => *source,
                turn => {
                    turns = Turns::new(*source, turn);
                    &mut turns
                }
            };
            run_one(&mut machine, (config, drive.design), source, drive.progress)
        }
        Sources::PerCore(sources) => programs::run(&mut machine, sources, drive.progress),
        Sources::Pieces(_) | Sources::Apart(_) => None,
    };
    Ok(machine.result(config, drive.design, stopped))
}

/// Takes a source through a machine; returns why it ended early, if it did.
fn run_one<M: Mmu>(
    machine: &mut Machine<M>,
    (config, design): (&MachineConfig, DesignName),
    source: &mut dyn Source,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Option<Stopped> {
    let mut batch = Batch::default();
    if source.has_code() {
        machine.count_by_code(true);
    }
    loop {
        match source.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(RunError::from(error).into()),
        }
        machine.set_warm_up(source.warm_up());
        machine.define_code(&batch);
        // Nothing has happened while a source waits.
        if !batch.is_empty()
            && let Err(error) = machine.run(&batch)
        {
            return Some(error.into());
        }
        let progress_now = Progress {
            accesses: machine.accesses(),
            remaining: source.remaining(),
            pieces: None,
            so_far: Some(&|| machine.so_far(config, design)),
        };
        if progress(progress_now).is_break() {
            return Some(Stopped::interrupted());
        }
    }
}
