use crate::config::MachineConfig;
use crate::count::result::RunResult;
use crate::design::carry_out;
use crate::error::SimulateError;
use crate::run::drive::Sources;
use crate::run::pieces::{Pieces, SurveyFile};
use crate::run::progress::Progress;
use pagelab_events::{Divisible, Source};
use std::ops::ControlFlow;

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
    carry_out(config, design, sources, progress)?.whole()
}
