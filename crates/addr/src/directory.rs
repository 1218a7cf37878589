use crate::{Asid, VirtAddr, Vpn};
use std::collections::{HashMap, VecDeque};

/// A page of some address space as a dense 30-bit number: what a TLB tag holds, and what tables
/// of pages are indexed by.
///
/// The low 18 bits are those of the virtual page number; the high 12 number the aligned 1 GiB
/// regions of all address spaces in the order in which they were first named. So `id & 0x1ff`
/// is the page's place in its 2 MiB region, `id >> 9` numbers the region, and two ids are equal
/// exactly when address space and page are, as long as the address space lives.
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
}

/// Numbers pages. See [`PageId`].
#[derive(Clone, Debug)]
pub struct PageDirectory {
    numbers: HashMap<(Asid, u64), u32>,
    /// The last one asked for: most faults are in the region of the one before.
    last: Option<((Asid, u64), u32)>,
    /// By number; of those that are given back, what they were last.
    gibs: Vec<(Asid, u64)>,
    /// Numbers given back, in that order: they are given out again when there are no others.
    given_back: VecDeque<u32>,
    most: usize,
}

impl Default for PageDirectory {
    fn default() -> Self {
        Self::of_at_most(MAX_GIBS)
    }
}

/// More 1 GiB regions of virtual memory are in use at a time than a [`PageId`] can number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the programs spread over more than {MAX_GIBS} distinct 1 GiB regions of virtual memory at a \
     time, the most that a run can number"
)]
pub struct DirectoryFull;

impl PageDirectory {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that numbers no more than so many 1 GiB regions at a time.
    ///
    /// # Panics
    /// When they are more than a [`PageId`] can number.
    pub fn of_at_most(most: usize) -> Self {
        assert!(most <= MAX_GIBS);
        PageDirectory {
            numbers: HashMap::new(),
            last: None,
            gibs: Vec::new(),
            given_back: VecDeque::new(),
            most,
        }
    }

    /// The number of the 1 GiB region around `address`, already shifted into place: OR the low
    /// 18 bits of a page number to it to have a [`PageId`].
    ///
    /// # Errors
    /// [`DirectoryFull`] when a new 1 GiB region cannot be numbered any more.
    #[inline]
    pub fn gib(&mut self, asid: Asid, address: VirtAddr) -> Result<u32, DirectoryFull> {
        let key = (asid, address.0 >> GIB_SHIFT);
        match self.last {
            Some((last, number)) if last == key => Ok(number),
            _ => {
                let number = self.number(key)?;
                self.last = Some((key, number));
                Ok(number)
            }
        }
    }

    fn number(&mut self, key: (Asid, u64)) -> Result<u32, DirectoryFull> {
        if let Some(&number) = self.numbers.get(&key) {
            return Ok(number);
        }
        let index = if self.gibs.len() < self.most {
            self.gibs.push(key);
            self.gibs.len() as u32 - 1
        } else {
            let index = self.given_back.pop_front().ok_or(DirectoryFull)?;
            self.gibs[index as usize] = key;
            index
        };
        let number = index << PAGES_PER_GIB_SHIFT;
        self.numbers.insert(key, number);
        Ok(number)
    }

    /// Gives back the numbers of an address space that has ended. Until they are given out again,
    /// [`PageDirectory::resolve`] and [`PageDirectory::gibs`] know them still.
    pub fn give_back(&mut self, asid: Asid) {
        self.last = None;
        for (index, key) in self.gibs.iter().enumerate() {
            let number = (index as u32) << PAGES_PER_GIB_SHIFT;
            if key.0 == asid && self.numbers.get(key) == Some(&number) {
                self.numbers.remove(key);
                self.given_back.push_back(index as u32);
            }
        }
    }

    /// Number that [`PageDirectory::gib`] has given out for the 1 GiB region of an address, if it
    /// has.
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

    /// The first page of each 1 GiB region of an address space whose number nobody else has.
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
    fn numbers_of_an_address_space_that_ended_are_given_out_last_and_again() {
        let mut directory = PageDirectory::of_at_most(3);
        let first = directory.page(Asid(0), Vpn(0)).unwrap();
        let kept = directory.page(Asid(1), Vpn(7)).unwrap();
        directory.give_back(Asid(0));
        assert_eq!(directory.resolve(first), (Asid(0), Vpn(0)));
        assert_eq!(directory.gibs(Asid(0)).collect::<Vec<_>>(), [first]);
        assert_eq!(directory.known(Asid(0), Vpn(0).address()), None);
        // One address, another number.
        let third = directory.page(Asid(0), Vpn(0)).unwrap();
        assert_eq!(third, PageId(2 << 18));
        assert_eq!(directory.page(Asid(2), Vpn(5)), Ok(PageId(5)));
        assert_eq!(directory.page(Asid(3), Vpn(0)), Err(DirectoryFull));
        directory.give_back(Asid(0));
        assert_eq!(directory.page(Asid(3), Vpn(1 << 18)), Ok(third));
        assert_eq!(directory.resolve(third), (Asid(3), Vpn(1 << 18)));
        assert_eq!(directory.resolve(kept), (Asid(1), Vpn(7)));
    }

    #[test]
    fn a_number_that_is_given_back_is_given_out_anew() {
        let mut directory = PageDirectory::of_at_most(1);
        let number = directory.gib(Asid(1), VirtAddr(0)).unwrap();
        directory.give_back(Asid(1));
        assert_eq!(directory.gib(Asid(1), VirtAddr(0)), Ok(number));
        assert_eq!(directory.gib(Asid(2), VirtAddr(0)), Err(DirectoryFull));
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
