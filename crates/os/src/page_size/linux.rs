//! Sizes of `/sys/kernel/mm/transparent_hugepage/`, each for all memory, for what asks for it, or for none.

use super::{Orders, PageSizePolicy};
use crate::spaces::vma::{HugeAdvice, Vma};

#[derive(Clone, Copy, Debug)]
pub(super) struct Linux {
    /// Sizes set to `always`.
    pub(super) always: Orders,
    /// Sizes set to `madvise`.
    pub(super) madvise: Orders,
}

impl PageSizePolicy for Linux {
    fn boxed(&self) -> Box<dyn PageSizePolicy> {
        Box::new(*self)
    }

    /// `thp_vma_allowable_orders` in include/linux/huge_mm.h.
    #[inline]
    fn orders(&self, vma: &Vma) -> Orders {
        match vma.advice {
            HugeAdvice::Wanted => self.always | self.madvise,
            _ => self.always,
        }
    }

    #[inline]
    fn largest(&self) -> Option<u32> {
        (self.always | self.madvise).checked_ilog2()
    }
}
