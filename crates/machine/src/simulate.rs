use crate::config::MachineConfig;
use crate::designs::{ConfiguredTable, ConfiguredTlb, Design};
use crate::machine::{BuildError, Machine, RunError};
use crate::result::RunResult;
use pagelab_events::{Batch, Source};
use pagelab_os::Os;
use std::ops::ControlFlow;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Accesses simulated.
    pub accesses: u64,
    /// Accesses yet to come, as far as the source knows.
    pub remaining: Option<u64>,
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
    let design = Design::find(design)?;
    let mut drive = Drive {
        design: design.name(),
        source,
        progress,
    };
    Ok((design.run)(config, &mut drive)?)
}

/// What a run needs besides the machine.
pub(crate) struct Drive<'a> {
    design: String,
    source: &'a mut dyn Source,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
}

/// Builds the machine of a design and takes the source through it.
pub(crate) fn run<P: ConfiguredTable, T: ConfiguredTlb>(
    config: &MachineConfig,
    drive: &mut Drive,
) -> Result<RunResult, BuildError> {
    let os = Os::new(config.memory.clone(), config.seed)?;
    let mut machine = Machine::new(config, os, P::build(config)?, || T::build(config))?;
    let mut batch = Batch::default();
    let stopped = loop {
        match drive.source.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => break None,
            Err(error) => break Some(RunError::from(error).to_string()),
        }
        machine.set_warm_up(drive.source.warm_up());
        if let Err(error) = machine.run(&batch) {
            break Some(error.to_string());
        }
        let progress = Progress {
            accesses: machine.accesses(),
            remaining: drive.source.remaining(),
        };
        if (drive.progress)(progress).is_break() {
            break Some("interrupted".to_owned());
        }
    };
    Ok(machine.result(config, &drive.design, stopped, P::statistics))
}
