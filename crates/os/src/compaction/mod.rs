//! Free blocks of 2 MiB made by moving pages together (mm/compaction.c, Linux 6.12).
//!
//! Two scanners go through memory: one from below for blocks that can be emptied, one from above for free frames to
//! move their pages to. Where they meet they begin anew. scan.rs has them, and kcompactd.rs the thread that does it
//! aside.

mod kcompactd;
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
    /// None: kcompactd makes a block for those to come.
    Defer,
    /// Faults in memory with MADV_HUGEPAGE; for others kcompactd makes a block.
    #[serde(rename = "defer+madvise")]
    DeferMadvise,
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
            Defrag::Madvise | Defrag::DeferMadvise => vma.advice == HugeAdvice::Wanted,
            Defrag::Defer | Defrag::Never => false,
        }
    }

    /// True if faults that do not wait wake kcompactd.
    pub(crate) fn defers(self) -> bool {
        matches!(self, Defrag::Defer | Defrag::DeferMadvise)
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
    /// kcompactd is to make a block, or is about to.
    wanted: bool,
    awake: bool,
}
