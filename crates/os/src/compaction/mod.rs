//! Free blocks of 2 MiB made by moving pages together (mm/compaction.c, Linux 6.12).
//!
//! Two scanners go through memory: one from below for blocks that can be emptied, one from above for free frames to
//! move their pages to. Where they meet they begin anew.

mod scan;

use crate::spaces::vma::{HugeAdvice, Vma};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Faults that wait for a block of 2 MiB to be made where none is free
/// (/sys/kernel/mm/transparent_hugepage/defrag).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Defrag {
    /// All faults that may have such a page.
    Always,
    /// Faults in memory with MADV_HUGEPAGE.
    #[default]
    Madvise,
    /// None.
    Never,
}

impl Defrag {
    /// True if it is the default.
    pub fn is_default(&self) -> bool {
        *self == Defrag::default()
    }

    /// True if a fault in a VMA waits.
    fn waits(self, vma: &Vma) -> bool {
        match self {
            Defrag::Always => true,
            Defrag::Madvise => vma.advice == HugeAdvice::Wanted,
            Defrag::Never => false,
        }
    }
}

/// The setting, the scanners, and failures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compaction {
    pub(crate) defrag: Defrag,
    /// Block at which the next one to empty is looked for.
    migrate: u32,
    /// Frames from the end of memory that were looked at for free ones.
    taken: u32,
    /// `compact_defer_shift` and `compact_considered`.
    failures: u32,
    considered: u32,
}
