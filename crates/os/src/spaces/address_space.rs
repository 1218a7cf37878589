use crate::spaces::vma::{HugeAdvice, Vma, Vmas};
use pagelab_events::HugePages;

/// Stage in the life of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Empty,
    /// Its files are mapped, as exec does, and bss besides.
    Loaded,
    /// It maps memory itself.
    Running,
}

/// An address space: one process's VMAs.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressSpace {
    pub(crate) vmas: Vmas,
    /// The heap's first page and one past its last, once a brk said so.
    pub(crate) heap: Option<(u64, u64)>,
    /// Lowest page that the first thread's stack may grow to, once it was announced. Further stacks are mapped by the
    /// program (MAP_STACK).
    pub(crate) stack: Option<u64>,
    /// Its memory is announced by events (a Map or a Brk was seen). Otherwise it appears where it
    /// is touched.
    pub(crate) announced: bool,
    pub(crate) stage: Stage,
    /// Accesses were left out: memory that was not seen to be written may have been.
    pub(crate) skipped: bool,
    /// First touches in what is left out are told.
    pub(crate) told: bool,
    /// Memory that the program lets have large pages.
    pub(crate) huge_pages: HugePages,
}

impl AddressSpace {
    /// True if all that happens to its memory is seen, from the beginning.
    pub(crate) fn is_seen(&self) -> bool {
        self.announced && (self.told || !self.skipped)
    }

    /// A VMA as page sizes are decided by it (`vma_thp_disabled` in include/linux/huge_mm.h, Linux 6.18).
    #[inline]
    pub(crate) fn seen(&self, vma: Vma) -> Vma {
        match (self.huge_pages, vma.advice) {
            (HugePages::Anywhere, _)
            | (_, HugeAdvice::Unwanted)
            | (HugePages::WhereAdvised, HugeAdvice::Wanted) => vma,
            _ => Vma {
                advice: HugeAdvice::Forbidden,
                ..vma
            },
        }
    }
}
