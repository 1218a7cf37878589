//! Which lines an interval used, in the order of their last uses.
//!
//! A cache with LRU replacement that is given the lines of the past once each, in the order of their
//! last uses, holds what it would hold after all of the past; so does a TLB.

use super::regions::Regions;
use pagelab_addr::{LINE_SHIFT, PAGE_SHIFT};
use std::collections::HashMap;

/// An interval that uses more lines has no list: warming up by its accesses takes no longer.
const MOST: usize = 1 << 18;

const REGION_SHIFT: u32 = 30;
const LINES: usize = 1 << (REGION_SHIFT - LINE_SHIFT);
const PAGE_LINES: u64 = 1 << (PAGE_SHIFT - LINE_SHIFT);

/// A line of an address space, and whether it was stored to: packed, since there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Line(pub(super) u64);

/// Bits of a line's number that are kept: those of user space.
const LINE_BITS: u32 = 47 - LINE_SHIFT;
const PROCESS_BITS: u32 = 63 - LINE_BITS;

impl Line {
    /// `None` for what no program uses.
    fn new(process: u32, line: u64, stored: bool) -> Option<Self> {
        let fits = line >> LINE_BITS == 0 && process >> PROCESS_BITS == 0;
        let packed = u64::from(process) << LINE_BITS | line;
        fits.then_some(Line(packed << 1 | u64::from(stored)))
    }

    /// The same line, whether it was stored to or not.
    pub(super) fn unit(self) -> u64 {
        self.0 >> 1
    }

    pub(super) fn process(self) -> u32 {
        (self.unit() >> LINE_BITS) as u32
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
    /// Pages that were used: process, page.
    pages: Vec<(u32, u64)>,
}

impl Recent {
    /// A line is used by the access of the interval with this number.
    #[inline(always)]
    pub(super) fn used(&mut self, process: u32, addr: u64, number: u64, store: bool) {
        let name = (process, addr >> REGION_SHIFT);
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
    pub(super) fn page(&mut self, process: u32, page: u64) {
        self.pages.push((process, page));
    }

    /// The lines, the one used last at the end; `None` if there are too many.
    pub(super) fn finish(mut self) -> Option<Vec<Line>> {
        self.pages.sort_unstable();
        self.pages.dedup();
        let mut lines: Vec<(u32, Line)> = Vec::new();
        for &(process, page) in &self.pages {
            let first = page * PAGE_LINES;
            let name = (process, first >> (REGION_SHIFT - LINE_SHIFT));
            let Some(region) = self.numbers.number(name) else {
                continue;
            };
            let place = first as usize % LINES;
            let times = &self.regions[region][place..place + PAGE_LINES as usize];
            for (line, &time) in (first..).zip(times) {
                let line = Line::new(process, line, time & 1 == 1);
                lines.extend(line.filter(|_| time > 0).map(|line| (time >> 1, line)));
            }
            if lines.len() > MOST {
                return None;
            }
        }
        lines.sort_unstable_by_key(|&(time, _)| time);
        Some(lines.into_iter().map(|(_, line)| line).collect())
    }
}

/// The lines of an interval, and for each in which interval it is used next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) lines: Vec<Line>,
    pub(super) next: Vec<u16>,
}

/// No interval.
pub(super) const NEVER: u16 = u16::MAX;

/// Finds out when lines are used next.
#[derive(Default)]
pub(super) struct Following {
    /// Of each line the interval that used it last, and its place there.
    last: HashMap<u64, (u16, u32)>,
}

impl Following {
    /// Takes in the lines of the next interval, after those of all before.
    pub(super) fn follow(&mut self, all: &mut Vec<Option<Lines>>, lines: Option<Vec<Line>>) {
        let interval = all.len() as u16;
        for (place, line) in (0..).zip(lines.iter().flatten()) {
            if let Some((before, at)) = self.last.insert(line.unit(), (interval, place))
                && let Some(Some(before)) = all.get_mut(usize::from(before))
            {
                before.next[at as usize] = interval;
            }
        }
        all.push(lines.map(|lines| Lines {
            next: vec![NEVER; lines.len()],
            lines,
        }));
    }
}

/// The lines that were used before an interval, in the order of their last uses; of more than `most` the
/// last. `None` if they are not known.
pub(super) fn before(all: &[Option<Lines>], until: usize, most: usize) -> Option<Vec<Line>> {
    let mut parts = Vec::new();
    let mut count = 0;
    for lines in all.get(..until)?.iter().rev() {
        let Lines { lines, next } = lines.as_ref()?;
        let live = lines.iter().zip(next);
        let live = live.filter(|&(_, &next)| usize::from(next) >= until);
        let part: Vec<Line> = live.map(|(&line, _)| line).collect();
        count += part.len();
        parts.push(part);
        if count >= most {
            break;
        }
    }
    let mut found: Vec<Line> = parts.into_iter().rev().flatten().collect();
    found.drain(..found.len().saturating_sub(most));
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
        ) {
            // Across the border of two regions.
            let base = (1 << 30) - 150 * 64;
            let mut all = Vec::new();
            let mut following = Following::default();
            let mut ends = Vec::new();
            let mut list: Vec<(u32, u64)> = Vec::new();
            for interval in uses.chunks(length) {
                let mut recent = Recent::default();
                for (number, &(process, line, store)) in (0..).zip(interval) {
                    let addr = base + line * 64 + line % 60;
                    recent.page(process, addr >> 12);
                    recent.used(process, addr, number, store);
                    list.retain(|&one| one != (process, addr >> 6));
                    list.push((process, addr >> 6));
                }
                let lines = recent.finish().unwrap();
                for line in &lines {
                    let stored = interval.iter().any(|&(process, number, store)| {
                        store && process == line.process() && (base >> 6) + number == line.addr() >> 6
                    });
                    prop_assert_eq!(line.stored(), stored);
                }
                following.follow(&mut all, Some(lines));
                ends.push(list.clone());
            }
            for (until, list) in (1..).zip(&ends) {
                let found = before(&all, until, most).unwrap();
                let found: Vec<_> = found.iter().map(|l| (l.process(), l.addr() >> 6)).collect();
                let expected = &list[list.len().saturating_sub(most)..];
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn too_many_lines_have_no_list() {
        let mut recent = Recent::default();
        for line in 0..=MOST as u64 {
            recent.page(0, line / PAGE_LINES);
            recent.used(0, line << LINE_SHIFT, line, false);
        }
        assert!(recent.finish().is_none());
        let some = |line| {
            Some(Lines {
                lines: vec![Line(line)],
                next: vec![NEVER],
            })
        };
        let all = [some(2), None, some(4)];
        assert!(before(&all, 3, 2).is_none());
        // As many as are wanted are known.
        assert_eq!(before(&all, 3, 1), Some(vec![Line(4)]));
    }
}
