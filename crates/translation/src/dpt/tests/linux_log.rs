//! The frames that Linux's DPT chose in a guest (`linux.log`, what `dpt.log` remembers of it): shown
//! what Linux saw, the search here looks at the same frames in the same order and takes the same one.
//!
//! A line is a search: tag, seed, frames, `max_soa_step`, `cpd`, `fap`, `prefer_fragmentation`, the metadata
//! chosen (not valid: no place), then its steps (docs/dpt-linux.md). The guests had 768 MB, most of it
//! in use, with pages given back here and there.

use super::super::{config::Prefer, metadata::Metadata, placement};
use super::*;
use crate::{Displaced, Work};
use std::cell::{Cell, RefCell};

const LOG: &str = include_str!("linux.log");

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Look { usage: FrameUse, fragmented: bool },
    Break { done: bool },
    Displace { done: bool },
}

/// Memory of which nothing is known but what the steps of a search say.
struct Replayed {
    count: u32,
    /// The frame that each step is about, the next one last.
    steps: RefCell<Vec<(Pfn, Step)>>,
    /// State of the block of the frame that was looked at last.
    fragmented: Cell<bool>,
}

impl Replayed {
    fn next(&self, pfn: Pfn) -> Step {
        let (frame, step) = self.steps.borrow_mut().pop().expect("Linux ended earlier");
        assert_eq!(frame, pfn, "{step:?}");
        step
    }
}

impl Frames for Replayed {
    fn count(&self) -> u32 {
        self.count
    }

    fn usage(&self, pfn: Pfn) -> FrameUse {
        let Step::Look { usage, fragmented } = self.next(pfn) else {
            panic!("Linux did not look at {pfn:?}");
        };
        self.fragmented.set(fragmented);
        usage
    }

    fn in_fragmented_block(&self, _: Pfn) -> bool {
        self.fragmented.get()
    }

    fn allocate_table(&mut self, _: u32) -> Option<Pfn> {
        unreachable!("a search takes one frame")
    }

    fn claim_table(&mut self, pfn: Pfn) -> bool {
        let Step::Break { done } = self.next(pfn) else {
            panic!("Linux broke no block at {pfn:?}");
        };
        done
    }

    fn displace(&mut self, pfn: Pfn) -> Option<Displaced> {
        let Step::Displace { done } = self.next(pfn) else {
            panic!("Linux displaced nothing at {pfn:?}");
        };
        done.then(|| Displaced {
            owners: Vec::new(),
            size: PageSize::Base4K,
            from: pfn,
            to: pfn,
        })
    }

    fn free_table(&mut self, _: Pfn, _: u32) {
        unreachable!("a search gives nothing back")
    }
}

fn metadata(text: &str) -> Metadata {
    let code = u8::from_str_radix(text, 16).unwrap();
    let stride = match code & 3 {
        3 => return Metadata::INVALID,
        level => PageSize::ALL[usize::from(level)],
    };
    Metadata::new(stride, u32::from(code >> 2))
}

fn step(text: &str) -> (Metadata, Step) {
    let (kind, rest) = text.split_at(1);
    let (place, facts) = rest.split_at(2);
    let facts = facts.as_bytes();
    let done = facts[0] == b'+';
    let step = match kind {
        "b" => Step::Break { done },
        "d" => Step::Displace { done },
        _ => {
            let size = PageSize::ALL[usize::from(facts[1] - b'0')];
            let usage = match facts[0] {
                b'F' => FrameUse::Free,
                b'M' => FrameUse::Movable(size),
                b'T' => FrameUse::PageTable,
                _ => FrameUse::Unmovable(size),
            };
            let fragmented = facts[2] == b'1';
            Step::Look { usage, fragmented }
        }
    };
    (metadata(place), step)
}

#[test]
fn the_frames_that_linux_chose_are_chosen() {
    let mut kinds = [0; 3];
    for line in LOG.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hex = |at: usize| u64::from_str_radix(words[at], 16).unwrap();
        let (hashed, count) = ((hex(0), hex(1)), words[2].parse().unwrap());
        let config = DptConfig {
            max_soa_step: words[3].parse().unwrap(),
            cpd: words[4] == "1",
            fap: words[5] == "1",
            prefer: match words[6] {
                "1" => Prefer::Fragmentation,
                _ => Prefer::Performance,
            },
            ..DptConfig::default()
        };
        let base = placement::base_frame(hashed.0, hashed.1, count);
        let mut steps: Vec<(Pfn, Step)> = words[8..]
            .iter()
            .map(|text| {
                let (metadata, step) = step(text);
                (Pfn(metadata.frame(base, count).unwrap()), step)
            })
            .collect();
        steps.reverse();
        let mut frames = Replayed {
            count,
            steps: RefCell::new(steps),
            fragmented: Cell::new(false),
        };
        let (mut counters, mut work) = (DptCounters::default(), Work::default());
        let found = placement::search(&config, &frames, hashed, &mut counters, &mut work);
        let chosen = match found {
            Ok(reachable) => {
                kinds[0] += 1;
                reachable.metadata
            }
            Err(candidates) => {
                let frames = &mut frames;
                let (counters, work) = (&mut counters, &mut work);
                let taken = placement::take_victim(&config, frames, &candidates, counters, work);
                kinds[if work.displaced.is_empty() { 1 } else { 2 }] += 1;
                taken.map_or(Metadata::INVALID, |reachable| reachable.metadata)
            }
        };
        assert_eq!(chosen, metadata(words[7]), "{line}");
        assert!(frames.steps.borrow().is_empty(), "Linux went on: {line}");
    }
    // As the hash or open addressing found them, in whole blocks, and from data.
    assert!(kinds.iter().all(|&count| count > 20), "{kinds:?}");
}
