//! The columns of a chunk's accesses, turned into streams of small numbers that compress well.
//!
//! docs/trace-format.md is the definition. In short: each distinct (operation, gap, dependence)
//! of a chunk has a number, its *code*; the last three codes hashed stand for the instruction
//! that makes the access; each such instruction remembers where it went last and how far it
//! moved; what is stored is the code and how wrong the memory was.

use super::varint::{self, unzigzag, zigzag};
use crate::{Batch, Op};

/// The largest number of accesses in a chunk: a code fits 16 bits.
pub const MAX_ACCESSES: usize = 1 << 16;
/// How many accesses back a dependence may be said to be shared.
const WINDOW: usize = 256;
/// Pseudo instructions that are told apart.
const SITES: usize = 4096;

/// Bytes of residual for each class, without the predictor's bit.
const LENGTHS: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 8];

/// What is remembered of a pseudo instruction.
#[derive(Clone, Copy, Default)]
struct Site {
    /// Its last address.
    addr: u64,
    /// How far its last address was from its base.
    step: u64,
}

fn site(codes: [u16; 3]) -> usize {
    let [new, mid, old] = codes.map(u32::from);
    let hash = new
        .wrapping_mul(0x9e37_79b1)
        .wrapping_add(mid.wrapping_mul(0x85eb_ca77))
        .wrapping_add(old.wrapping_mul(0xc2b2_ae3d));
    (hash >> 20) as usize
}

/// The streams of the accesses of one chunk.
#[derive(Default)]
pub struct Streams {
    /// The distinct triples in the order of their codes, as varints.
    pub dictionary: Vec<u8>,
    /// Low bytes of the codes.
    pub codes_low: Vec<u8>,
    /// High bytes of the codes.
    pub codes_high: Vec<u8>,
    /// Two classes a byte, the first in the low half.
    pub classes: Vec<u8>,
    /// The residuals' bytes.
    pub residuals: Vec<u8>,
}

/// A distinct (operation, gap, dependence).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Triple {
    op: u16,
    /// How many accesses back another one depends on the same load; 0 for none.
    sibling: u16,
    gap: u32,
    /// The dependence itself, when there is no sibling.
    dep: u32,
}

impl Triple {
    fn hash(self) -> u64 {
        let low = u64::from(self.gap) << 32 | u64::from(self.dep);
        let high = u64::from(self.op) << 16 | u64::from(self.sibling);
        (low.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ high).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }
}

const SLOTS: usize = 4 * MAX_ACCESSES;

/// Numbers the distinct triples of a chunk: an open-addressed table that forgets everything by
/// counting its generation up.
struct Dictionary {
    /// Generation in the high half, code in the low; 0 is never a generation in use.
    slots: Vec<u32>,
    generation: u16,
    triples: Vec<Triple>,
}

impl Dictionary {
    fn new() -> Dictionary {
        Dictionary {
            slots: vec![0; SLOTS],
            generation: 1,
            triples: Vec::with_capacity(MAX_ACCESSES),
        }
    }

    #[inline]
    fn code(&mut self, triple: Triple) -> u16 {
        let mut slot = (triple.hash() >> 46) as usize;
        loop {
            let found = self.slots[slot % SLOTS];
            if (found >> 16) as u16 != self.generation {
                let code = self.triples.len() as u16;
                self.slots[slot % SLOTS] = u32::from(self.generation) << 16 | u32::from(code);
                self.triples.push(triple);
                return code;
            }
            if self.triples[usize::from(found as u16)] == triple {
                return found as u16;
            }
            slot += 1;
        }
    }

    fn clear(&mut self) {
        self.triples.clear();
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.slots.fill(0);
            self.generation = 1;
        }
    }
}

/// Encodes the accesses of one chunk after the other.
pub struct Encoder {
    dictionary: Dictionary,
    codes: Vec<u16>,
    classes: Vec<u8>,
    residuals: Vec<u8>,
    sites: Box<[Site; SITES]>,
    /// The last addresses.
    recent: [u64; WINDOW],
    /// By producing load (its place in the chunk): the last access that depends on it.
    dependants: [(u32, u32); WINDOW],
    last: [u16; 2],
}

impl Encoder {
    pub fn new() -> Encoder {
        Encoder {
            dictionary: Dictionary::new(),
            codes: Vec::with_capacity(MAX_ACCESSES),
            classes: Vec::with_capacity(MAX_ACCESSES),
            residuals: Vec::with_capacity(MAX_ACCESSES * 8),
            sites: Box::new([Site::default(); SITES]),
            recent: [0; WINDOW],
            dependants: [(0, 0); WINDOW],
            last: [0; 2],
        }
    }

    /// Accesses so far in this chunk.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Appends accesses `range` of the batch; no more than [`MAX_ACCESSES`] in all.
    pub fn push(&mut self, batch: &Batch, range: std::ops::Range<usize>) {
        let addrs = &batch.addr[range.clone()];
        let ops = &batch.op[range.clone()];
        let gaps = &batch.gap[range.clone()];
        let deps = &batch.dep[range];
        for (((&addr, &op), &gap), &dep) in addrs.iter().zip(ops).zip(gaps).zip(deps) {
            self.push_one(addr, op, gap, dep);
        }
    }

    #[inline]
    fn push_one(&mut self, addr: u64, op: Op, gap: u32, dep: u32) {
        let index = self.codes.len() as u32;
        let mut sibling = 0;
        if dep != 0 {
            let producer = index.wrapping_sub(dep);
            let seen = &mut self.dependants[producer as usize % WINDOW];
            let distance = index.wrapping_sub(seen.1);
            if seen.0 == producer && distance != 0 && distance < WINDOW as u32 && distance < dep {
                sibling = distance as u16;
            }
            *seen = (producer, index);
        }
        let code = self.dictionary.code(Triple {
            op: op.0,
            sibling,
            gap,
            dep: if sibling == 0 { dep } else { 0 },
        });
        self.codes.push(code);
        let site = &mut self.sites[site([code, self.last[0], self.last[1]])];
        self.last = [code, self.last[0]];
        let base = if sibling == 0 {
            site.addr
        } else {
            self.recent[(index as usize).wrapping_sub(usize::from(sibling)) % WINDOW]
        };
        self.recent[index as usize % WINDOW] = addr;
        let step = addr.wrapping_sub(base);
        let plain = zigzag(step as i64);
        let moved = zigzag(step.wrapping_sub(site.step) as i64);
        *site = Site { addr, step };
        let (residual, predictor) = if moved < plain {
            (moved, 8)
        } else {
            (plain, 0)
        };
        let class = class_of(residual);
        self.classes.push(class | predictor);
        self.residuals.extend_from_slice(&residual.to_le_bytes());
        let excess = 8 - usize::from(LENGTHS[usize::from(class)]);
        self.residuals.truncate(self.residuals.len() - excess);
    }

    /// Ends the chunk: moves its streams to `streams` and starts the next.
    pub fn finish(&mut self, streams: &mut Streams) {
        streams.dictionary.clear();
        for triple in &self.dictionary.triples {
            varint::put(&mut streams.dictionary, u64::from(triple.op));
            varint::put(&mut streams.dictionary, u64::from(triple.gap));
            let dependence = match triple.sibling {
                0 => u64::from(triple.dep) << 1,
                sibling => u64::from(sibling) << 1 | 1,
            };
            varint::put(&mut streams.dictionary, dependence);
        }
        streams.codes_low.clear();
        streams
            .codes_low
            .extend(self.codes.iter().map(|&code| code as u8));
        streams.codes_high.clear();
        streams
            .codes_high
            .extend(self.codes.iter().map(|&code| (code >> 8) as u8));
        streams.classes.clear();
        streams
            .classes
            .extend(self.classes.chunks(2).map(|pair| match *pair {
                [first, second] => first | second << 4,
                [first] => first,
                _ => 0,
            }));
        std::mem::swap(&mut streams.residuals, &mut self.residuals);
        self.residuals.clear();
        self.dictionary.clear();
        self.codes.clear();
        self.classes.clear();
        self.sites.fill(Site::default());
        self.recent.fill(0);
        self.dependants.fill((0, 0));
        self.last = [0; 2];
    }
}

fn class_of(residual: u64) -> u8 {
    const CLASSES: [u8; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 7];
    CLASSES[(64 - residual.leading_zeros() as usize).div_ceil(8)]
}

/// Decodes the accesses of one chunk after the other.
pub struct Decoder {
    triples: Vec<Triple>,
    sites: Box<[Site; SITES]>,
    recent_addr: [u64; WINDOW],
    recent_dep: [u32; WINDOW],
    last: [u16; 2],
    index: usize,
    residual_at: usize,
    residual_len: usize,
}

/// Bytes appended to the residuals, so that the last ones can be read eight at a time.
const PADDING: usize = 8;

impl Decoder {
    pub fn new() -> Decoder {
        Decoder {
            triples: Vec::new(),
            sites: Box::new([Site::default(); SITES]),
            recent_addr: [0; WINDOW],
            recent_dep: [0; WINDOW],
            last: [0; 2],
            index: 0,
            residual_at: 0,
            residual_len: 0,
        }
    }

    /// Starts a chunk of `accesses`.
    ///
    /// # Errors
    /// What is wrong with the streams, as far as can be seen at once.
    pub fn start(&mut self, streams: &mut Streams, accesses: usize) -> Result<(), &'static str> {
        if streams.codes_low.len() != accesses
            || streams.codes_high.len() != accesses
            || streams.classes.len() != accesses.div_ceil(2)
        {
            return Err("the streams do not hold as many accesses as the header says");
        }
        let mut input = streams.dictionary.as_slice();
        self.triples.clear();
        while !input.is_empty() {
            let triple = take_triple(&mut input).ok_or("the dictionary is damaged")?;
            self.triples.push(triple);
        }
        let codes = streams.codes_low.iter().zip(&streams.codes_high);
        let most = codes
            .map(|(&low, &high)| u16::from_le_bytes([low, high]))
            .max();
        if most.is_some_and(|most| usize::from(most) >= self.triples.len()) {
            return Err("a code is not in the dictionary");
        }
        self.residual_len = streams.residuals.len();
        streams.residuals.resize(self.residual_len + PADDING, 0);
        self.sites.fill(Site::default());
        self.recent_addr.fill(0);
        self.recent_dep.fill(0);
        self.last = [0; 2];
        self.index = 0;
        self.residual_at = 0;
        Ok(())
    }

    /// Appends the next `count` accesses of the chunk to the batch.
    ///
    /// # Errors
    /// What is wrong with the streams.
    pub fn decode(
        &mut self,
        streams: &Streams,
        count: usize,
        batch: &mut Batch,
    ) -> Result<(), &'static str> {
        for _ in 0..count {
            let index = self.index;
            let code = u16::from_le_bytes([streams.codes_low[index], streams.codes_high[index]]);
            let triple = self.triples[usize::from(code)];
            let class = streams.classes[index / 2] >> (index % 2 * 4);
            let sibling = usize::from(triple.sibling);
            let earlier = index.wrapping_sub(sibling) % WINDOW;
            let site = &mut self.sites[site([code, self.last[0], self.last[1]])];
            let (base, dep) = if sibling == 0 {
                (site.addr, triple.dep)
            } else {
                (
                    self.recent_addr[earlier],
                    self.recent_dep[earlier].wrapping_add(sibling as u32),
                )
            };
            let len = usize::from(LENGTHS[usize::from(class % 8)]);
            let bytes = streams
                .residuals
                .get(self.residual_at..self.residual_at + 8)
                .ok_or("the residuals end early")?;
            let bytes = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            let residual = if len == 0 {
                0
            } else {
                bytes & (u64::MAX >> (64 - 8 * len))
            };
            self.residual_at += len;
            let mut step = unzigzag(residual) as u64;
            if class & 8 != 0 {
                step = step.wrapping_add(site.step);
            }
            let addr = base.wrapping_add(step);
            *site = Site { addr, step };
            self.recent_addr[index % WINDOW] = addr;
            self.recent_dep[index % WINDOW] = dep;
            self.last = [code, self.last[0]];
            self.index += 1;
            batch.addr.push(addr);
            batch.op.push(Op(triple.op));
            batch.gap.push(triple.gap);
            batch.dep.push(dep);
        }
        let all = self.index == streams.codes_low.len();
        if self.residual_at > self.residual_len || all && self.residual_at != self.residual_len {
            return Err("the residuals are not as long as their classes say");
        }
        Ok(())
    }
}

fn take_triple(input: &mut &[u8]) -> Option<Triple> {
    let op = varint::take(input)?.try_into().ok()?;
    let gap = varint::take(input)?.try_into().ok()?;
    let dependence = varint::take(input)?;
    let mut triple = Triple {
        op,
        gap,
        ..Triple::default()
    };
    if dependence & 1 == 0 {
        triple.dep = (dependence >> 1).try_into().ok()?;
    } else {
        triple.sibling = (dependence >> 1).try_into().ok()?;
        if triple.sibling == 0 || usize::from(triple.sibling) >= WINDOW {
            return None;
        }
    }
    Some(triple)
}
