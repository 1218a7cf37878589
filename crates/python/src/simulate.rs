//! One run of the simulator.

use crate::error::error;
use crate::lines::WithLines;
use crate::progress::Callback;
use crate::source::Programs;
use pagelab_events::{Batch, Source, SourceError};
use pagelab_machine::{MachineConfig, simulate_programs};
use pyo3::prelude::*;
use std::ops::ControlFlow;

pub(crate) fn simulate(
    py: Python<'_>,
    design: &str,
    machine: &str,
    overrides: &[String],
    source: &str,
    (progress, so_far): (Py<PyAny>, Option<Py<PyAny>>),
) -> PyResult<String> {
    let config = MachineConfig::load(machine, overrides).map_err(error)?;
    let programs = Programs::from_json(source).map_err(error)?;
    let mut callback = Callback::new(progress).and_look(so_far);
    let result = py.detach(|| {
        let mut report = |progress: pagelab_machine::Progress| {
            if let Some(so_far) = progress.so_far {
                // A result is a tree of numbers and texts.
                let text = || serde_json::to_string(&so_far()).unwrap_or_default();
                callback.look(text)?;
            }
            callback.report(progress.accesses, progress.remaining)
        };
        match programs {
            Programs::One(spec) => {
                let mut source = spec.open()?;
                pagelab_machine::simulate(&config, design, &mut source, &mut report)
            }
            Programs::PerCore(specs) => {
                let opened: Result<Vec<_>, String> = specs.iter().map(|spec| spec.open()).collect();
                let mut opened = opened?;
                let mut sources: Vec<&mut dyn Source> = opened
                    .iter_mut()
                    .map(|source| source as &mut dyn Source)
                    .collect();
                simulate_programs(&config, design, &mut sources, &mut report)
            }
        }
        .map_err(|error| error.to_string())
    });
    callback.finish()?;
    let result = result.map_err(error)?;
    py.detach(|| serde_json::to_string(&WithLines::of(&result)).map_err(|error| error.to_string()))
        .map_err(error)
}

/// Nothing happens.
struct Nothing;

impl Source for Nothing {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        Ok(false)
    }
}

/// Builds a machine and has it simulate nothing: what keeps it from being built is said before anything else is
/// done.
pub(crate) fn build(
    py: Python<'_>,
    design: &str,
    machine: &str,
    overrides: &[String],
) -> PyResult<()> {
    let config = MachineConfig::load(machine, overrides).map_err(error)?;
    let go_on = &mut |_: pagelab_machine::Progress| ControlFlow::Continue(());
    py.detach(|| pagelab_machine::simulate(&config, design, &mut Nothing, go_on))
        .map(drop)
        .map_err(error)
}
