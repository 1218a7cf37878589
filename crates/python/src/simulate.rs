//! One run of the simulator.

use crate::error;
use crate::progress::Callback;
use crate::source::SourceSpec;
use pagelab_machine::MachineConfig;
use pyo3::prelude::*;

pub(crate) fn simulate(
    py: Python<'_>,
    design: &str,
    machine: &str,
    overrides: &[String],
    source: &str,
    progress: Py<PyAny>,
) -> PyResult<String> {
    let config = MachineConfig::load(machine, overrides).map_err(error)?;
    let spec: SourceSpec = serde_json::from_str(source).map_err(error)?;
    let mut callback = Callback::new(progress);
    let result = py.detach(|| {
        let mut source = spec.open()?;
        pagelab_machine::simulate(&config, design, &mut source, &mut |progress| {
            callback.report(progress.accesses, progress.remaining)
        })
        .map_err(|error| error.to_string())
    });
    callback.finish()?;
    serde_json::to_string(&result.map_err(error)?).map_err(error)
}
