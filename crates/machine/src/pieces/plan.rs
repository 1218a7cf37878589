//! Where a stream is cut, and how much of what comes before a cut warms the piece behind it.

use super::survey::{Event, GRAINS, Seen, Uses, What};
use super::touched::Touched;
use crate::config::MachineConfig;

/// Accesses before each piece that take time, after the warm-up without a clock: by then the reorder
/// buffer, the miss buffers and the queue of memory are as they would be.
pub(super) const TIMED: u64 = 8192;

/// A stream is cut into so many pieces if it is long enough: a power of two, so that as many
/// workers have as much to do.
const PIECES: u64 = 64;

/// A piece has at least so many accesses for each line of the caches.
const ACCESSES_A_LINE: u64 = 16;

/// A piece has at most so many accesses.
const LONGEST: u64 = 1 << 30;

/// Units that have been used, beyond what a structure holds, until one that was not used meanwhile
/// counts as gone: sets fill unevenly.
const MARGIN: u64 = 2;

/// Wrong decisions that a warm-up may leave, for each access of a piece.
const TOLERATED: f64 = 4e-6;

/// The pieces of a stream: each begins where the one before ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) pieces: u64,
    /// Accesses of each but the last, which has the rest.
    pub(super) length: u64,
}

impl Cut {
    /// Cuts a stream of so many accesses for a machine: into no more pieces than `most`.
    pub(super) fn new(accesses: u64, config: &MachineConfig, most: Option<u64>) -> Self {
        let shortest = ACCESSES_A_LINE * lines(config);
        let pieces = most.unwrap_or_else(|| {
            let fit = (accesses / shortest).clamp(1, PIECES);
            let fit = 1 << fit.ilog2();
            accesses.div_ceil(LONGEST).next_power_of_two().max(fit)
        });
        let pieces = pieces.clamp(1, accesses.max(1));
        Cut {
            pieces,
            length: accesses / pieces,
        }
    }

    pub(super) fn start(&self, piece: u64) -> u64 {
        piece * self.length
    }

    /// Accesses that are simulated of a stream of so many, with those that warm up.
    pub(super) fn accesses(&self, plan: &Plan, accesses: u64) -> u64 {
        let timed = (plan.warm_up.len() as u64).saturating_sub(1) * TIMED;
        accesses + timed + plan.warm_up.iter().sum::<u64>()
    }

    /// Where a piece ends, if not with the stream.
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

/// What is known of a stream when all of it has been seen.
#[derive(Default)]
pub(super) struct Plan {
    /// What may change its memory, in order.
    pub(super) events: Vec<Event>,
    /// Of each piece, accesses before it that warm caches and TLB.
    pub(super) warm_up: Vec<u64>,
    /// Whether accesses are missing between those that there are.
    pub(super) leaves_out: bool,
}

impl Plan {
    /// That of a stream which is not cut: nobody needs to look at it.
    pub(super) fn of_one_piece() -> Self {
        Plan {
            warm_up: vec![0],
            ..Plan::default()
        }
    }
}

/// Puts together what was seen of one piece after the other.
pub(super) struct Planner {
    cut: Cut,
    /// Of the stream.
    accesses: u64,
    /// Units of the first two grains that fill what they are kept in.
    capacities: [u64; 2],
    touched: Touched,
    /// The last use of each unit so far.
    uses: [Uses; GRAINS.len()],
    pub(super) plan: Plan,
    /// Whether the stream cannot be read beyond what was seen.
    pub(super) broken: bool,
}

impl Planner {
    pub(super) fn new(cut: Cut, accesses: u64, config: &MachineConfig) -> Self {
        Planner {
            cut,
            accesses,
            capacities: [lines(config), pages(config)].map(|units| MARGIN * units),
            touched: Touched::default(),
            uses: Default::default(),
            plan: Plan::default(),
            broken: false,
        }
    }

    /// Takes in what was seen of the next piece.
    pub(super) fn add(&mut self, seen: Seen) {
        if self.broken {
            return;
        }
        let piece = self.plan.warm_up.len() as u64;
        let warm_up = self.warm_up(self.cut.start(piece), &seen);
        self.plan.warm_up.push(warm_up);
        // What is missing before the first access or after the last is in nobody's way.
        let within = |after: &u64| (1..self.accesses).contains(after);
        self.plan.leaves_out |= seen.left_out.iter().any(within);
        self.broken = seen.broken;
        for event in &seen.events {
            let news = match event.what {
                What::Control(control) => {
                    self.touched.control(event.process, &control);
                    true
                }
                What::Touch { vpn, store } => self.touched.touch(event.process, vpn, store),
            };
            if news {
                self.plan.events.push(*event);
            }
        }
        for (all, uses) in self.uses.iter_mut().zip(seen.uses) {
            for (unit, (first, last)) in uses {
                all.entry(unit).or_insert((first, last)).1 = last;
            }
        }
    }

    /// Accesses before a piece that have to be simulated for its caches and TLB to decide as if all
    /// had been.
    ///
    /// That is as far back as the oldest last use, before the piece, of a unit that the piece uses
    /// and that may be cached still (boundary line reuse latency: Eeckhout et al., "BLRL", The
    /// Computer Journal 48(4), 2005); a few units may be older.
    fn warm_up(&self, start: u64, seen: &Seen) -> u64 {
        if start == 0 {
            return 0;
        }
        let horizons = self.capacities.iter().zip(&self.uses).zip(&GRAINS);
        let horizon = horizons
            .map(|((&capacity, uses), grain)| oldest(uses, (capacity >> grain.one_in) as usize))
            .min()
            .unwrap_or_default();
        let mut reused = Vec::new();
        for ((uses, before), grain) in seen.uses.iter().zip(&self.uses).zip(&GRAINS) {
            let last = uses.keys().filter_map(|unit| before.get(unit));
            let last = last.map(|uses| uses.1).filter(|&last| last >= horizon);
            reused.extend(last.map(|last| (last, 1u64 << grain.one_in)));
        }
        reused.sort_unstable();
        let tolerated = (TOLERATED * self.cut.length as f64) as u64;
        let mut left = 0;
        let kept = reused.iter().find(|(_, weight)| {
            left += weight;
            left > tolerated
        });
        let back = kept.map_or(0, |&(last, _)| start - last);
        back.min(self.cut.length).min(start)
    }
}

/// The last use of the unit that was used last but so many; 0 if there are not as many.
fn oldest(uses: &Uses, units: usize) -> u64 {
    let mut last: Vec<u64> = uses.values().map(|uses| uses.1).collect();
    if last.len() <= units {
        return 0;
    }
    let place = last.len() - 1 - units;
    *last.select_nth_unstable(place).1
}
