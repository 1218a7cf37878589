//! Addresses, pages and frames: the vocabulary that every other crate speaks.
//!
//! Sizes are in bytes unless a name says otherwise. A *page* is virtual, a *frame* physical;
//! both are counted in units of 4 KiB whatever the size of the mapping they belong to.

mod directory;
mod page_size;
mod quantity;

pub use directory::{DirectoryFull, PageDirectory, PageId};
pub use page_size::PageSize;
pub use quantity::{
    Quantity, deserialize_bytes, deserialize_bytes_list, deserialize_optional_bytes, parse_quantity,
};

use serde::{Deserialize, Serialize};

/// log2 of the base page size.
pub const PAGE_SHIFT: u32 = 12;
/// The base page size, 4 KiB.
pub const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;
/// log2 of the cache line size.
pub const LINE_SHIFT: u32 = 6;
/// The cache line size, 64 bytes on every machine modelled here.
pub const LINE_BYTES: u64 = 1 << LINE_SHIFT;

/// A virtual address of some address space.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct VirtAddr(pub u64);

/// A physical address.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct PhysAddr(pub u64);

/// A virtual page number: a virtual address divided by 4 KiB.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Vpn(pub u64);

/// A physical frame number: a physical address divided by 4 KiB. 32 bits reach 16 TiB.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Pfn(pub u32);

/// An address space, numbered in the order in which processes appear.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Asid(pub u16);

impl VirtAddr {
    /// The page that holds this address.
    pub const fn vpn(self) -> Vpn {
        Vpn(self.0 >> PAGE_SHIFT)
    }
}

impl Vpn {
    /// The address of the page's first byte.
    pub const fn address(self) -> VirtAddr {
        VirtAddr(self.0 << PAGE_SHIFT)
    }

    /// The first page of the naturally aligned page of `size` around this one.
    pub const fn align_down(self, size: PageSize) -> Vpn {
        Vpn(self.0 & !(size.base_pages() as u64 - 1))
    }
}

impl Pfn {
    /// The address of the frame's first byte.
    pub const fn address(self) -> PhysAddr {
        PhysAddr((self.0 as u64) << PAGE_SHIFT)
    }
}

impl PhysAddr {
    /// The frame that holds this address.
    ///
    /// The address must lie below 16 TiB, as every address of a simulated memory does.
    pub const fn pfn(self) -> Pfn {
        Pfn((self.0 >> PAGE_SHIFT) as u32)
    }
}
