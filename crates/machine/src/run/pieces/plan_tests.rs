//! Warm-ups against what is known of a stream by its making.

use super::intervals::Intervals;
use super::names::name;
use super::plan::Plan;
use super::survey::{GRAINS, Joint, Seen, Survey};
use crate::config::MachineConfig;

const ACCESSES: u64 = 1 << 24;

/// A machine with 5,632 lines and 1,600 pages, whose memory is copied at once.
fn machine() -> MachineConfig {
    let keys = [
        "caches.l2.kib=64",
        "caches.llc.kib=256",
        "memory.memory_bytes=16MiB",
    ];
    let keys = keys.map(str::to_owned);
    MachineConfig::load("dpt-paper", &keys).unwrap()
}

/// A stream that uses in each interval the lines that `used` says, each once, evenly spread; one
/// that is in no sample is left out.
fn stream(used: impl Fn(u64) -> Vec<u64>) -> Survey {
    let intervals = Intervals::of(ACCESSES, None);
    assert_eq!(intervals.count, 64);
    let mut joint = Joint::new(intervals);
    for interval in 0..intervals.count {
        let lines = used(interval);
        let every = intervals.length / lines.len().max(1) as u64;
        let mut uses: [Vec<(u64, u64)>; GRAINS.len()] = Default::default();
        for (place, line) in (0..).zip(lines) {
            let name = name(line);
            if name >> (64 - GRAINS[0].one_in) == 0 {
                uses[0].push((name, intervals.start(interval) + place * every));
            }
        }
        uses[0].sort_unstable();
        let seen = Seen {
            uses,
            ..Seen::default()
        };
        joint.add(interval, seen);
    }
    joint.survey
}

#[test]
fn what_fits_into_the_cache_is_warmed_by_one_round() {
    // An interval is a round over 4,000 lines, which the caches hold.
    let survey = stream(|_| (0..4000).collect());
    let plan = Plan::new(&survey, true, &machine());
    let interval = survey.intervals.length;
    assert_eq!(plan.warm_up[0], 0);
    for &warm_up in &plan.warm_up[1..] {
        // But for what lies between lines of the sample.
        assert!(
            (interval * 9 / 10..=interval).contains(&warm_up),
            "{warm_up}"
        );
    }
}

#[test]
fn what_is_never_used_again_needs_no_warming() {
    let survey = stream(|interval| (interval * 4000..(interval + 1) * 4000).collect());
    let plan = Plan::new(&survey, false, &machine());
    assert_eq!(plan.cut.pieces, 64);
    assert!(plan.warm_up.iter().all(|&warm_up| warm_up == 0));
}

#[test]
fn what_is_used_again_too_late_needs_no_warming() {
    // A round over 64,000 lines takes 16 intervals: all are gone before they are used again.
    let survey = stream(|interval| (0..4000).map(|n| (interval % 16) * 4000 + n).collect());
    let plan = Plan::new(&survey, false, &machine());
    assert_eq!(plan.cut.pieces, 64);
    assert!(plan.warm_up.iter().all(|&warm_up| warm_up == 0));
}

#[test]
fn what_comes_back_late_makes_fewer_pieces() {
    // A round over 4,000 lines takes four intervals of 64; a tenth of the accesses is worth it.
    let survey = stream(|interval| (0..1000).map(|n| (interval % 4) * 1000 + n).collect());
    let plan = Plan::new(&survey, false, &machine());
    let all: u64 = plan.warm_up.iter().sum();
    assert_eq!(plan.cut.pieces, 2);
    let round = 4 * survey.intervals.length;
    assert!((round * 8 / 10..=round).contains(&all), "{all}");
    // Asked for, a cut at every interval has warm-ups that are longer than pieces.
    let plan = Plan::new(&survey, true, &machine());
    assert_eq!(plan.cut.pieces, 64);
    assert!(plan.warm_up[20] > 3 * plan.cut.length);
    // Such pieces begin in another order than that of the stream where warm-ups differ.
    let order = plan.order();
    let begins = order.iter().map(|&piece| plan.extent(piece).unwrap().from);
    assert!(begins.is_sorted());
}

#[test]
fn a_few_that_come_back_are_left_beside_many_that_do_not() {
    // Three lines in a thousand are used in every interval, and the rest once.
    let used = |interval: u64| -> Vec<u64> {
        let once = (0..100_000).map(|n| 1000 + interval * 100_000 + n);
        (0..64).chain(once).collect()
    };
    let plan = Plan::new(&stream(used), false, &machine());
    assert_eq!(plan.cut.pieces, 64);
    assert!(plan.warm_up.iter().all(|&warm_up| warm_up == 0));
}
