use pagelab_addr::{Asid, PageId, PageSize, Pfn, Vpn};

/// A page, named both ways: `id` for tables indexed by number, `asid` and `vpn` for whatever
/// depends on the address itself. For a page larger than 4 KiB any of its base pages names it in
/// `walk` and `lookup`; `map`, `unmap` and `set_frame` take the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its dense number.
    pub id: PageId,
    /// The address space.
    pub asid: Asid,
    /// The virtual page number.
    pub vpn: Vpn,
}

impl Page {
    /// True if its address has so many bits, and those above are as the highest of these.
    pub(crate) fn is_canonical(self, bits: u32) -> bool {
        let unused = 64 - bits;
        let address = self.vpn.address().0;
        (address << unused).cast_signed() >> unused == address.cast_signed()
    }
}

/// Place of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The frame of the 4 KiB page that was asked for, also inside a larger page.
    pub pfn: Pfn,
    /// Size of the page that maps it.
    pub size: PageSize,
    /// A store may go through; otherwise it faults (copy-on-write).
    pub writable: bool,
}
