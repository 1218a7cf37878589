use crate::{Asid, VirtAddr, Vpn};
use std::collections::HashMap;

/// A page of some address space as a dense 30-bit number: what a TLB tag holds, and what tables
/// of pages are indexed by.
///
/// The low 18 bits are those of the virtual page number; the high 12 number the aligned 1 GiB
/// 1 GiB regions of all address spaces in the order in which they were first named. So `id & 0x1ff`
/// is the page's place in its 2 MiB region, `id >> 9` numbers the region, and two ids are equal
/// exactly when address space and page are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

const PAGES_PER_GIB_SHIFT: u32 = 18;
const GIB_SHIFT: u32 = 30;
/// 2^12 1 GiB regions of 2^18 pages are 30 bits; the top two bits are left to whoever packs a flag
/// beside an id, as a TLB does.
const MAX_GIBS: usize = 1 << 12;

impl PageId {
    /// The page's place in its 2 MiB region, 0 to 511.
    pub const fn index_in_region(self) -> usize {
        (self.0 & 0x1ff) as usize
    }

    /// The page's 2 MiB region, numbered densely enough to index a table.
    pub const fn region(self) -> usize {
        (self.0 >> 9) as usize
    }

    /// The first page of this page's 2 MiB region.
    pub const fn region_start(self) -> PageId {
        PageId(self.0 & !0x1ff)
    }
}

/// Numbers pages. See [`PageId`].
#[derive(Clone, Debug, Default)]
pub struct PageDirectory {
    numbers: HashMap<(Asid, u64), u32>,
    gibs: Vec<(Asid, u64)>,
}

/// More distinct 1 GiB regions of virtual memory were touched than a [`PageId`] can number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the program spreads over more than {MAX_GIBS} distinct 1 GiB regions of virtual \
     memory, the most that one run can number"
)]
pub struct DirectoryFull;

impl PageDirectory {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of the 1 GiB region around `address`, already shifted into place: OR the low
    /// 18 bits of a page number to it to have a [`PageId`].
    ///
    /// # Errors
    /// [`DirectoryFull`] when a new 1 GiB region cannot be numbered any more.
    pub fn gib(&mut self, asid: Asid, address: VirtAddr) -> Result<u32, DirectoryFull> {
        let key = (asid, address.0 >> GIB_SHIFT);
        if let Some(&number) = self.numbers.get(&key) {
            return Ok(number);
        }
        if self.gibs.len() == MAX_GIBS {
            return Err(DirectoryFull);
        }
        let number = (self.gibs.len() as u32) << PAGES_PER_GIB_SHIFT;
        self.gibs.push(key);
        self.numbers.insert(key, number);
        Ok(number)
    }

    /// What [`PageDirectory::gib`] has given out for the 1 GiB region of an address, if it has.
    pub fn known(&self, asid: Asid, address: VirtAddr) -> Option<u32> {
        self.numbers.get(&(asid, address.0 >> GIB_SHIFT)).copied()
    }

    /// The number of a page.
    ///
    /// # Errors
    /// [`DirectoryFull`] when its 1 GiB region is new and cannot be numbered any more.
    pub fn page(&mut self, asid: Asid, vpn: Vpn) -> Result<PageId, DirectoryFull> {
        let low = (vpn.0 & ((1 << PAGES_PER_GIB_SHIFT) - 1)) as u32;
        Ok(PageId(self.gib(asid, vpn.address())? | low))
    }

    /// The address space and page behind a number that this directory gave out.
    pub fn resolve(&self, id: PageId) -> (Asid, Vpn) {
        let (asid, gib) = self.gibs[(id.0 >> PAGES_PER_GIB_SHIFT) as usize];
        let low = u64::from(id.0 & ((1 << PAGES_PER_GIB_SHIFT) - 1));
        (asid, Vpn((gib << PAGES_PER_GIB_SHIFT) | low))
    }

    /// The first page of each 1 GiB region of an address space that was ever named.
    pub fn gibs(&self, asid: Asid) -> impl Iterator<Item = PageId> {
        let of_asid = move |(number, gib): (usize, &(Asid, u64))| {
            (gib.0 == asid).then_some(PageId((number as u32) << PAGES_PER_GIB_SHIFT))
        };
        self.gibs.iter().enumerate().filter_map(of_asid)
    }

    /// One past the largest region number given out so far: the length of a table by region.
    pub fn regions(&self) -> usize {
        self.gibs.len() << (PAGES_PER_GIB_SHIFT - 9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_resolves_to_its_page_and_no_other(
            pages in proptest::collection::vec((0u16..4, 0u64..1 << 45), 1..200)
        ) {
            let mut directory = PageDirectory::new();
            let mut seen = HashMap::new();
            for (asid, vpn) in pages {
                let page = (Asid(asid), Vpn(vpn));
                let id = directory.page(page.0, page.1).unwrap();
                prop_assert_eq!(directory.resolve(id), page);
                prop_assert_eq!(*seen.entry(id).or_insert(page), page);
                prop_assert_eq!(u64::from(id.0 & 0x3ffff), vpn & 0x3ffff);
                prop_assert_eq!(id.0 >> 30, 0);
            }
        }
    }

    #[test]
    fn running_out_of_numbers_is_an_error() {
        let mut directory = PageDirectory::new();
        for gib in 0..MAX_GIBS as u64 {
            directory.page(Asid(0), Vpn(gib << 18)).unwrap();
        }
        assert_eq!(directory.page(Asid(1), Vpn(0)), Err(DirectoryFull));
        assert!(directory.page(Asid(0), Vpn(5)).is_ok());
    }
}
