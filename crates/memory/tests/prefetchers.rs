//! Prefetchers beside what is said of them, and patterns that each is for.

use pagelab_memory::{IpcpKeys, Load, NextLineKeys, PrefetchConfig, Prefetchers};
use proptest::prelude::*;
use std::collections::HashMap;

const LINES: i64 = 64;

/// Lines fetched for each load of an instruction from a line.
fn fetched(config: &PrefetchConfig, loads: &[(u32, i64)]) -> Vec<Vec<i64>> {
    let mut prefetchers = Prefetchers::new(config).unwrap();
    let of = |&(instruction, line): &(u32, i64)| {
        let mut next = Vec::new();
        let load = Load {
            instruction,
            address: (line * LINES + 5) as u64,
        };
        prefetchers.loaded(load, &mut next);
        next.iter().map(|address| (address >> 6) as i64).collect()
    };
    loads.iter().map(of).collect()
}

/// IPCP from the whole history of loads.
#[derive(Default)]
struct Twin {
    keys: IpcpKeys,
    /// By place: instruction, and whether another one asked for the place since it did.
    owners: HashMap<u32, (u32, bool)>,
    /// By instruction since it has its place: lines, without the same one twice in a row.
    lines: HashMap<u32, Vec<i64>>,
    /// By instruction, and by the strides behind a signature: what is guessed, and how often it held.
    constant: HashMap<u32, (i64, u32)>,
    complex: HashMap<u32, (i64, u32)>,
    /// The oldest first: number, lines loaded in order, tentative.
    regions: Vec<(i64, Vec<i64>, bool)>,
    fetched: Vec<i64>,
}

fn learn(guess: &mut (i64, u32), stride: i64) {
    guess.1 = if guess.0 == stride {
        3.min(guess.1 + 1)
    } else {
        guess.1.saturating_sub(1)
    };
    if guess.1 == 0 {
        guess.0 = stride;
    }
}

/// A signature is the last seven strides, each shifted by how long ago it was.
fn signature(strides: &[i64]) -> u32 {
    let coded = |stride: i64| (stride.unsigned_abs() % 64) as u32 + if stride < 0 { 64 } else { 0 };
    let last = strides.iter().rev().take(7).enumerate();
    last.fold(0, |all, (ago, &stride)| all ^ coded(stride) << ago) % 128
}

fn dense(lines: &[i64]) -> bool {
    let mut different = lines.to_vec();
    different.sort_unstable();
    different.dedup();
    different.len() >= 24
}

impl Twin {
    fn fetch(&mut self, from: i64, line: i64, next: &mut Vec<i64>) {
        let lately = self
            .fetched
            .iter()
            .rev()
            .take(32)
            .any(|&other| other == line);
        if line.div_euclid(64) == from.div_euclid(64) && !lately {
            self.fetched.push(line);
            next.push(line);
        }
    }

    fn direction(&mut self, line: i64, before: Option<i64>) -> Option<i64> {
        let number = line / 32;
        let at = self.regions.iter().position(|region| region.0 == number);
        let mut region = match at {
            Some(at) => self.regions.remove(at),
            None => {
                let from = before.map(|line| line / 32);
                let mut regions = self.regions.iter();
                let comes = regions.find(|region| Some(region.0) == from);
                (
                    number,
                    Vec::new(),
                    comes.is_some_and(|region| dense(&region.1)),
                )
            }
        };
        region.1.push(line);
        let steps = region.1.windows(2).map(|pair| (pair[1] - pair[0]).signum());
        let direction = if steps.sum::<i64>() >= 0 { 1 } else { -1 };
        let streams = dense(&region.1) || region.2;
        self.regions.push(region);
        if self.regions.len() > 8 {
            self.regions.remove(0);
        }
        streams.then_some(direction)
    }

    fn loaded(&mut self, instruction: u32, line: i64) -> Vec<i64> {
        let mut next = Vec::new();
        let place = instruction % self.keys.instructions;
        let owner = self.owners.get(&place).copied();
        let owns = owner.is_some_and(|owner| owner.0 == instruction);
        let before = self.lines.get(&instruction).filter(|_| owns);
        let before = before.and_then(|lines| lines.last().copied());
        let direction = self.direction(line, before);
        if !owns {
            match owner {
                Some((other, false)) => {
                    self.owners.insert(place, (other, true));
                }
                _ => {
                    self.owners.insert(place, (instruction, false));
                    self.lines.insert(instruction, vec![line]);
                    self.constant.remove(&instruction);
                }
            }
            return next;
        }
        self.owners.insert(place, (instruction, false));
        let lines = self.lines.entry(instruction).or_default();
        if lines.last() == Some(&line) {
            return next;
        }
        lines.push(line);
        let mut strides: Vec<i64> = lines.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (&stride, earlier) = strides.split_last().unwrap();
        let constant = self.constant.entry(instruction).or_default();
        learn(constant, stride);
        let constant = *constant;
        learn(self.complex.entry(signature(earlier)).or_default(), stride);
        if let Some(step) = direction {
            for ahead in 1..=i64::from(self.keys.stream) {
                self.fetch(line, line + ahead * step, &mut next);
            }
        } else if constant.1 > 1 {
            for ahead in 1..=i64::from(self.keys.strides) {
                self.fetch(line, line + ahead * constant.0, &mut next);
            }
        } else {
            let mut target = line;
            for _ in 0..self.keys.strides {
                let guess = self.complex.get(&signature(&strides)).copied();
                let Some((stride, held)) = guess.filter(|guess| guess.0 != 0) else {
                    break;
                };
                target += stride;
                if held > 0 {
                    self.fetch(line, target, &mut next);
                }
                strides.push(stride);
            }
        }
        next
    }
}

/// Instructions with constant and repeated strides, streams of several, and loads at random.
fn loads() -> impl Strategy<Value = Vec<(u32, i64)>> {
    let strides = proptest::collection::vec(-9i64..10, 1..4);
    let repeated = (0u32..12, 2000i64..9000, strides, 1usize..60);
    let repeated = repeated.prop_map(|(instruction, first, strides, count)| {
        let steps = strides.iter().cycle().take(count);
        let lines = steps.scan(first, |line, stride| {
            *line += stride;
            Some(*line)
        });
        lines.map(|line| (instruction, line)).collect::<Vec<_>>()
    });
    let stream = (2000i64..9000, any::<bool>(), 10i64..120, 1i64..4);
    let stream = stream.prop_map(|(first, up, count, apart)| {
        let step = if up { 1 } else { -1 };
        // Pairs of lines in the other order, by several instructions.
        let line = |number: i64| first + step * (number ^ 1);
        (0..count)
            .map(|number| ((number % apart) as u32, line(number)))
            .collect::<Vec<_>>()
    });
    let random = proptest::collection::vec((0u32..12, 2000i64..9000), 1..20);
    let part = prop_oneof![3 => repeated, 2 => stream, 1 => random];
    proptest::collection::vec(part, 1..12).prop_map(|parts| parts.concat())
}

fn with(keys: IpcpKeys) -> PrefetchConfig {
    PrefetchConfig {
        ipcp: Some(keys),
        ..PrefetchConfig::NONE
    }
}

proptest! {
    #[test]
    fn ipcp_equals_the_whole_history(
        loads in loads(),
        instructions in prop_oneof![Just(4u32), Just(64)],
        stream in 1u32..9,
        strides in 1u32..9,
    ) {
        let keys = IpcpKeys { instructions, stream, strides };
        let mut twin = Twin { keys, ..Twin::default() };
        let expected: Vec<_> = loads.iter().map(|&(of, line)| twin.loaded(of, line)).collect();
        prop_assert_eq!(fetched(&with(keys), &loads), expected);
    }
}

/// Share of the loads, but the first of each page, whose line was fetched before.
fn covered(loads: &[(u32, i64)]) -> f64 {
    let fetched = fetched(&with(IpcpKeys::default()), loads);
    let mut there = Vec::new();
    let (mut all, mut had) = (0, 0);
    let mut last = 0;
    for ((_, line), fetched) in loads.iter().zip(fetched) {
        if line / 64 == last / 64 {
            all += 1;
            had += usize::from(there.contains(line));
        }
        last = *line;
        there.extend(fetched);
    }
    had as f64 / all as f64
}

/// The classes of the paper: a constant stride, strides that repeat (section 3 has 3, 3, 4), and a
/// dense stream that several instructions take turns in.
#[test]
fn each_class_has_its_pattern() {
    let constant: Vec<_> = (0..600).map(|number| (7, 4096 + 3 * number)).collect();
    let complex = |number: i64| 4096 + 10 * (number / 3) + 3 * (number % 3);
    let complex: Vec<_> = (0..600).map(|number| (7, complex(number))).collect();
    let of_several = |number: i64| (100 + (number * 7 % 5) as u32, 4096 + (number ^ 1));
    let stream: Vec<_> = (0..600).map(of_several).collect();
    for (loads, share) in [(&constant, 0.9), (&complex, 0.7), (&stream, 0.8)] {
        assert!(
            covered(loads) > share,
            "{} of {:?}",
            covered(loads),
            &loads[..5]
        );
    }
    let random = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
    let random: Vec<_> = (0..600).map(|number| (7, random(number) as i64)).collect();
    let all: usize = fetched(&with(IpcpKeys::default()), &random)
        .iter()
        .map(Vec::len)
        .sum();
    assert!(all < 60, "{all}");
}

#[test]
fn the_next_lines_are_those_of_the_page() {
    let config = PrefetchConfig {
        next_line: Some(NextLineKeys { lines: 2 }),
        ..PrefetchConfig::NONE
    };
    let mut prefetchers = Prefetchers::new(&config).unwrap();
    for (line, expected) in [(64, vec![65, 66]), (126, vec![127]), (127, vec![])] {
        let mut fetched = Vec::new();
        prefetchers.asked(line, |_| None, |line| fetched.push(line));
        assert_eq!(fetched, expected);
    }
}

#[test]
fn keys_have_bounds() {
    let next_line = |lines| PrefetchConfig {
        next_line: Some(NextLineKeys { lines }),
        ..PrefetchConfig::NONE
    };
    let ipcp = |instructions, stream, strides| {
        with(IpcpKeys {
            instructions,
            stream,
            strides,
        })
    };
    for good in [
        next_line(1),
        next_line(8),
        ipcp(1, 1, 1),
        ipcp(1 << 16, 8, 8),
    ] {
        assert!(Prefetchers::new(&good).is_ok(), "{good:?}");
    }
    for bad in [
        next_line(0),
        next_line(9),
        ipcp(0, 6, 3),
        ipcp(64, 0, 3),
        ipcp(64, 6, 9),
    ] {
        assert!(Prefetchers::new(&bad).is_err(), "{bad:?}");
    }
}
