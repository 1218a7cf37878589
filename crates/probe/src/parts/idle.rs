//! Memory that lay idle: what the first touch of a page takes after some seconds in which nobody had it,
//! beside one right after the last use.
//!
//! A guest may tell its host of free memory, which takes it back and has to give it anew: Linux reports
//! blocks of at least [pageblock] order two seconds after they were freed, a part of them each time
//! (`page_reporting_process` and `PAGE_REPORTING_DELAY` in mm/page_reporting.c, 6.12). Balloons, virtio-mem
//! and hosts that swap come to the same. Huge pages are taken from large blocks, and base pages from small
//! ones as long as there are some, so that both are measured.
//!
//! [pageblock]: https://docs.kernel.org/mm/physical_memory.html

use super::{Context, Failure, Part, no_options};
use crate::rounds::timed;
use crate::stats::{Estimate, median};
use crate::system::budget;
use crate::system::mapping::{HUGE, Mapping, PAGE, backing};
use clap::ArgMatches;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

pub const PART: Part = Part {
    name: "idle",
    about: "First touch of memory that lay idle for some seconds, and right after its last use",
    in_all: true,
    options: no_options,
    run,
};

/// So long the probe waits before it takes memory, so that what it had before is idle: the kernel's delay,
/// and time for the reports.
const IDLE: Duration = Duration::from_secs(4);

/// Between two rounds: a disturbance is in few of them.
const PAUSE: Duration = Duration::from_millis(500);

/// The most memory that is taken, and its share of what the budget allows: a quarter of what is available.
const MOST: u64 = 512 << 20;
const SHARE: f64 = 0.25 / budget::SHARE;

/// 2 MiB whose first touch takes so many times as long as right after use had to be given by the host
/// first: well above what a busy machine does, and well below what was measured (5 to 25 times).
const LONGER: f64 = 2.0;

/// Share of idle memory that has to be given first below which nothing is concluded.
const LEAST_SHARE: f64 = 0.05;

/// The sizes of pages by whether they are huge, and their names in the result.
const SIZES: [(bool, &str); 2] = [(false, "base"), (true, "huge")];

/// First touches of 2 MiB each, in nanoseconds for 4 KiB.
#[derive(Default)]
struct Touches {
    /// In memory that lay idle, by round.
    idle: Vec<Vec<f64>>,
    /// Right after use, of all rounds.
    reused: Vec<f64>,
    /// Share of the memory that was in huge pages, the least of all rounds.
    huge_share: Option<f64>,
}

impl Touches {
    /// Touches new memory, and again right after it was freed; returns that.
    fn take(&mut self, len: usize, huge: bool) -> Result<Mapping, Failure> {
        let (times, mapping) = first_touch(len, huge)?;
        self.idle.push(times);
        if let Some(found) = backing(&mapping) {
            let share = found.anonymous_huge as f64 / len as f64;
            self.huge_share = Some(self.huge_share.unwrap_or(share).min(share));
        }
        drop(mapping);
        let (times, mapping) = first_touch(len, huge)?;
        self.reused.extend(times);
        Ok(mapping)
    }

    /// Touches that took as long as those of memory that is given first.
    fn given(&self, touches: &[f64]) -> Vec<f64> {
        let bound = LONGER * median(&self.reused).unwrap_or(f64::INFINITY);
        touches.iter().copied().filter(|&ns| ns > bound).collect()
    }

    fn summary(&self) -> Summary {
        let idle = self.idle.concat();
        let given = self.given(&idle);
        let share = |given: &[f64], all: &[f64]| given.len() as f64 / all.len().max(1) as f64;
        let by_round: Vec<f64> = self.idle.iter().map(|round| mean(round)).collect();
        let share_idle = share(&given, &idle);
        let share_reused = share(&self.given(&self.reused), &self.reused);
        Summary {
            reused_ns: Estimate::of(&self.reused),
            idle_ns: Estimate::of(&by_round),
            idle_mean_ns: mean(&idle),
            given_ns: Estimate::of(&given),
            given_share: share_idle,
            given_share_reused: share_reused,
            seen: share_idle > LEAST_SHARE + 2.0 * share_reused,
            huge_share: self.huge_share,
        }
    }
}

/// Figures of a size of pages; times are for 4 KiB.
#[derive(Debug, Serialize)]
struct Summary {
    /// Right after use.
    reused_ns: Option<Estimate>,
    /// In idle memory: means by round.
    idle_ns: Option<Estimate>,
    /// In idle memory, on average over all rounds.
    idle_mean_ns: f64,
    /// First touch of idle memory, where it had to be given first.
    given_ns: Option<Estimate>,
    /// Share of idle memory that had to be.
    given_share: f64,
    /// Share that seemed so of memory that was just in use: of a busy machine's doing.
    given_share_reused: f64,
    /// Idle memory has to be given first.
    seen: bool,
    /// See [`Touches`].
    huge_share: Option<f64>,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn run(context: &mut Context, _: &ArgMatches) -> Result<Value, Failure> {
    let rounds = if context.quick { 4 } else { 8 };
    let room = ((budget::bytes() as f64 * SHARE) as u64).min(MOST) as usize;
    let len = room / SIZES.len() / rounds / HUGE * HUGE;
    if len == 0 {
        return Err(Failure::Lacking("too little memory is free".into()));
    }
    context.say("waiting until memory is idle");
    std::thread::sleep(IDLE);
    context.say("first touches");
    let mut touches = SIZES.map(|_| Touches::default());
    // Kept to the end: what was touched would be found again, and no program finds what it has.
    let mut held = Vec::new();
    for round in 0..rounds {
        for size in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            held.push(touches[size].take(len, SIZES[size].0)?);
        }
        std::thread::sleep(PAUSE);
    }
    drop(held);
    if touches[1].huge_share.is_some_and(|share| share < 0.9) {
        context.skip(
            "idle memory in huge pages",
            "the kernel gave too few of them",
        );
    }
    let sizes = SIZES.iter().zip(&touches);
    let sizes: HashMap<&str, Summary> = sizes
        .map(|((_, name), touches)| (*name, touches.summary()))
        .collect();
    Ok(json!({
        "bytes": len * rounds,
        "seconds": IDLE.as_secs_f64(),
        "rounds": rounds,
        "sizes": sizes,
    }))
}

/// Nanoseconds of this thread for each 4 KiB of a new mapping that is written for the first time, by 2 MiB,
/// and the mapping. A host's work is among them: this thread seems to run meanwhile.
fn first_touch(len: usize, huge: bool) -> Result<(Vec<f64>, Mapping), Failure> {
    let mapping = Mapping::anonymous_in(huge, len)?;
    let touch = |at| timed(|| mapping.touch(at, HUGE, PAGE)).0 / (HUGE / PAGE) as f64;
    let times = (0..len).step_by(HUGE).map(touch).collect();
    Ok((times, mapping))
}

#[cfg(test)]
mod tests {
    use super::{Estimate, Touches};

    fn touches(idle: &[&[f64]]) -> Touches {
        Touches {
            idle: idle.iter().map(|round| round.to_vec()).collect(),
            reused: [340.0, 345.0, 350.0, 352.0, 1900.0].repeat(20),
            huge_share: None,
        }
    }

    /// Times of a guest whose host takes back free memory, and of a busy one whose host does not.
    #[test]
    fn what_is_given_first_is_told_from_what_is_there() {
        let here = [345.0; 128];
        let given = [8300.0; 128];
        let found = touches(&[&here, &given, &given]).summary();
        assert!(found.seen);
        assert!((found.given_share - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(found.given_ns, Estimate::of(&given.repeat(2)));
        assert!((found.idle_mean_ns - (345.0 + 2.0 * 8300.0) / 3.0).abs() < 1e-6);
        let busy = [340.0, 345.0, 350.0, 352.0, 1900.0].repeat(20);
        assert!(!touches(&[&busy, &busy]).summary().seen);
        assert!(!touches(&[]).summary().seen);
    }
}
