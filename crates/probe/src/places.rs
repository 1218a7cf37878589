//! Sets of places for chains: which bytes of which pages a chain visits.

use crate::chain::{Chain, LINE, LINK};
use crate::random_loads;
use crate::stats::median;
use crate::streams::{self, Way};
use crate::system::Refused;
use crate::system::mapping::{HUGE, Mapping, PAGE, backing, memory_file};
use fastrand::Rng;

/// Numbered places that a chain can visit.
pub trait Places {
    /// Number of places.
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

impl<P: Places + ?Sized> Places for &mut P {
    fn count(&self) -> usize {
        (**self).count()
    }

    fn chain(&mut self, order: &[usize]) -> Chain {
        (**self).chain(order)
    }

    fn first(&self, count: u64, rng: &mut Rng) -> Vec<usize> {
        (**self).first(count, rng)
    }
}

/// Nanoseconds a load of a cycle through the first `count` places, in a new random order.
pub fn latency(places: &mut dyn Places, count: u64, rng: &mut Rng) -> f64 {
    let order = places.first(count, rng);
    places.chain(&order).latency()
}

/// Mapping of a region's pages.
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

/// Layout of the places of a [`Region`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// One after the other, a line each.
    Packed,
    /// One after the other, as many in a line as there is room for.
    Dense,
    /// One line in every page. Among any 64 neighbours each line of a page comes once, and among
    /// 64 times 64 each set of a physically indexed cache with up to 4,096 sets once.
    LineInEachPage,
    /// One line in every huge page, each in another base page of it, so that they spread over the
    /// sets of a TLB also where a hypervisor has broken the huge page up.
    LineInEachHugePage,
    /// The same line of pages this many bytes apart: places that fall into one set.
    Stride(usize),
}

/// Byte offset of place `i` in a huge page.
fn in_huge_page(i: usize) -> usize {
    i % (HUGE / PAGE) * PAGE + (i + i / 64) % 64 * LINE
}

impl Spread {
    /// Byte offset of place `i`.
    pub fn offset(self, i: usize) -> usize {
        match self {
            Spread::Packed => i * LINE,
            Spread::Dense => i * LINK,
            Spread::LineInEachPage => i * PAGE + (i + i / 64) % 64 * LINE,
            Spread::LineInEachHugePage => i * HUGE + in_huge_page(i),
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
        let huge = pages != Pages::Small;
        let memory = Mapping::anonymous_in(huge, len)?;
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

    /// Reads every line from byte `at` on.
    pub fn read_from(&self, at: usize) {
        self.memory.read(at, self.memory.len() - at, LINE);
    }

    /// Goes through `len` bytes from byte `at` on; see [`streams::go_through`].
    ///
    /// # Panics
    /// When they reach past the end.
    pub fn go_through(&mut self, at: usize, len: usize, streams: usize, way: Way) -> usize {
        streams::go_through(&self.memory, at, len, streams, way)
    }

    /// Flushes the lines of some places from all caches; whether there is an instruction for that.
    ///
    /// # Panics
    /// When there is no such place.
    pub fn flush(&self, places: &[usize]) -> bool {
        self.memory
            .flush(places.iter().map(|&place| self.spread.offset(place)))
    }

    /// Nanoseconds a load at random in the first `len` bytes, of so many walkers side by side. See
    /// [`random_loads`].
    ///
    /// # Panics
    /// When there is no page in `len`, or there are not so many bytes.
    pub fn latency_at_random(&self, len: usize, walkers: usize, rng: &mut Rng) -> f64 {
        assert!((PAGE..=self.memory.len()).contains(&len), "{len} bytes");
        // Three times as many loads as there are lines leave one in twenty unread.
        let settle = 3 * len / LINE;
        // SAFETY: that much is mapped, and only chains write it, through an exclusive borrow.
        unsafe { random_loads::latency(self.memory.as_ptr(), len, walkers, settle, rng) }
    }

    /// Other places in the same memory.
    pub fn respread(&mut self, spread: Spread) {
        self.spread = spread;
    }
}

impl Places for Region {
    fn count(&self) -> usize {
        match self.spread {
            Spread::Packed => self.memory.len() / LINE,
            Spread::Dense => self.memory.len() / LINK,
            Spread::LineInEachPage => self.memory.len() / PAGE,
            Spread::LineInEachHugePage => self.memory.len() / HUGE,
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
/// The links of a chain fill a small contiguous piece of memory, eight to a line, so that caches
/// hold them although the TLB must translate a page for each; and since neighbouring virtual pages
/// show the same physical page, no TLB can hold two of them in one entry.
///
/// On cores that predict the cache way from the virtual address (AMD, since Zen) a line that was
/// last reached through another address costs as much as a miss of the first level: see
/// [`Aliases::penalty`].
#[derive(Debug)]
pub struct Aliases {
    space: Mapping,
    /// The same memory once, to write links through.
    direct: Mapping,
    /// Byte offset of each place in the space.
    at: Vec<usize>,
    /// Byte offset of each place in the memory.
    stored: Vec<usize>,
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
        let stored: Vec<usize> = (0..count).map(|i| i * LINK).collect();
        Aliases::over(PAGE, 0, stored, page)
    }

    /// `count` base pages in a row, each with a line of its own.
    ///
    /// # Errors
    /// As above.
    pub fn lines(count: usize) -> Result<Aliases, Refused> {
        Aliases::over(PAGE, 0, (0..count).map(|i| i * LINE).collect(), |i| i)
    }

    /// `count` neighbouring addresses of one hugetlb page of `page` bytes, another base page of it
    /// through each.
    ///
    /// # Errors
    /// When there is no such page.
    pub fn hugetlb(count: usize, page: usize) -> Result<Aliases, Refused> {
        let flags = libc::MFD_HUGETLB | page.ilog2() << libc::MFD_HUGE_SHIFT;
        let pieces = HUGE / PAGE;
        // Eight links to a line: with more places, two would share a link.
        let count = count.min(pieces * (LINE / LINK));
        // With a larger page, each place takes another huge page as well.
        let huge = |i: usize| if page > HUGE { i * HUGE } else { 0 };
        let stored = (0..count).map(|i| {
            let piece = i % pieces;
            huge(piece) + in_huge_page(piece) + i / pieces * LINK
        });
        Aliases::over(page, flags, stored.collect(), |i| i)
    }

    /// A memory file of pages of `page` bytes; place `i` is its byte `stored[i]`, seen in the page
    /// with the number `number(i)`.
    fn over(
        page: usize,
        flags: u32,
        stored: Vec<usize>,
        number: impl Fn(usize) -> usize,
    ) -> Result<Aliases, Refused> {
        let len = stored.iter().max().map_or(page, |last| last + LINK);
        let len = len.next_multiple_of(page);
        let file = memory_file(len, flags)?;
        let direct = Mapping::shared(&file, len)?;
        let pages: Vec<usize> = (0..stored.len()).map(|i| number(i) * page).collect();
        let end = pages.iter().max().map_or(page, |last| last + page);
        let mut space = Mapping::reserved(end, page.max(HUGE))?;
        for (&at, stored) in pages.iter().zip(&stored) {
            space.overlay(at, page, &file, stored / page * page)?;
        }
        let at = pages.iter().zip(&stored).map(|(at, s)| at + s % page);
        Ok(Aliases {
            space,
            direct,
            at: at.collect(),
            stored,
        })
    }

    /// Nanoseconds that a load costs more when its line was last reached through another address.
    ///
    /// # Errors
    /// As for the others.
    pub fn penalty(rng: &mut Rng) -> Result<f64, Refused> {
        // No first-level TLB is smaller.
        const COUNT: u64 = 16;
        const SAMPLES: usize = 9;
        let (mut shared, mut apart) = (
            Aliases::small(COUNT as usize, 1)?,
            Aliases::lines(COUNT as usize)?,
        );
        let mut samples = |places: &mut Aliases| {
            let samples: Vec<f64> = (0..SAMPLES).map(|_| latency(places, COUNT, rng)).collect();
            median(&samples).unwrap_or(f64::NAN)
        };
        Ok(samples(&mut shared) - samples(&mut apart))
    }
}

impl Places for Aliases {
    fn count(&self) -> usize {
        self.at.len()
    }

    fn chain(&mut self, order: &[usize]) -> Chain {
        let direct = self.direct.as_ptr();
        // SAFETY: `over` mapped byte `stored[i]` of the file at `at[i]` of the space for every
        // place, and the whole file at `direct`; indexing checks the number; both stay mapped,
        // and nobody writes but chains, through this exclusive borrow.
        unsafe {
            Chain::link(
                self.space.as_ptr(),
                order,
                |i| self.at[i],
                |i| direct.add(self.stored[i]),
            )
        }
    }
}

/// Places visited in groups of neighbours, so that what holds for the group (its translation, or
/// its page) is looked up once for several loads.
///
/// Every `block` places that follow each other are shuffled and cut into groups; the groups
/// are visited in random order.
#[derive(Debug)]
pub struct Grouped<P> {
    /// The places.
    pub places: P,
    /// Places that may fall into one group.
    pub block: usize,
    /// Places of a group.
    pub group: usize,
    /// A group's places differ by multiples of this.
    pub apart: usize,
}

impl<P> Grouped<P> {
    /// Eight of the 64 lines of a base page together, no two of them in the same 128 bytes.
    ///
    /// A hypervisor may have broken huge pages up, and then a walk is shared by eight loads. Spatial
    /// prefetchers complete pairs of lines: in a random group of eight one load in nine would hit
    /// what was fetched for its neighbour, and every latency and every number of misses under way
    /// that comes from such a chain be a ninth off.
    pub fn lines_of_a_page(places: P) -> Self {
        Grouped {
            places,
            block: PAGE / LINE,
            group: LINES_TOGETHER,
            apart: 2,
        }
    }
}

/// Loads that share a walk in [`Grouped::lines_of_a_page`]; what is taken out for it in
/// `pagelab/measuring/machine.py` is one in as many.
pub const LINES_TOGETHER: usize = 8;

impl<P: Places> Places for Grouped<P> {
    fn count(&self) -> usize {
        self.places.count()
    }

    fn chain(&mut self, order: &[usize]) -> Chain {
        self.places.chain(order)
    }

    fn first(&self, count: u64, rng: &mut Rng) -> Vec<usize> {
        let mut groups = Vec::new();
        for begin in (0..count as usize).step_by(self.block) {
            let end = (begin + self.block).min(count as usize);
            for first in begin..(begin + self.apart).min(end) {
                let mut places: Vec<usize> = (first..end).step_by(self.apart).collect();
                rng.shuffle(&mut places);
                groups.extend(places.chunks(self.group).map(<[usize]>::to_vec));
            }
        }
        rng.shuffle(&mut groups);
        groups.concat()
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
    fn groups_hold_neighbours_and_every_place_comes_once() {
        struct Numbers;
        impl Places for Numbers {
            fn count(&self) -> usize {
                1000
            }
            fn chain(&mut self, _: &[usize]) -> Chain {
                unreachable!("only the order is looked at")
            }
        }
        let (block, group) = (64, 8);
        let mut grouped = Grouped {
            places: Numbers,
            block,
            group,
            apart: 2,
        };
        // Through a reference, as chains are measured.
        let places: &mut dyn Places = &mut grouped;
        let order = places.first(640, &mut Rng::with_seed(3));
        assert_eq!(order.iter().collect::<HashSet<_>>().len(), 640);
        for group in order.chunks(group) {
            let blocks: HashSet<usize> = group.iter().map(|place| place / block).collect();
            assert_eq!(blocks.len(), 1, "{group:?}");
            let pairs: HashSet<usize> = group.iter().map(|place| place / 2).collect();
            assert_eq!(pairs.len(), group.len(), "{group:?}");
        }
        // The groups of a block are apart: nearly all that follow each other differ in it.
        let firsts: Vec<usize> = order.iter().step_by(group).map(|p| p / block).collect();
        let same = firsts.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(same < firsts.len() / 4, "{firsts:?}");
    }

    #[test]
    fn aliases_are_linked_through_the_direct_mapping() {
        let mut aliases = Aliases::small(100, 3).expect("aliases");
        let mut rng = Rng::with_seed(9);
        // A wrong offset would leave the mapped pages, or read a zero link, and hang or fault.
        assert!(latency(&mut aliases, 100, &mut rng) > 0.0);
    }
}
