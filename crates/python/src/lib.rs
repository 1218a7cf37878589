//! The Python module `pagelab._core`: whole runs go in, JSON comes out, and the interpreter lock
//! is not held in between. `python/pagelab/_core.pyi` documents the functions for Python.

use pyo3::prelude::*;

#[allow(missing_docs)] // the macro leaves no place for them
mod exception {
    pyo3::create_exception!(_core, Error, pyo3::exceptions::PyException);
}
use exception::Error;

/// Any error of the Rust side, as the exception that Python turns into a message.
fn error(error: impl std::fmt::Display) -> PyErr {
    Error::new_err(error.to_string())
}

type Names = Vec<(&'static str, &'static str)>;

#[pymodule]
mod _core {
    use super::*;

    #[pymodule_export]
    use super::Error;

    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    #[pyfunction]
    fn designs() -> Names {
        vec![
            ("radix", "radix tree of 4 levels, split page-walk cache"),
            ("radix5", "radix tree of 5 levels, split page-walk cache"),
            (
                "dpt",
                "distributed page table: PTE pages hashed over physical memory",
            ),
            ("ideal", "free translation: the bound for any design"),
        ]
    }

    #[pyfunction]
    fn machines() -> Names {
        vec![("dpt-paper", "")]
    }

    #[pyfunction]
    fn machine(name: &str, overrides: Vec<String>) -> PyResult<String> {
        let _ = (name, overrides);
        Ok("{}".into())
    }

    #[pyfunction]
    fn workloads() -> Names {
        pagelab_workloads::ALL
            .iter()
            .map(|workload| (workload.name, workload.description))
            .collect()
    }

    #[pyfunction]
    fn managers() -> Names {
        vec![]
    }

    #[pyfunction]
    fn simulate(
        design: &str,
        machine: &str,
        overrides: Vec<String>,
        source: &str,
        progress: Py<PyAny>,
    ) -> PyResult<String> {
        let _ = (design, machine, overrides, source, progress);
        Err(error("the simulator is not built in yet"))
    }

    #[pyfunction]
    fn record(request: &str, progress: Py<PyAny>) -> PyResult<String> {
        let _ = (request, progress);
        Err(error("the recorder is not built in yet"))
    }

    #[pyfunction]
    fn trace_info(path: &str) -> PyResult<String> {
        Err(error(format!(
            "{path}: the trace reader is not built in yet"
        )))
    }

    #[pyfunction]
    fn trace_cat(path: &str, skip: u64, limit: Option<u64>, write: Py<PyAny>) -> PyResult<()> {
        let _ = (skip, limit, write);
        Err(error(format!(
            "{path}: the trace reader is not built in yet"
        )))
    }

    #[pyfunction]
    fn trace_convert(path: &str, output: &str) -> PyResult<u64> {
        let _ = output;
        Err(error(format!(
            "{path}: the trace reader is not built in yet"
        )))
    }
}
