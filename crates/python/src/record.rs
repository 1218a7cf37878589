//! One recording.

use crate::progress::Callback;
use crate::source::WindowSpec;
use crate::{ProgramError, error};
use pagelab_recorder::{Ended, Outcome, RecordError, Request, Window};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) fn record(
    py: Python<'_>,
    command: Vec<OsString>,
    output: PathBuf,
    window: &str,
    follow_exec: bool,
    plugins: PathBuf,
    progress: Py<PyAny>,
) -> PyResult<String> {
    let mut command = command.into_iter();
    let WindowSpec {
        skip,
        limit,
        sample,
        in_instructions,
        warm_up: _,
    } = serde_json::from_str(window).map_err(error)?;
    // The recorder's limit ends the stretch that is sampled; ours counts what is taken.
    let stretch = match (limit, sample) {
        (Some(limit), Some((taken, period))) if taken > 0 => (limit / taken)
            .saturating_mul(period)
            .saturating_add(limit % taken),
        _ => limit.unwrap_or(0),
    };
    let (sample, period) = sample.unwrap_or_default();
    let request = Request {
        program: command.next().ok_or_else(|| error("no program is named"))?,
        arguments: command.collect(),
        window: Window {
            in_instructions,
            skip,
            limit: stretch,
            period,
            sample,
        },
        follow_exec,
        plugins: Some(plugins),
        ..Request::default()
    };
    let mut callback = Callback::new(progress);
    let outcome = py.detach(|| {
        pagelab_recorder::record(&request, &output, &mut |progress| {
            let done = if in_instructions {
                progress.instructions
            } else {
                progress.accesses
            };
            callback.report(done, limit.map(|limit| limit.saturating_sub(done)))
        })
    });
    callback.finish()?;
    let outcome = outcome.map_err(|failure| match failure {
        RecordError::Program { .. } => ProgramError::new_err(failure.to_string()),
        _ => error(failure),
    })?;
    Ok(json(&outcome).to_string())
}

fn json(outcome: &Outcome) -> serde_json::Value {
    serde_json::json!({
        "accesses": outcome.accesses,
        "instructions": outcome.instructions,
        "bytes": outcome.bytes,
        "seconds": outcome.seconds,
        "processes": outcome.processes,
        "threads": outcome.threads,
        "exit_status": outcome.ended.code(),
        "signal": match outcome.ended {
            Ended::Signal(signal) => Some(signal),
            Ended::Status(_) => None,
        },
        "incomplete": outcome.incomplete,
        "notes": outcome.notes,
    })
}
