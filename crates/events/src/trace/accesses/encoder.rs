use super::shapes::{Numbering, Shape};
use super::{
    FROM_BASE, History, MAX_ACCESSES, SITES, STEP_FROM_BASE, STEP_FROM_PREVIOUS, Streams, WINDOW,
    boxed, residual_bytes,
};
use crate::trace::varint::zigzag;
use crate::{Batch, Op};
use std::ops::Range;

/// What is remembered of a site.
#[derive(Clone, Copy, Default)]
struct Site {
    /// Its last address.
    addr: u64,
    /// How far that was from its base, and from the access before: low 32 bits.
    moves: [i32; 2],
}

/// Encodes the accesses of one chunk after the other.
pub struct Encoder {
    numbering: Numbering,
    codes: Vec<u16>,
    classes: Vec<u8>,
    residuals: Vec<u8>,
    history: History,
    sites: Box<[Site; SITES]>,
    previous: u64,
    /// The last addresses, by place in the chunk.
    recent: [u64; WINDOW],
    /// By the producing load's place in the chunk: that place, and the last access that depends
    /// on it.
    dependants: [(u32, u32); WINDOW],
}

impl Encoder {
    pub fn new() -> Encoder {
        Encoder {
            numbering: Numbering::new(),
            codes: Vec::with_capacity(MAX_ACCESSES),
            classes: Vec::with_capacity(MAX_ACCESSES),
            residuals: Vec::with_capacity(MAX_ACCESSES * 8),
            history: History::default(),
            sites: boxed(),
            previous: 0,
            recent: [0; WINDOW],
            dependants: [(0, 0); WINDOW],
        }
    }

    /// Accesses so far in this chunk.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Appends some accesses of the batch; no more than [`MAX_ACCESSES`] in all.
    pub fn push(&mut self, batch: &Batch, range: Range<usize>) {
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
        let index = self.codes.len();
        let sibling = self.sibling(index as u32, dep);
        let code = self.numbering.code(Shape {
            op: op.0,
            sibling,
            gap,
            dep: if sibling == 0 { dep } else { 0 },
        });
        self.codes.push(code);
        self.history.push(code);
        let site = &mut self.sites[usize::from(self.history.site())];
        let base = match sibling {
            0 => site.addr,
            _ => self.recent[index.wrapping_sub(usize::from(sibling)) % WINDOW],
        };
        let [step, offset] = site.moves.map(|moved| moved as u64);
        let from_base = addr.wrapping_sub(base);
        let from_previous = addr.wrapping_sub(self.previous);
        site.addr = addr;
        site.moves = [from_base as i32, from_previous as i32];
        self.recent[index % WINDOW] = addr;
        self.previous = addr;

        let mut residual = zigzag(from_base as i64);
        let mut predictor = FROM_BASE;
        for (other, number) in [
            (from_base.wrapping_sub(step), STEP_FROM_BASE),
            (from_previous.wrapping_sub(offset), STEP_FROM_PREVIOUS),
        ] {
            let other = zigzag(other as i64);
            if other < residual {
                residual = other;
                predictor = number;
            }
        }
        let length = (64 - residual.leading_zeros()).div_ceil(8).min(7) as u8;
        let class = predictor * 8 + length;
        self.classes.push(class);
        self.residuals.extend_from_slice(&residual.to_le_bytes());
        let excess = 8 - residual_bytes(class);
        self.residuals.truncate(self.residuals.len() - excess);
    }

    /// The distance to the last access that depends on the same load; 0 when there is none near.
    /// An address that is one of many from the same pointer is as far from its sibling each
    /// time round a loop, while it is ever farther from the load.
    #[inline]
    fn sibling(&mut self, index: u32, dep: u32) -> u8 {
        if dep == 0 {
            return 0;
        }
        let producer = index.wrapping_sub(dep);
        let seen = &mut self.dependants[producer as usize % WINDOW];
        let (same, distance) = (seen.0 == producer, index - seen.1);
        *seen = (producer, index);
        if same && (1..WINDOW as u32).contains(&distance) && distance < dep {
            distance as u8
        } else {
            0
        }
    }

    /// Ends the chunk: moves its streams to `streams` and starts the next.
    pub fn finish(&mut self, streams: &mut Streams) {
        streams.shapes.clear();
        for shape in self.numbering.shapes() {
            shape.put(&mut streams.shapes);
        }
        let halves = self.codes.iter().map(|code| code.to_le_bytes());
        streams.codes_low.clear();
        streams.codes_low.extend(halves.clone().map(|half| half[0]));
        streams.codes_high.clear();
        streams.codes_high.extend(halves.map(|half| half[1]));
        std::mem::swap(&mut streams.classes, &mut self.classes);
        std::mem::swap(&mut streams.residuals, &mut self.residuals);

        self.numbering.clear();
        self.codes.clear();
        self.classes.clear();
        self.residuals.clear();
        self.history = History::default();
        self.sites.fill(Site::default());
        self.previous = 0;
        self.recent.fill(0);
        self.dependants.fill((0, 0));
    }
}
