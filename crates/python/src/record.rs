//! One recording.

use crate::error::{ProgramError, error};
use crate::progress::Callback;
use crate::source::WindowSpec;
use pagelab_recorder::{Ended, Origin, Outcome, Progress, RecordError, Request, Stage, Window};
use pyo3::prelude::*;
use serde::Deserialize;
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of a recording.
#[derive(Deserialize)]
struct OptionsSpec {
    follow_exec: bool,
    code: bool,
    cpu: Option<String>,
    /// File for words, if the trace is made afterwards; whether they stay.
    words: Option<PathBuf>,
    keep_words: bool,
    /// Variables of our environment that the program is not to have.
    without: Vec<String>,
    /// The library that tells of allocations, if these are recorded.
    allocations: Option<PathBuf>,
    #[serde(flatten)]
    emulator: EmulatorSpec,
}

/// Places to look for an emulator.
#[derive(Deserialize)]
struct EmulatorSpec {
    qemu: Option<PathBuf>,
    bundled: Option<PathBuf>,
    plugins: PathBuf,
}

/// The emulator that would be used, as JSON.
pub(crate) fn emulator(py: Python<'_>, options: &str) -> PyResult<String> {
    let options: EmulatorSpec = serde_json::from_str(options).map_err(error)?;
    let EmulatorSpec {
        qemu,
        bundled,
        plugins,
    } = options;
    let found = py
        .detach(|| pagelab_recorder::emulator(qemu.as_deref(), bundled.as_deref(), Some(&plugins)))
        .map_err(error)?;
    let described = serde_json::json!({
        "path": found.path,
        "version": found.version,
        "origin": match found.origin {
            Origin::Named => "named",
            Origin::Bundled => "bundled",
            Origin::Path => "path",
        },
        "can_translate_anew": found.can_translate_anew(),
        "places_as_linux": found.places_as_linux(),
        "passed_over": found.passed_over,
    });
    Ok(described.to_string())
}

pub(crate) fn record(
    py: Python<'_>,
    command: Vec<OsString>,
    output: PathBuf,
    window: &str,
    options: &str,
    progress: Py<PyAny>,
) -> PyResult<String> {
    let mut command = command.into_iter();
    let options: OptionsSpec = serde_json::from_str(options).map_err(error)?;
    let WindowSpec {
        skip,
        limit,
        sample,
        thinning,
        in_instructions,
        warm_up: _,
    } = serde_json::from_str(window).map_err(error)?;
    // The recorder's limit ends the interval that is sampled; ours counts what is taken.
    let interval = match (limit, sample) {
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
            limit: interval,
            period,
            sample,
            thinning,
        },
        follow_exec: options.follow_exec,
        with_code: options.code,
        qemu: options.emulator.qemu,
        bundled: options.emulator.bundled,
        cpu: options.cpu,
        plugins: Some(options.emulator.plugins),
        words: options.words,
        keep_words: options.keep_words,
        allocations: options.allocations,
        without: options.without.into_iter().map(Into::into).collect(),
        ..Request::default()
    };
    let mut callback = Callback::new(progress);
    let outcome = py.detach(|| {
        pagelab_recorder::record(&request, &output, &mut |progress| {
            let done = match progress.stage {
                Stage::Words(words) => words,
                _ if in_instructions => progress.instructions,
                _ => progress.accesses,
            };
            let left = limit.map(|limit| limit.saturating_sub(done));
            callback.report_with(done, left, making(progress))
        })
    });
    callback.finish()?;
    let outcome = outcome.map_err(|failure| match failure {
        RecordError::Program { .. } => ProgramError::new_err(failure.to_string()),
        _ => error(failure),
    })?;
    Ok(json(&outcome).to_string())
}

/// Makes the trace of words.
pub(crate) fn finish(
    py: Python<'_>,
    words: PathBuf,
    output: PathBuf,
    keep: bool,
    progress: Py<PyAny>,
) -> PyResult<String> {
    let mut callback = Callback::new(progress);
    let outcome = py.detach(|| {
        pagelab_recorder::finish(&words, &output, keep, &mut |progress| {
            callback.report_with(progress.accesses, None, making(progress))
        })
    });
    callback.finish()?;
    Ok(json(&outcome.map_err(error)?).to_string())
}

/// Progress of a trace that is made of words, in bytes of these.
fn making(progress: Progress) -> Option<(u64, u64)> {
    match progress.stage {
        Stage::Making { read, of } => Some((read, of)),
        _ => None,
    }
}

fn json(outcome: &Outcome) -> serde_json::Value {
    serde_json::json!({
        "accesses": outcome.accesses,
        "instructions": outcome.instructions,
        "bytes": outcome.bytes,
        "seconds": outcome.seconds,
        "running_seconds": outcome.running,
        "words": outcome.words,
        "processes": outcome.processes,
        "threads": outcome.threads,
        "programs": outcome.programs,
        "unrecorded": outcome.unrecorded,
        "refused": outcome.refused.iter().map(|refused| {
            serde_json::json!({
                "call": refused.call,
                "error": refused.error,
                "times": refused.times,
            })
        }).collect::<Vec<_>>(),
        "exit_status": outcome.ended.code(),
        "signal": match outcome.ended {
            Ended::Signal(signal) => Some(signal),
            Ended::Status(_) | Ended::Unknown => None,
        },
        "ended_by": outcome.ended_by,
        "incomplete": outcome.incomplete,
        "notes": outcome.notes,
    })
}
