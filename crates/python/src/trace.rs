//! Looking into traces and converting them.

use crate::error::error;
use crate::source::{SourceSpec, WindowSpec};
use pagelab_champsim::{is_champsim, write_champsim};
use pagelab_events::{
    ConvertError, Format, Metadata, SourceError, TraceInfo, TraceReader, Window, open_any,
};
use pyo3::exceptions::PyBrokenPipeError;
use pyo3::prelude::*;
use std::io::{self, ErrorKind};
use std::path::Path;

pub(crate) fn info(py: Python<'_>, path: &Path) -> PyResult<String> {
    let info = py.detach(|| TraceInfo::of(path)).map_err(error)?;
    serde_json::to_string(&info).map_err(error)
}

/// The headers of a trace's blocks; `None` for what is not a file of pagelab's own format.
pub(crate) fn headers(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let headers = || {
        if !TraceReader::is_file(path)? {
            return Ok(None);
        }
        Ok(Some(TraceReader::open(path)?.headers()))
    };
    let read: Result<_, SourceError> = headers();
    let read = read.map_err(|error| error.to_string())?.transpose();
    read.map_err(|error| format!("{}: {error}", path.display()))
}

/// True if a file of pagelab's own format ends without its index: nothing in it says what it lost.
pub(crate) fn is_cut(path: &Path) -> Result<bool, SourceError> {
    Ok(TraceReader::is_file(path)? && !TraceReader::open(path)?.is_complete())
}

pub(crate) fn cat(py: Python<'_>, path: &Path, window: &str) -> PyResult<()> {
    let window: WindowSpec = serde_json::from_str(window).map_err(error)?;
    let written = py.detach(|| {
        let mut source = Window::new(open_any(path)?, window.selection());
        pagelab_events::cat(&mut source, io::stdout().lock(), "standard output")
    });
    match written {
        Ok(_) => Ok(()),
        Err(ConvertError::Write { error, .. }) if error.kind() == ErrorKind::BrokenPipe => {
            Err(PyBrokenPipeError::new_err(()))
        }
        Err(failure) => Err(error(failure)),
    }
}

pub(crate) fn write(py: Python<'_>, source: &str, output: &Path) -> PyResult<u64> {
    let spec: SourceSpec = serde_json::from_str(source).map_err(error)?;
    let metadata = Metadata::new().with("workload", spec.name());
    py.detach(|| {
        let mut source = spec.open()?;
        pagelab_events::write(&mut source, &metadata, output, Format::of_name(output))
            .map_err(|error| error.to_string())
    })
    .map_err(error)
}

pub(crate) fn convert(py: Python<'_>, path: &Path, output: &Path) -> PyResult<u64> {
    if is_champsim(output) {
        return py
            .detach(|| {
                let mut source = open_any(path).map_err(|error| error.to_string())?;
                write_champsim(&mut source, output)
                    .map_err(|error| format!("{}: {error}", path.display()))
            })
            .map_err(error);
    }
    py.detach(|| pagelab_events::convert(path, output, Format::of_name(output)))
        .map_err(error)
}
