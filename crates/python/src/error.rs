use pyo3::prelude::*;

#[allow(missing_docs)] // the macro leaves no place for them
mod exception {
    pyo3::create_exception!(_core, Error, pyo3::exceptions::PyException);
    pyo3::create_exception!(_core, ProgramError, Error);
}
pub(crate) use exception::{Error, ProgramError};

/// Any error of the Rust side, as the exception that Python turns into a message.
pub(crate) fn error(error: impl std::fmt::Display) -> PyErr {
    Error::new_err(error.to_string())
}
