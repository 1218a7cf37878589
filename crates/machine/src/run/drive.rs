//! Takes sources through the machine of a design.

use crate::config::MachineConfig;
use crate::count::result::RunResult;
use crate::design::name::DesignName;
use crate::error::{BuildError, RunError};
use crate::machine::Machine;
use crate::machine::turns::Turns;
use crate::mmu::{ConfiguredMmu, Mmu};
use crate::run::programs;
use crate::run::progress::Progress;
use crate::run::stopped::Stopped;
use pagelab_events::{Batch, Source};
use pagelab_os::Os;
use std::ops::ControlFlow;

/// Sources of a run: one whose threads go round the cores, or one for each core.
pub(crate) enum Sources<'a, 'b> {
    One(&'a mut dyn Source),
    PerCore(&'a mut [&'b mut dyn Source]),
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
        // Nothing has happened while a source waits.
        if !batch.is_empty()
            && let Err(error) = machine.run(&batch)
        {
            return Some(error.into());
        }
        let progress_now = Progress {
            accesses: machine.accesses(),
            remaining: source.remaining(),
            so_far: Some(&|| machine.so_far(config, design)),
        };
        if progress(progress_now).is_break() {
            return Some(Stopped::interrupted());
        }
    }
}
