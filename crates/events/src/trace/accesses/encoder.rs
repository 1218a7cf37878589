use super::shapes::{Numbering, Shape};
use super::{
    CODE_SITES, FROM_BASE, FromCode, History, MAX_ACCESSES, SITES, STEP_FROM_BASE,
    STEP_FROM_PREVIOUS, Streams, WINDOW, boxed, residual_bytes,
};
use crate::Batch;
use crate::trace::varint::zigzag;
use std::hint::select_unpredictable;
use std::ops::Range;

/// Encodes the accesses of one chunk after the other.
pub struct Encoder {
    numbering: Numbering,
    /// Where a shape is looked for first: by site with code, else by the code before.
    guesses: Box<[u16; CODE_SITES]>,
    codes: Vec<u16>,
    classes: Vec<u8>,
    residuals: Box<[u8; MAX_ACCESSES * 8 + 8]>,
    residual_bytes: usize,
    history: History,
    /// The last address of each site, then the last addresses by place in the chunk: whichever
    /// of them is an access's base is found by one index.
    bases: Box<[u64; CODE_SITES + WINDOW]>,
    /// By site: the last move from its base, and from the access before. Low 32 bits.
    moves: Box<[[i32; 2]; CODE_SITES]>,
    previous: u64,
    /// One more than the highest site that the chunk may have used.
    highest_site: usize,
    /// By the producing load's place in the chunk: that place, and the last access that depends
    /// on it.
    dependants: [(u32, u32); WINDOW],
    /// Of the accesses being encoded: the site, and the index of the base.
    places: Vec<(u16, u16)>,
}

impl Encoder {
    pub fn new() -> Encoder {
        Encoder {
            numbering: Numbering::new(),
            guesses: boxed(),
            codes: Vec::with_capacity(MAX_ACCESSES),
            classes: Vec::with_capacity(MAX_ACCESSES),
            residuals: boxed(),
            residual_bytes: 0,
            history: History::default(),
            bases: boxed(),
            moves: boxed(),
            previous: 0,
            highest_site: SITES,
            dependants: [(0, 0); WINDOW],
            places: Vec::new(),
        }
    }

    /// Accesses so far in this chunk.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Appends some accesses of the batch, no more than [`MAX_ACCESSES`] in all, with what their
    /// code says of them: of all accesses of a chunk or of none.
    pub fn push(&mut self, batch: &Batch, range: Range<usize>, code: Option<FromCode>) {
        let first = self.codes.len();
        match code {
            Some(code) => {
                self.highest_site = CODE_SITES;
                self.encode_shapes::<true>(batch, range.clone(), code);
            }
            None => self.encode_shapes::<false>(batch, range.clone(), FromCode::default()),
        }
        self.encode_addresses(&batch.addr[range], first);
    }

    /// All but the addresses.
    fn encode_shapes<const CODE: bool>(
        &mut self,
        batch: &Batch,
        range: Range<usize>,
        code: FromCode,
    ) {
        let first = self.codes.len();
        self.codes.resize(first + range.len(), 0);
        self.places.resize(range.len(), (0, 0));
        let columns = (batch.op[range.clone()].iter())
            .zip(&batch.gap[range.clone()])
            .zip(&batch.dep[range]);
        let mut guess = self.codes[..first].last().copied().unwrap_or(0);
        for (at, ((op, &gap), &dep)) in columns.enumerate() {
            let index = first + at;
            let sibling = self.sibling(index as u32, dep);
            let shape = Shape {
                op: op.0,
                sibling,
                gap: gap.wrapping_sub(if CODE { code.gaps[at] } else { 0 }),
                dep: if sibling == 0 { dep } else { 0 },
            };
            let site;
            if CODE {
                site = code.site(at);
                let guess = &mut self.guesses[usize::from(site) % CODE_SITES];
                self.codes[index] = self.numbering.code(shape, guess);
            } else {
                // What followed the shape before.
                let slot = usize::from(guess) % CODE_SITES;
                guess = self.numbering.code(shape, &mut self.guesses[slot]);
                self.codes[index] = guess;
                self.history.push(guess);
                site = self.history.site();
            }
            let base = match sibling {
                0 => site,
                _ => (CODE_SITES + index.wrapping_sub(usize::from(sibling)) % WINDOW) as u16,
            };
            self.places[at] = (site, base);
        }
    }

    fn encode_addresses(&mut self, addrs: &[u64], first: usize) {
        let mut at = self.residual_bytes;
        let mut previous = self.previous;
        self.classes.resize(first + addrs.len(), 0);
        let places = self.places.iter().zip(&mut self.classes[first..]);
        for ((&addr, (&(site, base), class)), index) in addrs.iter().zip(places).zip(first..) {
            let site = usize::from(site) % CODE_SITES;
            let from_base = addr.wrapping_sub(self.bases[usize::from(base)]);
            let from_previous = addr.wrapping_sub(previous);
            let [step, offset] = self.moves[site].map(|moved| moved as u64);
            self.moves[site] = [from_base as i32, from_previous as i32];
            self.bases[site] = addr;
            self.bases[CODE_SITES + index % WINDOW] = addr;
            previous = addr;

            let mut residual = zigzag(from_base as i64);
            let mut predictor = FROM_BASE;
            for (other, number) in [
                (from_base.wrapping_sub(step), STEP_FROM_BASE),
                (from_previous.wrapping_sub(offset), STEP_FROM_PREVIOUS),
            ] {
                let other = zigzag(other as i64);
                predictor = select_unpredictable(other < residual, number, predictor);
                residual = other.min(residual);
            }
            let length = (64 - residual.leading_zeros()).div_ceil(8).min(7) as u8;
            *class = predictor * 8 + length;
            // Eight bytes whatever the length: the next residual overwrites what is too much.
            self.residuals[at..at + 8].copy_from_slice(&residual.to_le_bytes());
            at += residual_bytes(*class);
        }
        self.residual_bytes = at;
        self.previous = previous;
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
        streams.residuals.clear();
        streams
            .residuals
            .extend_from_slice(&self.residuals[..self.residual_bytes]);

        self.numbering.clear();
        self.codes.clear();
        self.classes.clear();
        self.residual_bytes = 0;
        self.history = History::default();
        self.bases[..self.highest_site].fill(0);
        self.bases[CODE_SITES..].fill(0);
        self.moves[..self.highest_site].fill([0; 2]);
        self.highest_site = SITES;
        self.previous = 0;
        self.dependants.fill((0, 0));
    }
}
