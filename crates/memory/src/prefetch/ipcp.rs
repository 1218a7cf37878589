use super::prefetcher::{Load, Prefetcher};
use crate::GeometryError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Prefetcher by classes of instructions (IPCP: Pakalapati and Panda, ISCA 2020), as it is in front of
/// the first level: streams of all instructions before constant strides before complex ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IpcpKeys {
    /// Instructions that are followed.
    pub instructions: u32,
    /// Number of lines fetched at a load of a stream.
    pub stream: u32,
    /// Number of strides fetched at other loads.
    pub strides: u32,
}

impl Default for IpcpKeys {
    fn default() -> Self {
        // Section 5 of the paper.
        IpcpKeys {
            instructions: 64,
            stream: 6,
            strides: 3,
        }
    }
}

const LINE_SHIFT: u32 = 6;
const PAGE_SHIFT: u32 = 12;
/// Lines of a region, and how many of them make it a dense one.
const REGION: i64 = 32;
const DENSE: u32 = 24;
/// Regions, and lines fetched last, that are remembered.
const REGIONS: usize = 8;
const RECENT: usize = 32;
/// Signatures have seven bits.
const SIGNATURES: usize = 128;
const SURE: u8 = 3;

/// State of IPCP.
#[derive(Clone, Debug)]
pub(super) struct Ipcp {
    keys: IpcpKeys,
    /// By instruction, directly mapped.
    instructions: Box<[Instruction]>,
    /// By signature: the stride that came after it.
    complex: [Guess; SIGNATURES],
    /// The most recently used first.
    regions: VecDeque<Region>,
    /// Lines fetched last.
    recent: VecDeque<i64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Instruction {
    /// The instruction's number and 1; 0 where there is none.
    number: u64,
    /// No other instruction has asked for the place since.
    stays: bool,
    last: i64,
    guess: Guess,
    signature: usize,
}

/// A stride, and how often it was right of late.
#[derive(Clone, Copy, Debug, Default)]
struct Guess {
    stride: i64,
    confidence: u8,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    number: i64,
    /// A bit a line that was loaded.
    lines: u32,
    last: i64,
    /// Steps up, less steps down.
    direction: i32,
    /// An instruction came here from a dense region.
    tentative: bool,
}

impl Guess {
    fn learn(&mut self, stride: i64) {
        if self.stride == stride {
            self.confidence = SURE.min(self.confidence + 1);
        } else {
            self.confidence = self.confidence.saturating_sub(1);
        }
        if self.confidence == 0 {
            self.stride = stride;
        }
    }
}

impl Region {
    fn is_dense(&self) -> bool {
        self.lines.count_ones() >= DENSE
    }
}

/// A stride in seven bits, with its sign, on a shifted signature.
fn signed(signature: usize, stride: i64) -> usize {
    let bits = stride.unsigned_abs() as usize & 63 | usize::from(stride < 0) << 6;
    (signature << 1 ^ bits) & (SIGNATURES - 1)
}

impl Prefetcher for Ipcp {
    type Keys = IpcpKeys;

    const SEES_LOADS: bool = true;
    const MOST: usize = 8;

    fn new(keys: &IpcpKeys) -> Result<Self, GeometryError> {
        let lines = 1..=Self::MOST as u32;
        let possible = (1..=1 << 16).contains(&keys.instructions);
        if !possible || !lines.contains(&keys.stream) || !lines.contains(&keys.strides) {
            return Err(GeometryError::Prefetcher(
                "ipcp: instructions are 1 to 65536, stream and strides 1 to 8",
            ));
        }
        Ok(Ipcp {
            keys: *keys,
            instructions: vec![Instruction::default(); keys.instructions as usize].into(),
            complex: [Guess::default(); SIGNATURES],
            regions: VecDeque::with_capacity(REGIONS + 1),
            recent: VecDeque::with_capacity(RECENT + 1),
        })
    }

    fn loaded(&mut self, load: Load, next: &mut Vec<u64>) {
        let line = (load.address >> LINE_SHIFT) as i64;
        let number = u64::from(load.instruction) + 1;
        let place = load.instruction as usize % self.instructions.len();
        let known = self.instructions[place].number == number;
        let from = known.then(|| self.instructions[place].last / REGION);
        let stream = self.stream(line, from);
        let instruction = &mut self.instructions[place];
        if !known {
            if instruction.stays {
                instruction.stays = false;
            } else {
                *instruction = Instruction {
                    number,
                    stays: true,
                    last: line,
                    ..Instruction::default()
                };
            }
            return;
        }
        instruction.stays = true;
        let stride = line - instruction.last;
        if stride == 0 {
            return;
        }
        instruction.last = line;
        instruction.guess.learn(stride);
        self.complex[instruction.signature].learn(stride);
        instruction.signature = signed(instruction.signature, stride);
        let Instruction {
            guess, signature, ..
        } = *instruction;
        match stream {
            Some(step) => self.fetch_strides(line, step, self.keys.stream, next),
            None if guess.confidence > 1 => {
                self.fetch_strides(line, guess.stride, self.keys.strides, next);
            }
            None => self.fetch_complex(line, signature, next),
        }
    }
}

impl Ipcp {
    /// Notes a line of a region; the direction of its stream, if it is dense or may become so.
    fn stream(&mut self, line: i64, from: Option<i64>) -> Option<i64> {
        let number = line / REGION;
        let of = |number: i64| move |region: &Region| region.number == number;
        let known = self.regions.iter().position(of(number));
        let mut region = match known.and_then(|at| self.regions.remove(at)) {
            Some(region) => region,
            None => Region {
                number,
                lines: 0,
                last: line,
                direction: 0,
                tentative: self
                    .regions
                    .iter()
                    .any(|region| Some(region.number) == from && region.is_dense()),
            },
        };
        region.lines |= 1 << (line % REGION);
        region.direction += (line - region.last).signum() as i32;
        region.last = line;
        self.regions.push_front(region);
        self.regions.truncate(REGIONS);
        let up = if region.direction >= 0 { 1 } else { -1 };
        (region.is_dense() || region.tentative).then_some(up)
    }

    fn fetch_strides(&mut self, line: i64, stride: i64, count: u32, next: &mut Vec<u64>) {
        for number in 1..=i64::from(count) {
            self.fetch(line, line + number * stride, next);
        }
    }

    /// Follows the strides that came after signatures.
    fn fetch_complex(&mut self, line: i64, mut signature: usize, next: &mut Vec<u64>) {
        let mut target = line;
        for _ in 0..self.keys.strides {
            let Guess { stride, confidence } = self.complex[signature];
            target += stride;
            if stride == 0 {
                return;
            }
            if confidence > 0 {
                self.fetch(line, target, next);
            }
            signature = signed(signature, stride);
        }
    }

    /// Fetches a line in the page of another, unless it was fetched lately.
    fn fetch(&mut self, line: i64, target: i64, next: &mut Vec<u64>) {
        let page = PAGE_SHIFT - LINE_SHIFT;
        if target >> page != line >> page || self.recent.contains(&target) {
            return;
        }
        self.recent.push_front(target);
        self.recent.truncate(RECENT);
        next.push((target as u64) << LINE_SHIFT);
    }
}
