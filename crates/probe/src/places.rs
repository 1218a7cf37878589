//! Sets of places for chains: which bytes of which pages a chain visits.

use crate::chain::{Chain, LINE};
use crate::system::Refused;
use crate::system::mapping::{HUGE, Mapping, PAGE, backing, memory_file};
use fastrand::Rng;
use std::os::fd::OwnedFd;

/// Numbered places that a chain can visit.
pub trait Places {
    /// How many there are.
    fn count(&self) -> usize;

    /// Links the places with the numbers in `order` into a cycle.
    fn chain(&mut self, order: &[usize]) -> Chain;

    /// A random order of the first `count` places.
    fn first(&self, count: u64, rng: &mut Rng) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count as usize).collect();
        rng.shuffle(&mut order);
        order
    }
}

/// Nanoseconds a load of a cycle through the first `count` places, in a new random order.
pub fn latency(places: &mut dyn Places, count: u64, rng: &mut Rng) -> f64 {
    let order = places.first(count, rng);
    places.chain(&order).latency()
}

/// How the pages of a region are to be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// By page-middle-directory entries.
    Huge,
    /// By base-page entries over folios of 2 MiB, so that they are physically contiguous.
    Contiguous,
    /// By base-page entries, of the kernel's choice.
    Small,
}

/// Private memory with one place every so many bytes.
#[derive(Debug)]
pub struct Region {
    memory: Mapping,
    spread: Spread,
}

/// Where the places of a [`Region`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// One after the other, a line each.
    Packed,
    /// One line in every page. Among any 64 neighbours each line of a page comes once, and among
    /// 64 times 64 each set of a physically indexed cache with up to 4,096 sets once.
    LineInEachPage,
    /// The same line of pages this many bytes apart: places that fall into one set.
    Stride(usize),
}

impl Spread {
    /// Byte offset of place `i`.
    pub fn offset(self, i: usize) -> usize {
        match self {
            Spread::Packed => i * LINE,
            Spread::LineInEachPage => i * PAGE + (i + i / 64) % 64 * LINE,
            Spread::Stride(bytes) => i * bytes,
        }
    }
}

impl Region {
    /// `len` bytes, present, mapped as `pages` says.
    ///
    /// # Errors
    /// When the memory cannot be had, or is not mapped as asked: the kernel decides.
    pub fn new(len: usize, pages: Pages, spread: Spread) -> Result<Region, Refused> {
        let len = len.next_multiple_of(HUGE);
        let memory = Mapping::anonymous_huge_aligned(len)?;
        let huge = pages != Pages::Small;
        let advice = if huge {
            libc::MADV_HUGEPAGE
        } else {
            libc::MADV_NOHUGEPAGE
        };
        memory.advise(0, len, advice)?;
        memory.touch(0, len, PAGE);
        if huge {
            let found = backing(&memory).map_or(0, |b| b.anonymous_huge as usize);
            if found < len {
                let what = format!(
                    "only {} of {} MiB became huge pages",
                    found >> 20,
                    len >> 20
                );
                let why = "transparent huge pages are off, or memory is fragmented";
                return Err(Refused::because(what, std::io::Error::other(why)));
            }
        }
        if pages == Pages::Contiguous {
            memory.split_huge_entries()?;
            // Otherwise khugepaged would put the entries together again.
            memory.advise(0, len, libc::MADV_NOHUGEPAGE)?;
        }
        Ok(Region { memory, spread })
    }

    /// Other places in the same memory.
    #[must_use]
    pub fn respread(self, spread: Spread) -> Region {
        Region { spread, ..self }
    }
}

impl Places for Region {
    fn count(&self) -> usize {
        match self.spread {
            Spread::Packed => self.memory.len() / LINE,
            Spread::LineInEachPage => self.memory.len() / PAGE,
            Spread::Stride(bytes) => self.memory.len() / bytes,
        }
    }

    fn chain(&mut self, order: &[usize]) -> Chain {
        assert!(
            order.iter().all(|&i| i < self.count()),
            "place out of range"
        );
        let base = self.memory.as_ptr();
        let offset = |i| self.spread.offset(i);
        // SAFETY: places below the count lie inside the memory, which stays mapped and which
        // nobody writes but chains, through this exclusive borrow.
        unsafe { Chain::link(base, order, offset, |i| base.add(offset(i))) }
    }
}

/// Few pages of memory mapped at many addresses.
///
/// The lines that a chain visits fill a small contiguous piece of memory, so that caches hold
/// them although the TLB must translate a page for each; and since neighbouring virtual pages
/// show the same physical page, no TLB can hold two of them in one entry.
#[derive(Debug)]
pub struct Aliases {
    space: Mapping,
    /// The same memory once, to write links through.
    direct: Mapping,
    page: usize,
    /// Byte offset of each mapped page.
    at: Vec<usize>,
}

impl Aliases {
    /// `count` addresses `spacing` base pages apart.
    ///
    /// # Errors
    /// When the mappings cannot be had: one address is one area, of which vm.max_map_count
    /// limits the number.
    pub fn small(count: usize, spacing: usize) -> Result<Aliases, Refused> {
        Aliases::at(count, |i| i * spacing)
    }

    /// `count` base pages at the page numbers `page(0)`, `page(1)` and so on, all different.
    ///
    /// # Errors
    /// As above.
    pub fn at(count: usize, page: impl Fn(usize) -> usize) -> Result<Aliases, Refused> {
        let len = (count * LINE).next_multiple_of(PAGE);
        let at = (0..count).map(|i| page(i) * PAGE).collect();
        Aliases::over(&memory_file(len, 0)?, len, PAGE, at)
    }

    /// `count` neighbouring addresses of one hugetlb page of `page` bytes.
    ///
    /// # Errors
    /// When there is no such page.
    pub fn hugetlb(count: usize, page: usize) -> Result<Aliases, Refused> {
        let flags = libc::MFD_HUGETLB | page.ilog2() << libc::MFD_HUGE_SHIFT;
        let len = (count * LINE).next_multiple_of(page);
        let at = (0..count).map(|i| i * page).collect();
        Aliases::over(&memory_file(len, flags)?, len, page, at)
    }

    fn over(file: &OwnedFd, len: usize, page: usize, at: Vec<usize>) -> Result<Aliases, Refused> {
        let direct = Mapping::shared(file, len)?;
        let end = at.iter().max().map_or(page, |last| last + page);
        let mut space = Mapping::reserved(end, page.max(HUGE))?;
        for (i, &at) in at.iter().enumerate() {
            space.overlay(at, page, file, i * LINE / page * page)?;
        }
        Ok(Aliases {
            space,
            direct,
            page,
            at,
        })
    }
}

impl Places for Aliases {
    fn count(&self) -> usize {
        self.at.len()
    }

    fn chain(&mut self, order: &[usize]) -> Chain {
        let direct = self.direct.as_ptr();
        let offset = |i: usize| self.at[i] + i * LINE % self.page;
        // SAFETY: `over` mapped byte `i * LINE` of the file at `offset(i)` of the space for every
        // place, and the whole file at `direct`; indexing checks the number; both stay mapped,
        // and nobody writes but chains, through this exclusive borrow.
        unsafe { Chain::link(self.space.as_ptr(), order, offset, |i| direct.add(i * LINE)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn lines_spread_over_all_sets_of_physically_indexed_caches() {
        for sets in [64, 1024, 2048, 4096] {
            let used: HashSet<usize> = (0..sets)
                .map(|i| Spread::LineInEachPage.offset(i) / LINE % sets)
                .collect();
            assert_eq!(used.len(), sets, "{sets} sets");
        }
    }

    #[test]
    fn aliases_are_linked_through_the_direct_mapping() {
        let mut aliases = Aliases::small(100, 3).expect("aliases");
        let mut rng = Rng::with_seed(9);
        // A wrong offset would leave the mapped pages, or read a zero link, and hang or fault.
        assert!(latency(&mut aliases, 100, &mut rng) > 0.0);
    }
}
