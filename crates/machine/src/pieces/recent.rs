//! Which lines an interval used, in the order of their last uses.
//!
//! A cache with LRU replacement that is given the lines of the past once each, in the order of their
//! last uses, holds what it would hold after all of the past; so does a TLB.

use super::names::{Spread, name};
use super::regions::Regions;
use pagelab_addr::{LINE_SHIFT, PAGE_SHIFT};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;

/// Of an interval that uses more lines so many are kept, those that it used last: what caches of 32 MiB hold.
const MOST: usize = 1 << 19;

const REGION_SHIFT: u32 = 30;
const LINES: usize = 1 << (REGION_SHIFT - LINE_SHIFT);
const PAGE_LINES: u64 = 1 << (PAGE_SHIFT - LINE_SHIFT);

/// What a process uses of its address space, and in which way: both may use the same line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Space(u32);

impl Space {
    pub(super) fn data(process: u32) -> Self {
        Space(process << 1)
    }

    pub(super) fn code(process: u32) -> Self {
        Space(process << 1 | 1)
    }
}

/// A line of an address space, and whether it was stored to: packed, since there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Line(pub(super) u64);

/// Bits of a line's number that are kept: those of user space.
const LINE_BITS: u32 = 47 - LINE_SHIFT;
const SPACE_BITS: u32 = 63 - LINE_BITS;

impl Line {
    /// `None` for what no program uses.
    fn new(space: Space, line: u64, stored: bool) -> Option<Self> {
        let fits = line >> LINE_BITS == 0 && space.0 >> SPACE_BITS == 0;
        let packed = u64::from(space.0) << LINE_BITS | line;
        fits.then_some(Line(packed << 1 | u64::from(stored)))
    }

    /// The same line, whether it was stored to or not.
    pub(super) fn unit(self) -> u64 {
        self.0 >> 1
    }

    pub(super) fn process(self) -> u32 {
        self.space().0 >> 1
    }

    pub(super) fn space(self) -> Space {
        Space((self.unit() >> LINE_BITS) as u32)
    }

    /// Whether instructions were fetched from it, and not data.
    pub(super) fn is_code(self) -> bool {
        self.space().0 & 1 == 1
    }

    pub(super) fn addr(self) -> u64 {
        (self.unit() & ((1 << LINE_BITS) - 1)) << LINE_SHIFT
    }

    pub(super) fn stored(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The lines of an interval while it is looked at.
#[derive(Default)]
pub(super) struct Recent {
    numbers: Regions,
    /// Of each GiB of an address space, when each line was used last, in accesses of the interval from
    /// 1 on, twice; plus one if it was stored to.
    regions: Vec<Box<[u32]>>,
    /// Pages that were used.
    pages: Vec<(Space, u64)>,
}

impl Recent {
    /// A line is used by the access of the interval with this number, or just before it.
    #[inline(always)]
    pub(super) fn used(&mut self, space: Space, addr: u64, number: u64, store: bool) {
        let name = (space.0, addr >> REGION_SHIFT);
        let region = match self.numbers.number(name) {
            Some(region) => region,
            None => self.add(name),
        };
        let at = &mut self.regions[region][(addr >> LINE_SHIFT) as usize % LINES];
        // An interval has at most 2^30 accesses.
        *at = (number as u32 + 1) << 1 | *at & 1 | u32::from(store);
    }

    #[cold]
    fn add(&mut self, name: (u32, u64)) -> usize {
        let region = self.regions.len();
        // Zeros as they come from the system: only what is used takes memory.
        self.regions.push(vec![0; LINES].into());
        self.numbers.add(name, region);
        region
    }

    /// A page is used; once is enough.
    pub(super) fn page(&mut self, space: Space, page: u64) {
        self.pages.push((space, page));
    }

    /// The lines that were used last.
    pub(super) fn finish(self) -> Lines {
        self.last(MOST)
    }

    fn last(mut self, most: usize) -> Lines {
        self.pages.sort_unstable();
        self.pages.dedup();
        let mut lines: Vec<(u32, Line)> = Vec::new();
        let mut all = true;
        for &(space, page) in &self.pages {
            let first = page * PAGE_LINES;
            let name = (space.0, first >> (REGION_SHIFT - LINE_SHIFT));
            let Some(region) = self.numbers.number(name) else {
                continue;
            };
            let place = first as usize % LINES;
            let times = &self.regions[region][place..place + PAGE_LINES as usize];
            for (line, &time) in (first..).zip(times) {
                let line = Line::new(space, line, time & 1 == 1);
                lines.extend(line.filter(|_| time > 0).map(|line| (time >> 1, line)));
            }
            // Not for each page: what is kept is chosen anew each time.
            if lines.len() > 2 * most {
                keep_last(&mut lines, most);
                all = false;
            }
        }
        all &= lines.len() <= most;
        keep_last(&mut lines, most);
        lines.sort_unstable();
        let lines = lines.into_iter().map(|(_, line)| line).collect();
        Lines { lines, all }
    }
}

/// Keeps so many lines, those that were used last, in any order.
fn keep_last(lines: &mut Vec<(u32, Line)>, most: usize) {
    if lines.len() > most {
        lines.select_nth_unstable_by_key(most, |&(time, line)| Reverse((time, line)));
        lines.truncate(most);
    }
}

/// Lines of an interval, the one used last at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) lines: Vec<Line>,
    /// Whether the interval has used no others.
    pub(super) all: bool,
}

/// The lines that were used before an interval, those of code only if they are asked for, in the order of
/// their last uses; of more than `most` the last. `None` if less than `least` are known, and there are others.
pub(super) fn before(
    intervals: &[Lines],
    until: usize,
    most: usize,
    least: usize,
    code: bool,
) -> Option<Vec<Line>> {
    let mut seen: HashSet<u64, BuildHasherDefault<Spread>> = HashSet::default();
    let mut found = Vec::new();
    'all: for Lines { lines, all } in intervals.get(..until)?.iter().rev() {
        for &line in lines.iter().rev().filter(|line| code || !line.is_code()) {
            if found.len() == most {
                break 'all;
            }
            if seen.insert(name(line.unit())) {
                found.push(line);
            }
        }
        // Those before them are older than others that nobody knows of.
        match all {
            true => {}
            false if found.len() < least => return None,
            false => break,
        }
    }
    found.reverse();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against lists that a line moves to the end of.
        #[test]
        fn as_lists(
            uses in proptest::collection::vec((0u32..2, 0u64..300, any::<bool>()), 1..400),
            length in 20usize..80,
            most in 1usize..400,
            kept in 1usize..120,
        ) {
            // Across the border of two regions.
            let base = (1 << 30) - 150 * 64;
            let mut all = Vec::new();
            let mut ends = Vec::new();
            let mut list: Vec<(u32, u64)> = Vec::new();
            for interval in uses.chunks(length) {
                let mut recent = Recent::default();
                for (number, &(process, line, store)) in (0..).zip(interval) {
                    let addr = base + line * 64 + line % 60;
                    recent.page(Space::data(process), addr >> 12);
                    recent.used(Space::data(process), addr, number, store);
                    list.retain(|&one| one != (process, addr >> 6));
                    list.push((process, addr >> 6));
                }
                let lines = recent.last(kept);
                prop_assert!(lines.lines.len() <= kept);
                for line in &lines.lines {
                    let stored = interval.iter().any(|&(process, number, store)| {
                        store && process == line.process() && (base >> 6) + number == line.addr() >> 6
                    });
                    prop_assert_eq!(line.stored(), stored);
                }
                all.push(lines);
                ends.push(list.clone());
            }
            for (until, list) in (1..).zip(&ends) {
                // So many are known at the least, of the last interval alone.
                let known = kept.min(all[until - 1].lines.len());
                let found = before(&all, until, most, known.min(most), true).unwrap();
                let found: Vec<_> = found.iter().map(|l| (l.process(), l.addr() >> 6)).collect();
                let expected = &list[list.len().saturating_sub(most)..];
                prop_assert!(expected.ends_with(&found));
                prop_assert!(found.len() >= known.min(most));
                if all[..until].iter().all(|lines| lines.all) {
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }

    #[test]
    fn of_many_lines_the_last_are_kept() {
        let mut recent = Recent::default();
        let used = 5 * MOST as u64 / 2;
        for line in 0..used {
            recent.page(Space::data(0), line / PAGE_LINES);
            recent.used(Space::data(0), line << LINE_SHIFT, line, false);
        }
        let kept = recent.finish();
        let addresses = kept.lines.iter().map(|line| line.addr() >> LINE_SHIFT);
        assert!(addresses.eq(used - MOST as u64..used) && !kept.all);
        let one = |line, all| Lines {
            lines: vec![Line(line)],
            all,
        };
        let all = [one(2, true), one(6, false), one(4, true)];
        assert!(before(&all, 3, 3, 3, true).is_none());
        let last = vec![Line(6), Line(4)];
        assert_eq!(before(&all, 3, 3, 2, true), Some(last));
        // As many as are wanted are known.
        assert_eq!(before(&all, 3, 1, 1, true), Some(vec![Line(4)]));
    }
}
