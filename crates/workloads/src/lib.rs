//! Built-in programs that issue the addresses and dependences of a real algorithm.
//!
//! A workload is one file with a [`Workload`] and a line in [`ALL`].

mod parameters;
mod pointer_chase;
mod random_updates;

pub use parameters::{Parameter, ParameterError, Parameters};

use pagelab_events::Source;

/// A built-in program.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line about it.
    pub description: &'static str,
    /// What can be set, with defaults.
    pub parameters: &'static [Parameter],
    /// Makes its events.
    build: fn(&Parameters) -> Box<dyn Source + Send>,
}

/// Every workload.
pub const ALL: &[Workload] = &[random_updates::WORKLOAD, pointer_chase::WORKLOAD];

impl Workload {
    /// The workload of this name.
    pub fn find(name: &str) -> Option<&'static Workload> {
        ALL.iter().find(|w| w.name == name)
    }

    /// Starts it. `given` are `(key, value)` pairs over the defaults; a value is a number, or a
    /// size such as `10GiB`.
    ///
    /// # Errors
    /// [`ParameterError`] for a key it does not have or a value out of range.
    pub fn start(
        &self,
        given: &[(String, String)],
    ) -> Result<Box<dyn Source + Send>, ParameterError> {
        let parameters = Parameters::new(self.parameters, given)?;
        Ok((self.build)(&parameters))
    }
}

/// Where workloads put their memory: the bottom of the usual mmap area of x86-64 Linux.
const BASE: u64 = 0x7000_0000_0000;
/// Accesses of one batch.
const BATCH: usize = 4096;
