//! Use of a frame, as its tag in the buddy allocator. 0 is free.

use pagelab_addr::PageSize;

/// In use before the programs start, and movable.
pub(crate) const PREALLOCATED: u8 = 4;
/// In use before the programs start, and not movable.
pub(crate) const UNMOVABLE: u8 = 5;
/// A page table.
pub(crate) const TABLE: u8 = 6;
/// Set aside for programs' data (in a restrictive segment, or by a manager), and free.
pub(crate) const RESTRICTED: u8 = 7;

/// Data of the simulated processes, in a page of this size.
pub(crate) const fn data(size: PageSize) -> u8 {
    match size {
        PageSize::Base4K => 1,
        PageSize::Large2M => 2,
        PageSize::Huge1G => 3,
    }
}

/// Tag of a page of data, by its order.
pub(crate) fn data_of(order: u32) -> u8 {
    let sizes = PageSize::ALL.into_iter();
    data(
        sizes
            .rev()
            .find(|size| size.order() <= order)
            .unwrap_or(PageSize::Base4K),
    )
}

/// Added to the order of a folio.
const FOLIO: u8 = 16;

/// Data of the simulated processes, in a page of 4 KiB that is part of a folio of 2^`order`.
pub(crate) const fn folio(order: u32) -> u8 {
    FOLIO + order as u8
}

/// Order of the folio of which a page of 4 KiB is part.
#[inline]
pub(crate) const fn folio_order(tag: u8) -> Option<u32> {
    if tag >= FOLIO {
        Some((tag - FOLIO) as u32)
    } else {
        None
    }
}
