use pagelab_addr::DirectoryFull;
use pagelab_cpu::CoreError;
use pagelab_events::SourceError;
use pagelab_memory::GeometryError;
use pagelab_os::{OsConfigError, OsError};

/// Reason for which a run ended before its source did.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The program spreads too far.
    #[error(transparent)]
    Directory(#[from] DirectoryFull),
    /// The operating system could not do what the program asked for.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The source could not be read on.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Page faults on one access do not end: a defect of the design.
    #[error("page faults at address {address:#x} do not lead to a translation")]
    Unresolved {
        /// Virtual address of the page.
        address: u64,
    },
}

impl RunError {
    /// True if the same machine with more memory may go on.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(
            self,
            RunError::Os(OsError::OutOfMemory { .. } | OsError::NoPlace { .. })
        )
    }
}

/// Reason for which a machine cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A cache's geometry.
    #[error("caches: {0}")]
    Caches(#[from] GeometryError),
    /// The core.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// The TLB.
    #[error("tlb: {0}")]
    Tlb(#[from] pagelab_translation::TlbError),
    /// The host of a virtual machine.
    #[error("the host cannot hold the virtual machine: {0}")]
    Host(#[source] OsError),
    /// A mosaic TLB.
    #[error(transparent)]
    Mosaic(#[from] pagelab_translation::MosaicError),
    /// Parts that a design does not go with.
    #[error("{design}: {why}")]
    Refused {
        /// Its name.
        design: String,
        /// Description of that part.
        why: &'static str,
    },
    /// TLB prefetching with a design that does not take it.
    #[error("tlb_prefetch: {0}")]
    TlbPrefetch(&'static str),
    /// The instruction side with a design that does not take it.
    #[error("fetch: {0}")]
    Fetch(&'static str),
    /// A page-table design.
    #[error("{0}")]
    Design(#[from] pagelab_translation::ConfigError),
    /// Physical memory.
    #[error("memory.{0}")]
    Os(#[from] OsConfigError),
    /// A value that only makes sense between bounds.
    #[error("{key} = {value} is not {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// Value that is expected.
        expected: &'static str,
    },
}

/// Reason for which nothing was simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// No such design.
    #[error("unknown design {name:?}: there are {}{hint}", known.join(", "))]
    UnknownDesign {
        /// Name that was asked for.
        name: String,
        /// Names that exist.
        known: Vec<String>,
        /// The nearest of these, in words, if one is near.
        hint: String,
    },
    /// The machine cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}
