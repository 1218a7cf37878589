//! The pages that prefetchers come to from those of a program's accesses.

use crate::machine::gib_cache::{GIB_SHIFT, GibCache};
use crate::mmu::Mmu;
use pagelab_addr::{Asid, PAGE_SHIFT, PageDirectory, VirtAddr};
use pagelab_translation::{Page, PageTable};

/// Look-up of the frames of other pages, for prefetchers.
pub(crate) struct OtherPages<'a, M> {
    pub(crate) mmu: &'a M,
    pub(crate) gibs: &'a GibCache,
    pub(crate) directory: &'a PageDirectory,
    pub(crate) asid: Asid,
}

impl<M: Mmu> OtherPages<'_, M> {
    /// The number of the frame that `target` is in, for what an access to `addr` fetches ahead.
    ///
    /// A prefetcher takes no faults, and leaves no translation behind. In another 1 GiB region it would
    /// name memory that the program may never use.
    pub(crate) fn frame(&self, addr: u64, target: u64) -> Option<u32> {
        if target >> GIB_SHIFT != addr >> GIB_SHIFT {
            return None;
        }
        // A page that only a prefetch of the program has asked for may be in no region that has a
        // name.
        let id = self.gibs.known(self.directory, self.asid, target)?;
        let page = Page {
            id,
            asid: self.asid,
            vpn: VirtAddr(target).vpn(),
        };
        self.mmu.table().found(page).map(|found| found.pfn.0)
    }

    /// The frame of the page after that of `addr` (with `up`), or before it.
    pub(crate) fn beside(&self, addr: u64, up: bool) -> Option<u32> {
        let page = 1 << PAGE_SHIFT;
        let target = if up {
            addr.checked_add(page)
        } else {
            addr.checked_sub(page)
        };
        self.frame(addr, target?)
    }
}
