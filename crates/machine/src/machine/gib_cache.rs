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
/// Shift of the address space in the name of a 1 GiB region: addresses shifted by `GIB_SHIFT` have
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

    /// The name of a page, if anything in its region has been named: of one that may be nobody's.
    #[inline]
    pub(crate) fn known(&self, directory: &PageDirectory, asid: Asid, addr: u64) -> Option<PageId> {
        let (gib, place) = Self::place(asid, addr);
        let (known, number) = self.entries[place];
        let number = if known == gib {
            number
        } else {
            directory.known(asid, VirtAddr(addr))?
        };
        Some(PageId(number | low(addr)))
    }

    /// Names a page.
    #[inline(always)]
    pub(crate) fn page(
        &mut self,
        directory: &mut PageDirectory,
        asid: Asid,
        addr: u64,
    ) -> Result<PageId, DirectoryFull> {
        let (gib, place) = Self::place(asid, addr);
        let entry = &mut self.entries[place];
        if entry.0 != gib {
            *entry = (gib, directory.gib(asid, VirtAddr(addr))?);
        }
        Ok(PageId(entry.1 | low(addr)))
    }

    /// The name of a 1 GiB region, and its place.
    #[inline(always)]
    fn place(asid: Asid, addr: u64) -> (u64, usize) {
        let gib = addr >> GIB_SHIFT | u64::from(asid.0) << ASID_SHIFT;
        let place = gib.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - GIBS.ilog2());
        (gib, place as usize)
    }
}

/// The page's number within its region.
#[inline(always)]
fn low(addr: u64) -> u32 {
    (addr >> PAGE_SHIFT) as u32 & ((1 << (GIB_SHIFT - PAGE_SHIFT)) - 1)
}
