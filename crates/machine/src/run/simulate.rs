use crate::config::MachineConfig;
use crate::count::result::RunResult;
use crate::design::carry_out;
use crate::error::SimulateError;
use crate::run::drive::Sources;
use crate::run::progress::Progress;
use pagelab_events::Source;
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
    carry_out(config, design, Sources::One(source), progress)
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
    carry_out(&config, design, Sources::PerCore(sources), progress)
}
