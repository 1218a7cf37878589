//! Looks at what the machine leaves a program now: taken beside the program's runs, since what others
//! leave of a core, of a last level and of memory moves within minutes (docs/measure.md).

use crate::chain::LINE;
use crate::core_speed;
use crate::detect::{Curve, shared_level};
use crate::flushed_lines::FlushedLines;
use crate::parts::{Failure, ReorderBufferCheck, Use, beyond_caches, touched_life};
use crate::places::Places;
use crate::random_loads::{WALKERS, spreads};
use crate::rounds::timed;
use crate::stats::median;
use crate::streams::{STREAMS, Way};
use crate::system::{Refused, claims, process};
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{BufRead, Write};

/// Laps through flushed lines at a look, of 128 lines each.
const LAPS: usize = 16;

/// Pieces of memory that are gone through in each way at a look, and bytes of each: short enough that a
/// thread is seldom taken from the core meanwhile.
const PIECES: usize = 4;
const PIECE: usize = 4 << 20;

/// Bytes that are mapped, touched and unmapped at a look, of each size of page.
const TOUCHED: usize = 16 << 20;

/// Fewer spreads than these tell no costs apart from the room (see [`shared_level`]).
const SPREADS: usize = 8;

/// Sizes of a CPU.
#[derive(Debug, Serialize)]
struct Core {
    /// The share of samples in which it had not all of its reorder buffer.
    half: f64,
    /// Instructions that it dispatched a cycle; null where that is not known.
    width: Option<f64>,
    /// Nanoseconds that a line of memory takes; null where no instruction flushes one.
    memory_ns: Option<f64>,
    /// 10^9 bytes a second that it reads from memory in order, in as many streams as are fastest.
    reads: Option<f64>,
    /// The same of what goes from memory and to it where it writes, too.
    moves: Option<f64>,
    life: Lives,
}

/// Nanoseconds that the first touch and the unmapping of a page take, by what touched it.
#[derive(Debug, Serialize)]
struct Lives {
    read: Life,
    written: Life,
    written_huge: Life,
}

#[derive(Debug, Serialize)]
struct Life {
    first_touch: f64,
    unmap: f64,
}

/// Nanoseconds of a load at random, by the lines that loads are spread over.
#[derive(Debug, Serialize)]
struct Round {
    /// Lines that the level before the last one holds.
    below: u64,
    x: Vec<u64>,
    /// One walker's, and of as many walkers as there are at most.
    ns: [Vec<f64>; 2],
}

/// Such rounds, and what a line of memory took meanwhile.
#[derive(Debug, Deserialize)]
struct Rounds {
    below: u64,
    x: Vec<u64>,
    rounds: Vec<[Vec<f64>; 2]>,
    memory_ns: Option<f64>,
}

/// Answers each line of `wanted` by a line of JSON: `cores` by a [`Core`] for each CPU of this process,
/// `last-level CPU` by a [`Round`], and `conclude ROUNDS` by the last level that explains these. A core
/// with half of its reorder buffer has no room for `between` instructions between two loads.
///
/// # Errors
/// When memory is short, a CPU cannot be had, a line is none of these, or nobody reads.
pub fn serve(
    between: usize,
    rng: &mut Rng,
    wanted: impl BufRead,
    mut answers: impl Write,
) -> Result<(), Failure> {
    let mut looks = Sampler::new(between, rng)?;
    for line in wanted.lines() {
        let line = line.map_err(|e| Refused::because("reading what is wanted", e))?;
        let answer = match line.split_once(' ').unwrap_or((&line, "")) {
            ("cores", "") => serde_json::to_value(looks.cores(rng)?)?,
            ("last-level", cpu) => {
                let cpu = cpu.parse().map_err(|_| no_such(&line))?;
                serde_json::to_value(looks.last_level(cpu, rng)?)?
            }
            ("conclude", rounds) => conclude(&serde_json::from_str(rounds)?, rng)?,
            _ => return Err(no_such(&line)),
        };
        writeln!(answers, "{answer}")
            .and_then(|()| answers.flush())
            .map_err(|e| Refused::because("answering", e))?;
    }
    Ok(())
}

fn no_such(line: &str) -> Failure {
    Failure::Lacking(format!("no such look: {line}"))
}

struct Sampler {
    ahead: ReorderBufferCheck,
    flushed: FlushedLines,
    cpus: Vec<usize>,
    /// Lines that the level before the last one holds.
    below: u64,
    /// Place of the next piece.
    next: usize,
}

impl Sampler {
    fn new(between: usize, rng: &mut Rng) -> Result<Sampler, Failure> {
        let (region, _) = beyond_caches()?;
        Ok(Sampler {
            ahead: ReorderBufferCheck::new(between, region, rng)?,
            flushed: FlushedLines::new()?,
            cpus: process::cpus()?,
            below: claims::before_last(&claims::caches()) / LINE as u64,
            next: 0,
        })
    }

    fn cores(&mut self, rng: &mut Rng) -> Result<Vec<Core>, Failure> {
        let mut found = Vec::new();
        for cpu in self.cpus.clone() {
            process::pin(cpu)?;
            let half = self.ahead.share_apart();
            let width = core_speed::width();
            let laps: Vec<f64> = (0..LAPS)
                .filter_map(|_| self.flushed.latency(rng))
                .collect();
            found.push(Core {
                half,
                width,
                memory_ns: median(&laps),
                reads: self.rate(Way::Read),
                moves: self.rate(Way::Update),
                life: Lives {
                    read: life(Use::Read)?,
                    written: life(Use::Written)?,
                    written_huge: life(Use::WrittenHuge)?,
                },
            });
        }
        Ok(found)
    }

    /// Bytes a nanosecond by the number of streams that is fastest; the median of some pieces.
    fn rate(&mut self, way: Way) -> Option<f64> {
        let of = |streams: usize| {
            let pieces: Vec<f64> = (0..PIECES).map(|_| self.piece(streams, way)).collect();
            median(&pieces)
        };
        STREAMS.into_iter().filter_map(of).reduce(f64::max)
    }

    /// Goes through the next piece; bytes a nanosecond.
    fn piece(&mut self, streams: usize, way: Way) -> f64 {
        let len = PIECE.min(self.ahead.half());
        if self.next + len > self.ahead.half() {
            self.next = 0;
        }
        let (ns, moved) = timed(|| self.ahead.go_through(self.next, len, streams, way));
        self.next += len;
        moved as f64 / ns
    }

    fn last_level(&mut self, cpu: usize, rng: &mut Rng) -> Result<Round, Failure> {
        process::pin(cpu)?;
        let region = self.ahead.region();
        let most = region.count() as u64;
        let mut x = spreads(self.below, most, 1);
        if x.len() < SPREADS {
            x = spreads(self.below, most, 2);
        }
        let ns = [WALKERS[0], WALKERS[WALKERS.len() - 1]].map(|walkers| {
            // In any order, so that what moves meanwhile is no slope.
            let mut order: Vec<usize> = (0..x.len()).collect();
            rng.shuffle(&mut order);
            let mut ns = vec![f64::NAN; x.len()];
            for at in order {
                ns[at] = region.latency_at_random(x[at] as usize * LINE, walkers, rng);
            }
            ns
        });
        // The next look at the core's loads shall find none of theirs in a cache.
        region.read_from(self.ahead.half());
        Ok(Round {
            below: self.below,
            x,
            ns,
        })
    }
}

fn life(case: Use) -> Result<Life, Failure> {
    let [first_touch, unmap] = touched_life(TOUCHED, case)?;
    Ok(Life { first_touch, unmap })
}

/// The last level that explains rounds of loads at random; null of too few.
fn conclude(found: &Rounds, rng: &mut Rng) -> Result<Value, Failure> {
    const RESAMPLES: usize = 40;
    let whole = |ns: &Vec<f64>| ns.len() == found.x.len();
    if !found.rounds.iter().flatten().all(whole) {
        return Err(Failure::Lacking("a round is not whole".into()));
    }
    let curves = [0, 1].map(|of| Curve {
        x: found.x.clone(),
        rounds: found.rounds.iter().map(|round| round[of].clone()).collect(),
    });
    let level = shared_level(&curves, found.below, found.memory_ns, RESAMPLES, rng);
    Ok(serde_json::to_value(level)?)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use serde_json::json;

    fn answers(wanted: &str) -> Result<Vec<Value>, Failure> {
        let mut answers = Vec::new();
        serve(179, &mut Rng::with_seed(3), wanted.as_bytes(), &mut answers)?;
        let answers = String::from_utf8(answers).unwrap();
        Ok(answers
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect())
    }

    #[test]
    fn each_line_is_answered_and_every_cpu_looked_at() {
        let cpus = process::cpus().unwrap();
        let found = answers(&format!("cores\nlast-level {}\ncores\n", cpus[0])).unwrap();
        assert_eq!(found.len(), 3);
        for cores in [&found[0], &found[2]] {
            assert_eq!(cores.as_array().unwrap().len(), cpus.len());
            for core in cores.as_array().unwrap() {
                assert!((0.0..=1.0).contains(&core["half"].as_f64().unwrap()));
                assert!(core["width"].as_f64().unwrap() > 0.4);
                for of in ["read", "written", "written_huge"] {
                    // No kernel fills a page in ten nanoseconds.
                    assert!(core["life"][of]["first_touch"].as_f64().unwrap() > 10.0);
                    assert!(core["life"][of]["unmap"].as_f64().unwrap() > 0.0);
                }
                // No memory answers as soon as a last level, or gives a TB/s to one core.
                assert!(core["memory_ns"].as_f64().unwrap() > 20.0, "{core}");
                for rate in ["reads", "moves"].map(|of| core[of].as_f64().unwrap()) {
                    assert!(rate > 0.0 && rate < 1000.0, "{core}");
                }
            }
        }
        let spreads = found[1]["x"].as_array().unwrap().len();
        for ns in found[1]["ns"].as_array().unwrap() {
            assert_eq!(ns.as_array().unwrap().len(), spreads);
        }
    }

    #[test]
    fn a_last_level_is_concluded_from_rounds() {
        // Times of loads at random in 65,536 lines of 30 ns that nobody else uses, before memory of 150.
        let x: Vec<u64> = (0..9).map(|octave| 8192 << octave).collect();
        let of = |walkers: f64| -> Vec<f64> {
            let share = |x: u64| (65_536.0 / x as f64).min(1.0);
            let ns = |&x: &u64| (30.0 * share(x) + 150.0 * (1.0 - share(x))) / walkers;
            x.iter().map(ns).collect()
        };
        let rounds = vec![[of(1.0), of(8.0)]; 3];
        let asked = json!({ "below": 1024, "x": x, "rounds": rounds, "memory_ns": 150.0 });
        let found = &answers(&format!("conclude {asked}\n")).unwrap()[0];
        let lines = found["lines"].as_f64().unwrap();
        assert!((0.95..1.05).contains(&(lines / 65_536.0)), "{found}");
        assert_eq!(found["no_conclusion"], Value::Null);
    }

    #[test]
    fn what_is_no_look_is_said() {
        for wanted in ["memory", "cores now", "last-level", "conclude {}"] {
            assert!(answers(wanted).is_err(), "{wanted}");
        }
        let asked = json!({ "below": 1, "x": [1, 2], "rounds": [[[1.0], [1.0, 2.0]]] });
        let said = answers(&format!("conclude {asked}"))
            .unwrap_err()
            .to_string();
        assert_eq!(said, "a round is not whole");
    }
}
