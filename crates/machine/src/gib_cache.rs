use pagelab_addr::{Asid, DirectoryFull, PAGE_SHIFT, PageDirectory, PageId, VirtAddr};

/// Recently used 1 GiB regions of all address spaces, direct-mapped, so that naming a page asks
/// no table. Stack, heap and libraries lie at round distances from each other, so the place is a
/// multiplicative hash (Knuth, TAOCP volume 3, section 6.4) and not the low bits.
#[derive(Clone, Debug)]
pub(crate) struct GibCache {
    entries: [(u64, u32); GIBS],
}

const GIBS: usize = 128;
pub(crate) const GIB_SHIFT: u32 = 30;
/// Where the address space is in the name of a 1 GiB region: addresses shifted by `GIB_SHIFT` have
/// 34 bits.
const ASID_SHIFT: u32 = 40;
/// No 1 GiB region is named so.
const NO_GIB: u64 = u64::MAX;

impl GibCache {
    pub(crate) fn new() -> Self {
        GibCache {
            entries: [(NO_GIB, 0); GIBS],
        }
    }

    /// The name of a page, if anything in its region has been named.
    #[inline]
    pub(crate) fn known(directory: &PageDirectory, asid: Asid, addr: u64) -> Option<PageId> {
        let low = (addr >> PAGE_SHIFT) as u32 & ((1 << (GIB_SHIFT - PAGE_SHIFT)) - 1);
        let region = directory.known(asid, VirtAddr(addr))?;
        Some(PageId(region | low))
    }

    /// Names a page.
    #[inline(always)]
    pub(crate) fn page(
        &mut self,
        directory: &mut PageDirectory,
        asid: Asid,
        addr: u64,
    ) -> Result<PageId, DirectoryFull> {
        let gib = addr >> GIB_SHIFT | u64::from(asid.0) << ASID_SHIFT;
        let place = gib.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - GIBS.ilog2());
        let entry = &mut self.entries[place as usize];
        if entry.0 != gib {
            *entry = (gib, directory.gib(asid, VirtAddr(addr))?);
        }
        let low = (addr >> PAGE_SHIFT) as u32 & ((1 << (GIB_SHIFT - PAGE_SHIFT)) - 1);
        Ok(PageId(entry.1 | low))
    }
}
