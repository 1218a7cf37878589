//! Built-in programs that issue the addresses and dependences of a real algorithm.
//!
//! A workload is one file with a [`Workload`] and a line in [`ALL`]. docs/workloads.md says which
//! published program each follows, and what of its data is implicit.

mod emitter;
mod graph;
mod hash;
mod memory;
mod parameters;
mod program;
mod schedule;
mod sparse;
#[cfg(test)]
mod testing;
mod zipf;

mod bc;
mod bfs;
mod cc;
mod dlrm;
mod gc;
mod kmer;
mod kv;
mod pointer_chase;
mod pr;
mod random_updates;
mod sssp;
mod stream;
mod tc;
mod xsbench;

pub use parameters::{COMMON, Parameter, ParameterError, Parameters};

use pagelab_events::Source;
use program::{Program, Running};
use schedule::Sampling;
use sparse::Sparse;

/// A built-in program.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line about it.
    pub description: &'static str,
    /// Parameters besides [`COMMON`], with defaults.
    pub parameters: &'static [Parameter],
    /// Makes its data.
    build: fn(&Parameters) -> Program,
}

/// Every workload.
pub const ALL: &[Workload] = &[
    bc::WORKLOAD,
    bfs::WORKLOAD,
    cc::WORKLOAD,
    gc::WORKLOAD,
    pr::WORKLOAD,
    tc::WORKLOAD,
    sssp::WORKLOAD,
    kmer::WORKLOAD,
    random_updates::WORKLOAD,
    xsbench::WORKLOAD,
    dlrm::WORKLOAD,
    stream::WORKLOAD,
    kv::WORKLOAD,
    pointer_chase::WORKLOAD,
];

impl Workload {
    /// The workload of this name.
    pub fn find(name: &str) -> Option<&'static Workload> {
        ALL.iter().find(|w| w.name == name)
    }

    /// Refuses values with which it cannot be started, without making its data.
    ///
    /// # Errors
    /// As [`Workload::start`].
    pub fn check(&self, given: &[(String, String)]) -> Result<(), ParameterError> {
        Parameters::new(self.parameters, given).map(|_| ())
    }

    /// Starts it. `given` are `(key, value)` pairs over the defaults; a value is a number, or a
    /// size such as `10GiB`. The same parameters give the same events.
    ///
    /// # Errors
    /// [`ParameterError`] for a key it does not have or a value out of range.
    pub fn start(
        &self,
        given: &[(String, String)],
    ) -> Result<Box<dyn Source + Send>, ParameterError> {
        let parameters = Parameters::new(self.parameters, given)?;
        let name = format!("{} {}", self.name, parameters.program());
        let sampling = Sampling::new(&parameters);
        let program = (self.build)(&parameters);
        let running = Running::new(name, program, sampling);
        Ok(match parameters.get("sparsity") {
            1 => Box::new(running),
            sparsity => Box::new(Sparse::new(running, sparsity)),
        })
    }
}

/// The parameter that says how much memory a workload's data take.
const fn footprint(default: u64, min: u64) -> Parameter {
    Parameter {
        name: "footprint",
        description: "memory that its data take, to within a few percent",
        default,
        min,
        max: 1 << 36,
    }
}
