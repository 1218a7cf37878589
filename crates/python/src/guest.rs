//! The work of a guest's processor: a recording, and its walks beside the simulator's.

use crate::error::error;
use pagelab_events::Metadata;
use pagelab_guest::{GuestError, WalkLines};
use pyo3::prelude::*;
use std::fs::File;
use std::io::BufReader;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// Reads what linux/guest/system.c writes to a descriptor, which is closed, until there is no more.
pub(crate) fn record(
    py: Python<'_>,
    report: RawFd,
    (trace, walks): (&Path, &Path),
    metadata: &str,
    memory: Option<u64>,
    symbols: Option<&Path>,
) -> PyResult<String> {
    if report < 0 {
        return Err(error("no descriptor"));
    }
    let metadata = Metadata(serde_json::from_str(metadata).map_err(error)?);
    // SAFETY: the caller gives the descriptor away (_core.pyi says so), and no longer uses it.
    let report = File::from(unsafe { OwnedFd::from_raw_fd(report) });
    let symbols = match symbols {
        Some(path) => File::open(path)
            .and_then(|map| pagelab_guest::symbols(BufReader::new(map)))
            .map_err(|why| error(format!("{}: {why}", path.display())))?,
        None => Vec::new(),
    };
    let recorded =
        py.detach(|| pagelab_guest::record(report, trace, walks, &metadata, memory, &symbols));
    let recorded = recorded.map_err(error)?;
    let json = serde_json::json!({
        "accesses": recorded.accesses,
        "by_kernel": recorded.by_kernel,
        "instructions": recorded.instructions,
        "kernel_instructions": recorded.kernel_instructions,
        "walks": recorded.walks,
        "faults": recorded.faults,
        "spaces": recorded.spaces,
        "whole": recorded.whole,
    });
    Ok(json.to_string())
}

/// Compares a list of walks with those of the simulator.
pub(crate) fn judge(py: Python<'_>, walks: &Path) -> PyResult<String> {
    let judged =
        py.detach(|| -> Result<_, GuestError> { pagelab_guest::judge(WalkLines::open(walks)?) });
    let judged = judged.map_err(error)?;
    let json = serde_json::json!({
        "levels": judged.levels,
        "walks": judged.walks,
        "hashed": judged.hashed,
        "hashed_simulated": judged.hashed_simulated,
        "reads": judged.reads,
        "faults": judged.faults,
        "different": judged.different,
        "moved": judged.moved,
        "differences": judged.differences,
    });
    Ok(json.to_string())
}
