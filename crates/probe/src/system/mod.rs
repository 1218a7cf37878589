//! Questions of the probe to the operating system and the CPU: one file a subject.

pub mod budget;
pub mod claims;
pub mod counters;
pub mod environment;
pub mod files;
pub mod folio_sizes;
pub mod frames;
pub mod mapping;
pub mod process;
pub mod settings;
pub mod tuning;

/// A request that the system refused.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct Refused {
    /// Request.
    pub what: String,
    /// Error of the system.
    pub source: std::io::Error,
}

impl Refused {
    /// The error of the system call that just failed.
    pub fn last(what: impl Into<String>) -> Refused {
        Refused {
            what: what.into(),
            source: std::io::Error::last_os_error(),
        }
    }

    /// An error that came with its cause.
    pub fn because(what: impl Into<String>, source: std::io::Error) -> Refused {
        let what = what.into();
        Refused { what, source }
    }
}
