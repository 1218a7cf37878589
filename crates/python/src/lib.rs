//! The Python module `pagelab._core`: whole runs go in, JSON comes out, and the interpreter lock
//! is not held in between. `python/pagelab/_core.pyi` documents the functions for Python.

mod error;
mod guest;
mod lines;
mod progress;
mod record;
mod replay;
mod simulate;
mod source;
mod trace;

use error::{Error, ProgramError, error};
use pagelab_machine::MachineConfig;
use pyo3::prelude::*;
use schemars::generate::{Contract, SchemaSettings};
use std::ffi::OsString;
use std::path::PathBuf;

/// A parameter's value as one would write it.
fn amount(value: u64) -> String {
    match (value.trailing_zeros(), value >> 20) {
        (30.., 1..) => format!("{}GiB", value >> 30),
        (20.., 1..) => format!("{}MiB", value >> 20),
        _ => value.to_string(),
    }
}

type Names = Vec<(&'static str, &'static str)>;
/// Name, description, default, least and largest value.
type ParameterRow = (&'static str, &'static str, u64, u64, u64);

#[pymodule]
mod _core {
    use super::*;

    #[pymodule_export]
    use super::{Error, ProgramError};

    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    #[pyfunction]
    fn run_schema() -> String {
        let mut settings = SchemaSettings::draft2020_12();
        settings.contract = Contract::Serialize;
        let schema = settings
            .into_generator()
            .into_root_schema_for::<lines::WithLines>();
        schema.to_value().to_string()
    }

    #[pyfunction]
    fn machine_schema() -> String {
        let settings = SchemaSettings::draft2020_12();
        let schema = settings
            .into_generator()
            .into_root_schema_for::<MachineConfig>();
        schema.to_value().to_string()
    }

    #[pyfunction]
    fn designs() -> Vec<(String, String)> {
        let designs = pagelab_machine::Design::all();
        designs
            .map(|design| (design.name(), design.description()))
            .collect()
    }

    /// Whole name, page table, TLB, the tables of keys that are its own, whether it is a usual one.
    #[pyfunction]
    fn design(
        name: &str,
    ) -> PyResult<(String, &'static str, &'static str, Vec<&'static str>, bool)> {
        let design = pagelab_machine::Design::find(name).map_err(error)?;
        Ok((
            design.name(),
            design.page_table(),
            design.tlb(),
            design.tables(),
            design.is_usual(),
        ))
    }

    #[pyfunction]
    fn machines() -> PyResult<Vec<(String, String)>> {
        let presets = pagelab_machine::PRESETS.iter();
        presets
            .map(|(name, _)| {
                let config = MachineConfig::load(name, &[]).map_err(error)?;
                Ok(((*name).to_owned(), config.description))
            })
            .collect()
    }

    #[pyfunction]
    fn machine(name: &str, overrides: Vec<String>) -> PyResult<String> {
        let config = MachineConfig::load(name, &overrides).map_err(error)?;
        serde_json::to_string(&config).map_err(error)
    }

    #[pyfunction]
    fn hash_collisions(py: Python<'_>, entries: u64, pages: u64, seed: u64) -> u64 {
        py.detach(|| pagelab_translation::hash_collisions(entries, pages, seed))
    }

    #[pyfunction]
    fn workloads() -> Vec<(String, String)> {
        let parameters = |workload: &pagelab_workloads::Workload| {
            let parameters = workload.parameters.iter();
            let texts: Vec<_> = parameters
                .map(|p| format!("{}={} ({})", p.name, amount(p.default), p.description))
                .collect();
            texts.join(", ")
        };
        let all = pagelab_workloads::ALL.iter();
        all.map(|w| {
            (
                w.name.to_owned(),
                format!("{}; {}", w.description, parameters(w)),
            )
        })
        .collect()
    }

    #[pyfunction]
    fn workload_parameters(name: &str) -> PyResult<Vec<ParameterRow>> {
        let workload = super::source::workload(name).map_err(error)?;
        let parameters = workload.parameters.iter().chain(pagelab_workloads::COMMON);
        Ok(parameters
            .map(|p| (p.name, p.description, p.default, p.min, p.max))
            .collect())
    }

    #[pyfunction]
    fn check_source(source: &str) -> PyResult<()> {
        super::source::Programs::from_json(source)
            .map_err(error)?
            .check()
            .map_err(error)
    }

    #[pyfunction]
    fn build(py: Python<'_>, design: &str, machine: &str, overrides: Vec<String>) -> PyResult<()> {
        super::simulate::build(py, design, machine, &overrides)
    }

    #[pyfunction]
    fn managers() -> Names {
        pagelab_machine::MANAGERS.to_vec()
    }

    #[pyfunction]
    #[pyo3(signature = (design, machine, overrides, source, progress, so_far=None))]
    fn simulate(
        py: Python<'_>,
        design: &str,
        machine: &str,
        overrides: Vec<String>,
        source: &str,
        progress: Py<PyAny>,
        so_far: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let calls = (progress, so_far);
        super::simulate::simulate(py, design, machine, &overrides, source, calls)
    }

    /// Identity of a trace's content, if it is a file of pagelab's own format: the headers of its blocks, with their
    /// checksums.
    #[pyfunction]
    fn trace_headers(py: Python<'_>, path: PathBuf) -> PyResult<Option<Vec<u8>>> {
        py.detach(|| super::trace::headers(&path))
            .map_err(super::error)
    }

    #[pyfunction]
    fn trace_is_cut(py: Python<'_>, path: PathBuf) -> PyResult<bool> {
        py.detach(|| super::trace::is_cut(&path)).map_err(error)
    }

    #[pyfunction]
    fn replay_ranges(
        py: Python<'_>,
        machine: &str,
        overrides: Vec<String>,
        entries: u32,
        ranges: Vec<(u64, u64, u64)>,
        accesses: PathBuf,
    ) -> PyResult<(u64, u64, u64, u64)> {
        super::replay::replay(py, machine, &overrides, entries, &ranges, &accesses)
    }

    #[pyfunction]
    fn record(
        py: Python<'_>,
        command: Vec<OsString>,
        output: PathBuf,
        window: &str,
        options: &str,
        progress: Py<PyAny>,
    ) -> PyResult<String> {
        super::record::record(py, command, output, window, options, progress)
    }

    #[pyfunction]
    fn finish_recording(
        py: Python<'_>,
        words: PathBuf,
        output: PathBuf,
        keep: bool,
        progress: Py<PyAny>,
    ) -> PyResult<String> {
        super::record::finish(py, words, output, keep, progress)
    }

    #[pyfunction]
    fn record_guest(
        py: Python<'_>,
        report: i32,
        trace: PathBuf,
        walks: PathBuf,
        metadata: &str,
        memory: Option<u64>,
        symbols: Option<PathBuf>,
    ) -> PyResult<String> {
        super::guest::record(
            py,
            report,
            (&trace, &walks),
            metadata,
            memory,
            symbols.as_deref(),
        )
    }

    #[pyfunction]
    fn judge_walks(py: Python<'_>, walks: PathBuf) -> PyResult<String> {
        super::guest::judge(py, &walks)
    }

    #[pyfunction]
    fn emulator(py: Python<'_>, options: &str) -> PyResult<String> {
        super::record::emulator(py, options)
    }

    #[pyfunction]
    fn trace_info(py: Python<'_>, path: PathBuf) -> PyResult<String> {
        super::trace::info(py, &path)
    }

    #[pyfunction]
    fn trace_cat(py: Python<'_>, path: PathBuf, window: &str) -> PyResult<()> {
        super::trace::cat(py, &path, window)
    }

    #[pyfunction]
    fn trace_write(py: Python<'_>, source: &str, output: PathBuf) -> PyResult<u64> {
        super::trace::write(py, source, &output)
    }

    #[pyfunction]
    fn trace_convert(py: Python<'_>, path: PathBuf, output: PathBuf) -> PyResult<u64> {
        super::trace::convert(py, &path, &output)
    }
}
