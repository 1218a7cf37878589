//! The Python module `pagelab._core`: whole runs go in, JSON comes out, and the interpreter lock
//! is not held in between.

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use super::*;

    /// The version of the compiled module.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
