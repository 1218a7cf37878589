//! Cuts of a stream, and how much of what comes before a cut warms the piece behind it.

use super::intervals::{Intervals, LONGEST, RECENT, TIMED};
use super::piece::{Extent, PACED};
use super::recent::{self, Past, Sought};
use super::removed_pages::RemovedPages;
use super::survey::{GRAINS, Survey, Uses};
use crate::config::MachineConfig;
use pagelab_addr::PAGE_BYTES;
use pagelab_os::PagePolicy;

/// A piece has at least so many accesses for each line of the caches.
const ACCESSES_A_LINE: u64 = 4;

/// A stream is cut into no more pieces than come to so much besides, for each of its own accesses:
/// accesses that warm pieces up, and what making their memory takes.
const BESIDES: f64 = 0.1;

/// Frames of simulated memory that are copied in the time that an access takes.
const FRAMES_AN_ACCESS: u64 = 6;

/// Units that have been used, beyond what a structure holds, until one that was not used meanwhile
/// counts as gone: sets fill unevenly.
const MARGIN: u64 = 2;

/// Wrong decisions that a warm-up may leave, for each access of a piece ...
const TOLERATED: f64 = 4e-6;

/// ... and for each miss that is known to happen, if that is more: of lines in the last level,
/// of pages in the TLB.
const TOLERATED_OF_MISSES: f64 = 2.5e-3;

/// Number of kinds that decisions tell apart: lines, data's and page tables'; translations.
const KINDS: usize = 2;
/// The grain whose units such decisions miss.
const MISSED: [usize; KINDS] = [0, 1];
/// The kind of each grain.
const KIND: [usize; GRAINS.len()] = [0, 1, 0, 0];

/// The pieces of a stream: each begins where the one before ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) pieces: u64,
    /// Accesses of each but the last, which has the rest.
    pub(super) length: u64,
}

impl Cut {
    fn new(intervals: Intervals, pieces: u64) -> Self {
        Cut {
            pieces,
            length: intervals.length * (intervals.count / pieces),
        }
    }

    pub(super) fn start(&self, piece: u64) -> u64 {
        piece * self.length
    }

    /// Begin of its simulation, with so many accesses before it that warm up without a clock.
    fn from(&self, piece: u64, warm_up: u64) -> u64 {
        let timed = if piece == 0 { 0 } else { TIMED };
        self.start(piece).saturating_sub(warm_up + timed)
    }

    /// End of a piece, if not with the stream.
    pub(super) fn end(&self, piece: u64) -> Option<u64> {
        (piece + 1 < self.pieces).then(|| self.start(piece + 1))
    }
}

/// Lines of the caches of one core.
fn lines(config: &MachineConfig) -> u64 {
    let caches = &config.caches;
    let of = |kib: u32| u64::from(kib) * 1024 / pagelab_addr::LINE_BYTES;
    of(caches.l1.kib) + of(caches.l2.kib) + of(caches.llc.kib)
}

/// 4 KiB pages that a core's TLB reaches.
fn pages(config: &MachineConfig) -> u64 {
    let arrays = [config.tlb.l1_4k, config.tlb.l2_4k].into_iter();
    arrays
        .map(|array| u64::from(array.entries) * u64::from(array.coalesce))
        .sum()
}

/// The numbers of pieces that a stream may be cut into, the largest first.
fn counts(intervals: Intervals, config: &MachineConfig) -> Vec<u64> {
    let most = intervals.accesses / (ACCESSES_A_LINE * lines(config)).max(1);
    let least = intervals.accesses.div_ceil(LONGEST).next_power_of_two();
    let halves = std::iter::successors(Some(intervals.count), |&count| Some(count / 2));
    let halves = halves.take_while(|&count| count >= least.max(1));
    let counts: Vec<u64> = halves.filter(|&count| count <= most.max(least)).collect();
    if counts.is_empty() {
        vec![intervals.count]
    } else {
        counts
    }
}

/// True if a stream of so many accesses may be cut at all: if not, nobody need look at it.
pub(super) fn may_be_cut(accesses: u64, count: Option<u64>, config: &MachineConfig) -> bool {
    match count {
        Some(count) => Intervals::of(accesses, Some(count)).count > 1,
        None => counts(Intervals::of(accesses, None), config)[0] > 1,
    }
}

/// Cut of a stream for a machine.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) cut: Cut,
    /// For each piece that can be read, accesses before it that warm caches and TLB.
    pub(super) warm_up: Vec<u64>,
    /// Lines that are brought in before these.
    pub(super) lines: Vec<Past>,
}

impl Plan {
    /// Cuts a stream into as many pieces as need no more warming than is worth it, or at every
    /// interval of the survey.
    ///
    /// A warm-up is as long as it takes for a piece's caches and TLB to decide as if all before it
    /// had been simulated: as far back as the oldest last use, before the piece, of a unit that the
    /// piece uses and that is cached still when it does (boundary line reuse latency: Eeckhout et
    /// al., "BLRL", The Computer Journal 48(4), 2005); a few units may be older.
    pub(super) fn new(survey: &Survey, everywhere: bool, config: &MachineConfig) -> Self {
        let intervals = survey.intervals;
        let counts = if everywhere {
            vec![intervals.count]
        } else {
            counts(intervals, config)
        };
        let reuses = Reuses::of(survey, config);
        let taken = RemovedPages::of(&survey.events, intervals.start(intervals.count - 1));
        let most = (MARGIN * lines(config)) as usize;
        let copy = config.memory.memory_bytes / PAGE_BYTES / FRAMES_AN_ACCESS;
        // A piece is begun twice where others use the last level (`piece::pace`).
        let (times, paced) = match config.caches.others {
            Some(_) => (2, PACED),
            None => (1, 0),
        };
        let worth_it = (BESIDES * intervals.accesses as f64) as u64;
        let mut plan = Plan::of_one_piece(intervals.accesses);
        for count in counts {
            plan = Plan::with(
                Cut::new(intervals, count),
                survey,
                &reuses,
                &taken,
                most,
                config.fetch.is_some(),
            );
            if times * plan.besides() + (count - 1) * (times * copy + paced) <= worth_it {
                break;
            }
        }
        plan
    }

    pub(super) fn of_one_piece(accesses: u64) -> Self {
        Plan {
            cut: Cut {
                pieces: 1,
                length: accesses,
            },
            warm_up: vec![0],
            lines: vec![Past::default()],
        }
    }

    fn with(
        cut: Cut,
        survey: &Survey,
        reuses: &Reuses,
        taken: &RemovedPages,
        most: usize,
        fetches: bool,
    ) -> Self {
        let intervals = survey.intervals;
        let each = intervals.count / cut.pieces;
        let pieces = (survey.uses.len() as u64).div_ceil(each);
        let mut before: Vec<[Vec<(u64, u64)>; KINDS]> = Vec::new();
        before.resize_with(pieces as usize, Default::default);
        for reuse in &reuses.all {
            let piece = u64::from(reuse.interval) / each;
            if reuse.last < cut.start(piece) {
                let grain = usize::from(reuse.grain);
                let weight = 1 << GRAINS[grain].one_in;
                before[piece as usize][KIND[grain]].push((reuse.last, weight));
            }
        }
        let tolerated = reuses.misses.map(|misses| {
            let known = TOLERATED_OF_MISSES * misses as f64 / cut.pieces as f64;
            known.max(TOLERATED * cut.length as f64) as u64
        });
        let warm_up = (0..).zip(before).map(|(piece, kinds)| {
            let kinds = kinds.into_iter().zip(tolerated);
            let back = kinds.map(|(reused, tolerated)| {
                let last = oldest(reused, tolerated);
                last.map_or(0, |last| cut.start(piece) - last)
            });
            let back = back.max().unwrap_or_default();
            // Uses of pages that are no more are not in the sample: their frames have other names.
            let seek = back > RECENT || fetches || !taken.is_empty();
            let known = seek.then(|| {
                let sought = Sought {
                    until: (piece * each) as usize,
                    tail: back < RECENT,
                    most,
                    least: most / MARGIN as usize,
                    code: fetches,
                };
                recent::before(intervals, &survey.lines, taken, sought)
            });
            let known = known.flatten();
            let count = known.as_ref().map_or(u64::MAX, |lines| lines.len() as u64);
            let all = count.saturating_add(RECENT) < back;
            let back = if all { RECENT } else { back };
            let from = cut.from(piece, back);
            let lines = known.into_iter().flatten();
            let lines = lines.map(|(used, since)| (used.seen_from(from, taken), since));
            // Distance to look back for data's sake alone.
            let lines = lines.filter(|(used, _)| all || used.line.is_code() || !used.is_there());
            let past: Past = lines.collect();
            (back.max(u64::from(!past.lines.is_empty())), past)
        });
        let (warm_up, lines) = warm_up.unzip();
        Plan {
            cut,
            warm_up,
            lines,
        }
    }

    /// Accesses that are simulated besides those of the stream, and lines that are brought in.
    fn besides(&self) -> u64 {
        let timed = (self.warm_up.len() as u64).saturating_sub(1) * TIMED;
        let lines: usize = self.lines.iter().map(|past| past.lines.len()).sum();
        timed + self.warm_up.iter().sum::<u64>() + lines as u64
    }

    /// Extent of a piece, if it can be read.
    pub(super) fn extent(&self, piece: u64) -> Option<Extent> {
        let &warm_up = self.warm_up.get(piece as usize)?;
        Some(Extent {
            start: self.cut.start(piece),
            from: self.cut.from(piece, warm_up),
            to: self.cut.end(piece),
        })
    }

    /// Pieces in the order in which their simulation begins, which is not that of the stream: a
    /// warm-up may be longer than a piece.
    pub(super) fn order(&self) -> Vec<u64> {
        let mut order: Vec<u64> = (0..self.warm_up.len() as u64).collect();
        order.sort_by_key(|&piece| self.extent(piece).map(|extent| extent.from));
        order
    }

    /// Accesses that are simulated, with those that warm up.
    pub(super) fn accesses(&self, survey: &Survey) -> u64 {
        survey.intervals.accesses + self.besides()
    }
}

/// The oldest of last uses, each of which stands for so many, of which some may be older.
fn oldest(mut reused: Vec<(u64, u64)>, tolerated: u64) -> Option<u64> {
    reused.sort_unstable();
    let mut left = 0;
    let kept = reused.iter().find(|(_, weight)| {
        left += weight;
        left > tolerated
    });
    kept.map(|&(last, _)| last)
}

/// A unit that is used in an interval, and was used before it.
#[derive(Clone, Copy, Debug)]
struct Reuse {
    interval: u32,
    grain: u8,
    last: u64,
}

/// Uses of a stream that may be found in caches and TLB, whatever the cut.
struct Reuses {
    all: Vec<Reuse>,
    /// Number of units that an interval uses and does not find, by kind.
    misses: [u64; KINDS],
}

impl Reuses {
    fn of(survey: &Survey, config: &MachineConfig) -> Self {
        let mut found = Reuses {
            all: Vec::new(),
            misses: [0; KINDS],
        };
        let intervals = survey.intervals;
        let mut known: [LastUses; GRAINS.len()] = Default::default();
        let capacities = capacities(config);
        for (interval, uses) in (0..).zip(&survey.uses) {
            // Units used before, and not since, are gone when the interval begins.
            let reach: Vec<Option<u64>> = (known.iter().zip(capacities).zip(GRAINS))
                .map(|((known, capacity), grain)| {
                    Some(known.horizon(intervals, capacity? >> grain.one_in))
                })
                .collect();
            let least = |grains: &[usize]| {
                let reach = grains.iter().filter_map(|&grain| reach[grain]);
                reach.min().unwrap_or_default()
            };
            let (lines, pages) = (least(&[0]), least(&[1, 3]));
            // Entries for larger pages are in the TLB, and in lines of page tables.
            let larger = if reach[3].is_some() { pages } else { lines };
            let horizons = [lines, pages, lines, lines.min(larger)];
            for (grain, uses) in uses.iter().enumerate() {
                let kind = KIND[grain];
                for &(unit, last) in uses {
                    let before = known[grain].used(unit, interval, last, intervals);
                    match before.filter(|&before| before >= horizons[grain]) {
                        Some(last) => found.all.push(Reuse {
                            interval,
                            grain: grain as u8,
                            last,
                        }),
                        None if grain == MISSED[kind] => {
                            found.misses[kind] += 1 << GRAINS[grain].one_in;
                        }
                        None => {}
                    }
                }
            }
        }
        found
    }
}

/// Units of each grain that fill what they are kept in, with a margin, where there is such a thing:
/// lines in caches, pages in the TLB, and larger ones if there are any.
fn capacities(config: &MachineConfig) -> [Option<u64>; GRAINS.len()] {
    let tlb = &config.tlb;
    let larger = [tlb.l1_2m, tlb.l2_2m.or(Some(tlb.l2_4k))].into_iter();
    let larger: u64 = larger.flatten().map(|array| u64::from(array.entries)).sum();
    let has_larger = config.memory.page_policy != PagePolicy::BASE;
    [
        Some(MARGIN * lines(config)),
        Some(MARGIN * pages(config)),
        None,
        has_larger.then_some(MARGIN * larger),
    ]
}

/// The last uses of a grain's units so far.
#[derive(Default)]
struct LastUses {
    last: Uses,
    /// Number of units last used in each interval.
    in_interval: Vec<u64>,
}

impl LastUses {
    /// Takes in a unit's last use in an interval; says when it was used before.
    fn used(&mut self, unit: u64, interval: u32, at: u64, intervals: Intervals) -> Option<u64> {
        let interval = interval as usize;
        if self.in_interval.len() <= interval {
            self.in_interval.resize(interval + 1, 0);
        }
        self.in_interval[interval] += 1;
        let before = self.last.insert(unit, at)?;
        self.in_interval[intervals.of_access(before) as usize] -= 1;
        Some(before)
    }

    /// Since when no more than so many units have been used, as if those of an interval were spread
    /// evenly over it; 0 if there were not as many.
    fn horizon(&self, intervals: Intervals, units: u64) -> u64 {
        let mut left = units;
        for (interval, &count) in self.in_interval.iter().enumerate().rev() {
            if count > left {
                let share = left as f64 / count as f64;
                let back = (share * intervals.length as f64) as u64;
                return intervals.start(interval as u64 + 1).saturating_sub(back);
            }
            left -= count;
        }
        0
    }
}
