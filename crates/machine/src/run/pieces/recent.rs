//! Lines that a part of an interval used, in the order of their last uses.
//!
//! A cache with LRU replacement that is given the lines of the past once each, in the order of their
//! last uses, holds what it would hold after all of the past; so does a TLB.

use super::intervals::Intervals;
use super::names::{Spread, name};
use super::removed_pages::RemovedPages;
use pagelab_addr::{LINE_SHIFT, PAGE_SHIFT, VirtAddr, Vpn};
use pagelab_events::{Op, Regions};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::ops::Range;

/// Largest number of lines kept of an interval, those that it used last: what caches of 32 MiB hold.
pub(super) const MOST: usize = 1 << 19;

const REGION_SHIFT: u32 = 30;
const LINES: usize = 1 << (REGION_SHIFT - LINE_SHIFT);
const PAGES: usize = 1 << (REGION_SHIFT - PAGE_SHIFT);
pub(super) const PAGE_LINES: u64 = 1 << (PAGE_SHIFT - LINE_SHIFT);

/// A process's address space and the way of its use, as data or code: both may use the same line.
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
    pub(super) fn new(space: Space, line: u64, stored: bool) -> Option<Self> {
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

    /// True if instructions were fetched from it, and not data.
    pub(super) fn is_code(self) -> bool {
        self.space().0 & 1 == 1
    }

    pub(super) fn addr(self) -> u64 {
        (self.unit() & ((1 << LINE_BITS) - 1)) << LINE_SHIFT
    }

    pub(super) fn vpn(self) -> Vpn {
        VirtAddr(self.addr()).vpn()
    }

    pub(super) fn stored(self) -> bool {
        self.0 & 1 == 1
    }

    /// The same line, loaded from only.
    pub(super) fn loaded(self) -> Self {
        Line(self.0 & !1)
    }

    /// An access that uses it.
    pub(super) fn op(self) -> Op {
        if self.stored() {
            Op::store(1)
        } else {
            Op::load(1)
        }
    }
}

/// The lines of such a part while it is looked at.
#[derive(Default)]
pub(super) struct RecentLines {
    numbers: Regions,
    /// Each GiB of an address space.
    regions: Vec<Region>,
    /// Lines of pages that have been taken away since, each with its last use and when that was.
    gone: Vec<(u32, Line, u64)>,
    /// Some of these were dropped.
    dropped: bool,
}

struct Region {
    /// When each line was used last, in accesses of the interval from 1 on, twice; plus one if it was
    /// stored to.
    times: Box<[u32]>,
    /// Pages of which lines were used: a bit each.
    pages: Box<[u64]>,
}

impl Region {
    fn new() -> Self {
        // Zeros as they come from the system: only what is used takes memory.
        Region {
            times: vec![0; LINES].into(),
            pages: vec![0; PAGES / 64].into(),
        }
    }

    /// Pages among these that were used.
    fn used(&self, of: Range<usize>) -> impl Iterator<Item = usize> {
        let (first, last) = (of.start, of.end.saturating_sub(1));
        let words = first / 64..(of.end.div_ceil(64)).max(first / 64);
        words.flat_map(move |word| {
            let low = first.saturating_sub(word * 64);
            let high = last.saturating_sub(word * 64).min(63);
            let mut bits = self.pages[word] & u64::MAX << low & u64::MAX >> (63 - high);
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits.wrapping_sub(1);
                (bit < 64).then_some(word * 64 + bit)
            })
        })
    }

    /// The lines of a page that were used, and when.
    fn lines(&self, (space, gib): (u32, u64), page: usize) -> impl Iterator<Item = (u32, Line)> {
        let place = page * PAGE_LINES as usize;
        let first = (gib << (REGION_SHIFT - LINE_SHIFT)) + place as u64;
        let times = &self.times[place..place + PAGE_LINES as usize];
        let used = (first..).zip(times).filter(|&(_, &time)| time > 0);
        used.filter_map(move |(line, &time)| {
            Some((time >> 1, Line::new(Space(space), line, time & 1 == 1)?))
        })
    }
}

impl RecentLines {
    /// A line is used by the access of the interval with this number, or just before it.
    #[inline(always)]
    pub(super) fn used(&mut self, space: Space, addr: u64, number: u64, store: bool) {
        let region = self.region((space.0, addr >> REGION_SHIFT));
        let region = &mut self.regions[region];
        let at = &mut region.times[(addr >> LINE_SHIFT) as usize % LINES];
        if *at == 0 {
            let page = (addr >> PAGE_SHIFT) as usize % PAGES;
            region.pages[page / 64] |= 1 << (page % 64);
        }
        // An interval has at most 2^30 accesses.
        *at = (number as u32 + 1) << 1 | *at & 1 | u32::from(store);
    }

    #[inline(always)]
    fn region(&mut self, name: (u32, u64)) -> usize {
        match self.numbers.number(name) {
            Some(region) => region,
            None => self.add(name),
        }
    }

    #[cold]
    fn add(&mut self, name: (u32, u64)) -> usize {
        let region = self.regions.len();
        self.regions.push(Region::new());
        self.numbers.add(name, region);
        region
    }

    /// Pages of a process are taken away, after so many accesses of the stream: what was used of them
    /// is nobody's from then on, and others may use it under other names.
    pub(super) fn take(&mut self, process: u32, pages: Range<u64>, after: u64) {
        if pages.is_empty() {
            return;
        }
        for ((space, gib), region) in self.numbers.iter() {
            let start = gib << (REGION_SHIFT - PAGE_SHIFT);
            let first = pages.start.max(start);
            let end = pages.end.min(start + PAGES as u64);
            if space >> 1 != process || first >= end {
                continue;
            }
            let region = &mut self.regions[region];
            let within = (first - start) as usize..(end - start) as usize;
            let used: Vec<usize> = region.used(within).collect();
            for page in used {
                let lines = region.lines((space, gib), page);
                self.gone
                    .extend(lines.map(|(time, line)| (time, line, after)));
                region.pages[page / 64] &= !(1 << (page % 64));
                region.times[page * PAGE_LINES as usize..][..PAGE_LINES as usize].fill(0);
            }
        }
        if self.gone.len() > 2 * MOST {
            keep_last(&mut self.gone, MOST);
            self.dropped = true;
        }
    }

    /// The lines that were used last.
    pub(super) fn finish(self) -> Lines {
        self.last(MOST)
    }

    pub(super) fn last(self, most: usize) -> Lines {
        let mut lines = self.gone;
        let mut all = !self.dropped;
        for (name, region) in self.numbers.iter() {
            let region = &self.regions[region];
            for page in region.used(0..PAGES) {
                let used = region.lines(name, page);
                lines.extend(used.map(|(time, line)| (time, line, NOT_TAKEN)));
                // Not for each page: what is kept is chosen anew each time.
                if lines.len() > 2 * most {
                    keep_last(&mut lines, most);
                    all = false;
                }
            }
        }
        all &= lines.len() <= most;
        keep_last(&mut lines, most);
        lines.sort_unstable();
        let gone = (0..)
            .zip(&lines)
            .map(|(place, &(_, _, after))| (place, after));
        let gone = gone.filter(|&(_, after)| after != NOT_TAKEN).collect();
        let lines = lines.into_iter().map(|(_, line, _)| line).collect();
        Lines { lines, gone, all }
    }
}

/// The page is there when the interval ends.
const NOT_TAKEN: u64 = u64::MAX;

/// Keeps so many lines, those that were used last, in any order.
fn keep_last(lines: &mut Vec<(u32, Line, u64)>, most: usize) {
    if lines.len() > most {
        lines.select_nth_unstable_by_key(most, |&one| Reverse(one));
        lines.truncate(most);
    }
}

/// Lines of a part of an interval, the one used last at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) lines: Vec<Line>,
    /// Lines, by place, of pages that were taken away within the part, and after how many accesses of the stream.
    pub(super) gone: Vec<(u32, u64)>,
    /// The part has used no others.
    pub(super) all: bool,
}

impl Lines {
    /// From the last to the first, each with the time until which its page was what it was: the
    /// part's end, if no other.
    fn backwards(&self, end: u64) -> impl Iterator<Item = Used> {
        let mut gone = self.gone.iter().rev().peekable();
        let lines = self.lines.iter().enumerate().rev();
        lines.map(move |(place, &line)| {
            let gone = gone.next_if(|&&(at, _)| at as usize == place);
            let until = gone.map_or(end, |&(_, after)| after);
            Used { line, until }
        })
    }
}

/// A line that was used, and until how many accesses of the stream it was in the frame it was in then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) line: Line,
    pub(super) until: u64,
}

impl Used {
    /// Index of its page among those that its address had one after the other.
    pub(super) fn generation(&self, taken: &RemovedPages) -> usize {
        taken.before(self.line.process(), self.line.vpn().0, self.until)
    }

    /// A line of a page that is still there after so many accesses has no end.
    pub(super) fn seen_from(mut self, accesses: u64, taken: &RemovedPages) -> Self {
        let (process, page) = (self.line.process(), self.line.vpn().0);
        if self.until >= accesses || self.generation(taken) == taken.before(process, page, accesses)
        {
            self.until = NOT_TAKEN;
        }
        self
    }

    /// A line of a page that has not been taken away.
    pub(super) fn that_is_there(line: Line) -> Self {
        Used {
            line,
            until: NOT_TAKEN,
        }
    }

    /// True if its page is there still.
    pub(super) fn is_there(&self) -> bool {
        self.until == NOT_TAKEN
    }
}

/// Lines that are brought in before a piece, in the order of their last uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) lines: Vec<Used>,
    /// Lines from the first number on were used last after so many accesses or later, in order.
    pub(super) since: Vec<(u32, u64)>,
}

impl Past {
    /// Lines used last in each part of an interval, with where it begins and ends, up to so many accesses.
    pub(super) fn parts(&self, accesses: u64) -> impl Iterator<Item = (&[Used], u64, u64)> {
        let ends = self.since.iter().skip(1).copied();
        let ends = ends.chain([(self.lines.len() as u32, accesses)]);
        let parts = self.since.iter().zip(ends);
        parts.map(|(&(first, begins), (end, ends))| {
            (
                &self.lines[first as usize..end as usize],
                begins,
                ends.max(begins),
            )
        })
    }
}

impl FromIterator<(Used, u64)> for Past {
    fn from_iter<I: IntoIterator<Item = (Used, u64)>>(all: I) -> Self {
        let mut past = Past::default();
        for (used, since) in all {
            if past.since.last().is_none_or(|last| last.1 != since) {
                past.since.push((past.lines.len() as u32, since));
            }
            past.lines.push(used);
        }
        past
    }
}

/// Lines that are looked for.
#[derive(Clone, Copy)]
pub(super) struct Sought {
    /// Before this interval ...
    pub(super) until: usize,
    /// ... with the tail of the one before it, or without.
    pub(super) tail: bool,
    /// Largest number of them, the last ...
    pub(super) most: usize,
    /// ... and how many at least, if there are others.
    pub(super) least: usize,
    /// Lines of code as well.
    pub(super) code: bool,
}

/// The lines that were used before an interval, in the order of their last uses, each with where the part of
/// an interval begins in which that was. `None` if fewer are known than are needed.
///
/// Where the whole tail is simulated what it uses is not to be brought in ahead of it: it would be found where
/// it was not, and no walk would bring in the page table's lines.
pub(super) fn before(
    intervals: Intervals,
    known: &[[Lines; 2]],
    taken: &RemovedPages,
    sought: Sought,
) -> Option<Vec<(Used, u64)>> {
    let Sought {
        until,
        tail,
        most,
        least,
        code,
    } = sought;
    let mut seen: HashSet<u64, BuildHasherDefault<Spread>> = HashSet::default();
    // Lines of addresses that had other pages before.
    let mut seen_later: HashSet<(u64, usize)> = HashSet::new();
    let mut found = Vec::new();
    let parts = (0..)
        .zip(known.get(..until)?.iter())
        .flat_map(|(interval, parts)| {
            let begins = intervals.tail(interval);
            let extents = [
                (intervals.start(interval), begins),
                (begins, intervals.start(interval + 1)),
            ];
            parts.iter().zip(extents)
        });
    let parts: Vec<_> = parts.collect();
    'all: for (lines, (start, end)) in parts.into_iter().rev().skip(usize::from(!tail)) {
        let used = lines.backwards(end);
        for used in used.filter(|used| code || !used.line.is_code()) {
            if found.len() == most {
                break 'all;
            }
            let new = match used.generation(taken) {
                0 => seen.insert(name(used.line.unit())),
                generation => seen_later.insert((used.line.unit(), generation)),
            };
            if new {
                found.push((used, start));
            }
        }
        // Lines before them are older than others that nobody knows of.
        match lines.all {
            true => {}
            false if found.len() < least => return None,
            false => break,
        }
    }
    found.reverse();
    Some(found)
}
