//! Blocks that are reserved at the first touch, whose pages become one page when enough of them are used: all 512 in
//! FreeBSD (`vm_reserv_is_full`, `pmap_promote_pde`), 64 in Quicksilver, which zeroes the others then (Zhu, Cox and
//! Rixner, USENIX ATC 2020: Sync-64).

use super::{Orders, PageSizePolicy};
use crate::spaces::vma::Vma;
use pagelab_addr::PageSize;

#[derive(Clone, Copy, Debug)]
pub(super) struct Reserved {
    /// Pages used after which the block is one page.
    pub(super) promotes_at: u32,
}

impl PageSizePolicy for Reserved {
    fn boxed(&self) -> Box<dyn PageSizePolicy> {
        Box::new(*self)
    }

    fn orders(&self, _vma: &Vma) -> Orders {
        0
    }

    fn largest(&self) -> Option<u32> {
        Some(PageSize::Large2M.order())
    }

    fn reserves(&self) -> bool {
        true
    }

    fn promotes(&mut self, used: u32) -> bool {
        used >= self.promotes_at
    }
}
