use crate::config::MachineConfig;
use crate::designs::Design;
use crate::error::{BuildError, RunError};
use crate::machine::Machine;
use crate::mmu::{ConfiguredMmu, Mmu};
use crate::pieces::{self, BadSurvey, Ended, OnePiece, Pieces, Plan, SurveyFile};
use crate::programs;
use crate::result::RunResult;
use crate::turns::Turns;
use pagelab_events::{Batch, Divisible, Source};
use pagelab_os::Os;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Accesses simulated.
    pub accesses: u64,
    /// Accesses yet to come, as far as the source knows.
    pub remaining: Option<u64>,
    /// Where a stream is simulated in pieces: how many have ended, of how many.
    pub pieces: Option<(u64, u64)>,
}

/// Why a run ended before its source did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stopped {
    pub(crate) why: String,
    pub(crate) out_of_memory: bool,
}

impl Stopped {
    pub(crate) fn interrupted() -> Self {
        Stopped {
            why: "interrupted".to_owned(),
            out_of_memory: false,
        }
    }

    /// What nothing but a defect of this program leads to.
    pub(crate) fn inexact(piece: u64) -> Self {
        Stopped {
            why: format!(
                "piece {piece} begins with other memory than the piece before it ends with: this is a \
                 defect of pagelab; simulate without pieces"
            ),
            out_of_memory: false,
        }
    }

    /// What a program of several ended with.
    pub(crate) fn of_program(self, program: usize) -> Self {
        Stopped {
            why: format!("program {program}: {}", self.why),
            ..self
        }
    }
}

impl From<RunError> for Stopped {
    fn from(error: RunError) -> Self {
        Stopped {
            why: error.to_string(),
            out_of_memory: error.is_out_of_memory(),
        }
    }
}

/// Why nothing was simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// No such design.
    #[error("unknown design {name:?}: there are {}{hint}", known.join(", "))]
    UnknownDesign {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
        /// The nearest of these, in words, if one is near.
        hint: String,
    },
    /// The machine cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// What was seen of a stream elsewhere is not that.
    #[error(transparent)]
    Survey(#[from] BadSurvey),
    /// What came of a piece elsewhere is not that.
    #[error("not what came of a piece: {0}")]
    Piece(#[from] serde_json::Error),
}

/// Simulates a source on a machine with a design, to the source's end, to the first error, or
/// until `progress` breaks it off; the result says which, and holds for what was simulated.
///
/// # Errors
/// [`SimulateError`] when nothing could be simulated at all.
pub fn simulate(
    config: &MachineConfig,
    design: &str,
    source: &mut dyn Source,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<RunResult, SimulateError> {
    drive(config, design, Sources::One(source), progress)
}

/// [`simulate`] for several sources at once, each on a core of its own and in address spaces of
/// its own. The machine has a core for each, and no more.
///
/// # Errors
/// [`SimulateError`] when nothing could be simulated at all.
pub fn simulate_programs(
    config: &MachineConfig,
    design: &str,
    sources: &mut [&mut dyn Source],
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<RunResult, SimulateError> {
    let mut config = config.clone();
    config.cores = sources.len() as u32;
    drive(&config, design, Sources::PerCore(sources), progress)
}

/// [`simulate`] for a stream that is cut into pieces, so many of which are simulated at once. The
/// result does not depend on how many; what cutting may have changed is in its `pieces`.
///
/// `count` says how many pieces there are; without, the length of the stream and the caches do.
///
/// # Errors
/// [`SimulateError`] when nothing could be simulated at all, or not in pieces.
pub fn simulate_in_pieces(
    config: &MachineConfig,
    design: &str,
    stream: &dyn Divisible,
    workers: usize,
    count: Option<u64>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<RunResult, SimulateError> {
    let pieces = Pieces {
        stream,
        workers,
        count,
        survey: None,
    };
    drive(config, design, Sources::Pieces(pieces), progress)
}

/// The same with what is seen of the stream kept in a file, or taken from there if a run before has
/// kept it: it is the same for all designs and machines.
///
/// # Errors
/// [`SimulateError`] when nothing could be simulated at all, or not in pieces.
pub fn simulate_in_pieces_keeping(
    config: &MachineConfig,
    design: &str,
    stream: &dyn Divisible,
    workers: usize,
    survey: &SurveyFile,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<RunResult, SimulateError> {
    let pieces = Pieces {
        stream,
        workers,
        count: None,
        survey: Some(survey),
    };
    drive(config, design, Sources::Pieces(pieces), progress)
}

fn drive<'a>(
    config: &MachineConfig,
    design: &str,
    sources: Sources<'a, '_>,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<RunResult, SimulateError> {
    ran(config, design, sources, progress)?.whole()
}

/// A part of what simulating in several processes takes.
pub(crate) fn carry_out<'a>(
    config: &MachineConfig,
    design: &str,
    apart: Apart<'a>,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Ran, SimulateError> {
    ran(config, design, Sources::Apart(apart), progress)
}

fn ran<'a>(
    config: &MachineConfig,
    design: &str,
    sources: Sources<'a, '_>,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Ran, SimulateError> {
    let design = Design::find(design)?;
    let mut drive = Drive {
        design,
        sources,
        progress,
    };
    Ok((design.run())(config, &mut drive)?)
}

/// What runs: a source whose threads go round the cores, or a source for each core, or a stream in
/// pieces, together or apart.
enum Sources<'a, 'b> {
    Pieces(Pieces<'a>),
    Apart(Apart<'a>),
    One(&'a mut dyn Source),
    PerCore(&'a mut [&'b mut dyn Source]),
}

/// What is done of a stream in pieces that several processes have.
pub(crate) enum Apart<'a> {
    /// Nothing, but that refuses what cannot be done, of a stream with code or without.
    Check(bool),
    /// One piece.
    Piece(OnePiece<'a>),
    /// All that came of them is put together.
    Join(&'a Plan, Vec<Option<Ended>>),
}

/// What came of it.
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

    /// What came of a piece, if that is what was asked for.
    pub(crate) fn piece(self) -> Option<Box<Ended>> {
        match self {
            Ran::Piece(ended) => ended,
            Ran::Whole(_) | Ran::Checked => None,
        }
    }
}

/// What a run needs besides the machine.
pub(crate) struct Drive<'a, 'b> {
    design: Design,
    sources: Sources<'a, 'b>,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
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
        &mut Sources::Apart(Apart::Check(has_code)) => {
            pieces::check_design::<M>(config, drive.design, has_code).map(|()| Ran::Checked)
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
        Sources::One(source) => match config.threads_turn() {
            0 => run_one(&mut machine, *source, drive.progress),
            turn => run_one(&mut machine, &mut Turns::new(*source, turn), drive.progress),
        },
        Sources::PerCore(sources) => programs::run(&mut machine, sources, drive.progress),
        Sources::Pieces(_) | Sources::Apart(_) => None,
    };
    Ok(machine.result(config, drive.design, stopped))
}

/// Takes a source through a machine; returns why it ended early, if it did.
fn run_one<M: Mmu>(
    machine: &mut Machine<M>,
    source: &mut dyn Source,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Option<Stopped> {
    let mut batch = Batch::default();
    if source.has_code() {
        machine.count_by_code();
    }
    loop {
        match source.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(RunError::from(error).into()),
        }
        machine.set_warm_up(source.warm_up());
        machine.define_code(&batch);
        if let Err(error) = machine.run(&batch) {
            return Some(error.into());
        }
        let progress_now = Progress {
            accesses: machine.accesses(),
            remaining: source.remaining(),
            pieces: None,
        };
        if progress(progress_now).is_break() {
            return Some(Stopped::interrupted());
        }
    }
}
