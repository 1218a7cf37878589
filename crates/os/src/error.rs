use pagelab_addr::{DirectoryFull, VirtAddr};

/// Reason for which the operating system cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OsError {
    /// No free frame. Frames are never used twice.
    #[error(
        "out of simulated memory: no frame for {what}; of {} MiB, {} MiB hold the programs' data, \
         {} MiB page tables, and {} MiB were in use before they started: give the machine more \
         memory or lower its utilisation",
        limit_bytes >> 20, resident_bytes >> 20, table_bytes >> 20, preallocated_bytes >> 20
    )]
    OutOfMemory {
        /// Purpose of the frame.
        what: &'static str,
        /// Bytes of the programs' data.
        resident_bytes: u64,
        /// Bytes of page tables.
        table_bytes: u64,
        /// Bytes in use before the programs started.
        preallocated_bytes: u64,
        /// Size of the memory in bytes.
        limit_bytes: u64,
    },
    /// The page table has no place for an entry, though there may be free frames.
    #[error(
        "the page table has no place for the entry of address {:#x} of process {process}: every \
         frame that may hold it is taken by something that may not be moved ({free_bytes} bytes \
         are free)",
        address.0
    )]
    NoPlace {
        /// The process.
        process: u32,
        /// The page's address.
        address: VirtAddr,
        /// Bytes of free memory.
        free_bytes: u64,
    },
    /// The page table translates shorter addresses.
    #[error(
        "address {:#x} of process {process} is none of the {bits} bits that the design's page table \
         translates: radix has 57 bits with radix.levels = 5; clustered, ecpt, me_hpt, dpt and \
         ideal have them, too",
        address.0
    )]
    OutOfReach {
        /// The process.
        process: u32,
        /// The page's address.
        address: VirtAddr,
        /// Bits that it translates, of which the highest is the sign.
        bits: u32,
    },
    /// More of the virtual address space is in use than page numbers reach.
    #[error(transparent)]
    DirectoryFull(#[from] DirectoryFull),
    /// A process number that no address space can have.
    #[error("process {0}: a run can have processes 0 to 65535 only")]
    TooManyProcesses(u32),
}

/// A configuration that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct OsConfigError {
    /// The key.
    pub key: &'static str,
    /// Error in its value, and what would be right.
    pub reason: String,
}

/// An error that names a key, unless something holds.
pub(crate) fn require(holds: bool, key: &'static str, reason: String) -> Result<(), OsConfigError> {
    if holds {
        Ok(())
    } else {
        Err(OsConfigError { key, reason })
    }
}
