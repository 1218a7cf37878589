use super::forms;
use super::shapes::Shape;
use super::{
    CLASSES, CODE_SITES, FROM_BASE, FromCode, History, LastCodes, MAX_ACCESSES, SITES,
    STEP_FROM_PREVIOUS, Streams, WINDOW, boxed, residual_bytes,
};
use crate::trace::code::UsualAccess;
use crate::trace::varint::unzigzag;
use crate::{Batch, Op};
use std::hint::select_unpredictable;

/// Bytes appended to the residuals, so that the last ones can be read eight at a time.
const PADDING: usize = 8;

/// The bits of the residual of each length.
const MASKS: [u64; 8] = [
    0,
    0xff,
    0xffff,
    0xff_ffff,
    0xffff_ffff,
    0xff_ffff_ffff,
    0xffff_ffff_ffff,
    u64::MAX,
];

/// Bytes of the residual of each length.
const LENGTHS: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 8];

/// Which code each access of a chunk has, and what its address follows from.
#[derive(Default)]
pub struct Layout {
    forms: Option<forms::Decoder>,
    last_codes: Option<LastCodes>,
    /// The chunk's codes.
    all: Vec<u16>,
    /// Of each access its code, how many accesses back the one is that its address follows from, 0 for none,
    /// and how far it is from there.
    codes: Vec<u16>,
    back: Vec<u8>,
    offset: Vec<i32>,
}

impl Layout {
    /// Starts a chunk.
    ///
    /// # Errors
    /// What is wrong with the streams.
    pub fn start(&mut self, streams: &Streams) -> Result<(), &'static str> {
        if streams.codes_low.len() != streams.codes_high.len() {
            return Err("the halves of the codes are not as many");
        }
        let halves = streams.codes_low.iter().zip(&streams.codes_high);
        self.all.clear();
        (self.all).extend(halves.map(|(&low, &high)| u16::from_le_bytes([low, high])));
        self.codes.clear();
        self.back.clear();
        self.offset.clear();
        Ok(())
    }

    /// Every access has a code of its own, and an address. In a chunk with code of a file up to version 4,
    /// `last_codes_at` has the site of each; else nothing.
    pub fn take_all(&mut self, last_codes_at: &[u32]) {
        if !last_codes_at.is_empty() {
            let last_codes = self.last_codes.get_or_insert_with(LastCodes::new);
            last_codes.decode(last_codes_at, &mut self.all);
        }
        std::mem::swap(&mut self.codes, &mut self.all);
        self.back.resize(self.codes.len(), 0);
        self.offset.resize(self.codes.len(), 0);
    }

    /// There are forms; `None` when their stream is damaged.
    pub fn start_forms(&mut self, stream: &[u8]) -> Option<()> {
        let forms = self.forms.get_or_insert_with(forms::Decoder::new);
        forms.start(stream)
    }

    /// Accesses that have codes and addresses of their own come.
    pub fn push_own(&mut self, count: usize) -> Option<()> {
        let codes = self.forms.as_mut()?.own(count, self.all.len())?;
        self.codes.extend_from_slice(&self.all[codes]);
        self.back.resize(self.codes.len(), 0);
        self.offset.resize(self.codes.len(), 0);
        Some(())
    }

    /// The usual accesses of a block come.
    #[inline]
    pub fn push_form(&mut self, stream: &[u8], block: u32, usual: &[UsualAccess]) -> Option<()> {
        let forms = self.forms.as_mut()?;
        let codes = forms.next(stream, block, usual.len(), self.all.len())?;
        self.codes.extend_from_slice(&self.all[codes]);
        self.back.extend(usual.iter().map(|access| access.back));
        self.offset.extend(usual.iter().map(|access| access.offset));
        Some(())
    }

    /// No more come; `None` unless everything was used.
    pub fn end_forms(&mut self, stream: &[u8]) -> Option<()> {
        let forms = self.forms.as_ref()?;
        forms.is_at_end(stream, self.all.len()).then_some(())
    }
}

/// Decodes the accesses of one chunk after the other.
pub struct Decoder {
    /// By code. No access has a code beyond the chunk's dictionary.
    shapes: Box<[Shape; MAX_ACCESSES]>,
    history: History,
    /// The last address of each site, then the last addresses by place in the chunk, then one that
    /// nobody reads: whichever of them is an access's base is found by one index.
    bases: Box<[u64; PLACES]>,
    /// By site: the last move from its base, and from the access before.
    moves: Box<[[i32; 2]; PLACES]>,
    /// One more than the highest site that the chunk may have used.
    highest_site: usize,
    /// The last dependences, by place in the chunk.
    recent_dep: [u32; WINDOW],
    /// The last address.
    previous: u64,
    /// Of the accesses being decoded.
    places: Vec<Place>,
    /// Accesses decoded, and bytes of residuals used.
    index: usize,
    class_at: usize,
    residual_at: usize,
}

/// Sites, the last accesses, and one place for what nobody reads.
const PLACES: usize = CODE_SITES + WINDOW + 1;
/// The place that accesses write to whose addresses follow from others: they have no site.
const NOBODY: u16 = (PLACES - 1) as u16;

/// What is needed of an access to find its address.
#[derive(Clone, Copy, Default)]
struct Place {
    site: u16,
    /// Index of its base address.
    base: u16,
    class: u8,
    /// Beside the residual.
    offset: i32,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder {
            shapes: boxed(),
            history: History::default(),
            bases: boxed(),
            moves: boxed(),
            highest_site: CODE_SITES,
            recent_dep: [0; WINDOW],
            previous: 0,
            places: Vec::new(),
            index: 0,
            class_at: 0,
            residual_at: 0,
        }
    }

    /// Starts a chunk of `accesses`.
    ///
    /// # Errors
    /// What is wrong with the streams. When nothing is, [`Decoder::decode`] cannot fail.
    pub fn start(
        &mut self,
        streams: &mut Streams,
        layout: &Layout,
        accesses: usize,
    ) -> Result<(), &'static str> {
        let own = layout.back.iter().filter(|&&back| back == 0).count();
        if layout.codes.len() != accesses || streams.classes.len() != own {
            return Err("the streams do not hold as many accesses as the header says");
        }
        let mut input = streams.shapes.as_slice();
        let mut known = 0;
        while !input.is_empty() {
            let slot = self.shapes.get_mut(known).ok_or("too many shapes")?;
            *slot = Shape::take(&mut input).ok_or("the shapes are damaged")?;
            known += 1;
        }
        let codes = layout.codes.iter().copied();
        if accesses > 0 && usize::from(codes.fold(0, u16::max)) >= known {
            return Err("a code has no shape");
        }
        if streams.classes.iter().copied().fold(0, u8::max) >= CLASSES {
            return Err("a class is not defined");
        }
        if residual_total(&streams.classes) != streams.residuals.len() {
            return Err("the residuals are not as long as their classes say");
        }
        streams.residuals.extend([0; PADDING]);
        // One is looked at before it is known whether the access has any.
        streams.classes.push(0);
        self.history = History::default();
        self.bases[..self.highest_site].fill(0);
        self.bases[CODE_SITES..].fill(0);
        self.moves[..self.highest_site].fill([0; 2]);
        self.highest_site = SITES;
        self.recent_dep.fill(0);
        self.previous = 0;
        self.index = 0;
        self.class_at = 0;
        self.residual_at = 0;
        Ok(())
    }

    /// Appends the next `count` accesses of the chunk, which has as many left, to the batch, with
    /// what is known of them from their code since version 5.
    pub fn decode(
        &mut self,
        streams: &Streams,
        layout: &Layout,
        count: usize,
        batch: &mut Batch,
        code: Option<FromCode>,
    ) {
        let from = batch.len();
        batch.addr.resize(from + count, 0);
        batch.op.resize(from + count, Op::default());
        batch.gap.resize(from + count, 0);
        batch.dep.resize(from + count, 0);
        let first = self.index;
        // In two passes, each with few enough variables for the registers.
        match code {
            Some(code) => {
                self.highest_site = CODE_SITES;
                self.decode_shapes(streams, layout, batch, from, |_, index, _| {
                    (code.site(index - first), code.gaps[index - first])
                });
            }
            None => self.decode_shapes(streams, layout, batch, from, |history, _, code| {
                history.push(code);
                (history.site(), 0)
            }),
        }
        self.decode_addresses(streams, &mut batch.addr[from..]);
        self.index += count;
    }

    /// All but the addresses; `site` tells the site and what the flow says of the gap from the
    /// access's number and code.
    #[inline(always)]
    fn decode_shapes(
        &mut self,
        streams: &Streams,
        layout: &Layout,
        batch: &mut Batch,
        from: usize,
        site: impl Fn(&mut History, usize, u16) -> (u16, u32),
    ) {
        let range = self.index..self.index + batch.len() - from;
        self.places.resize(range.len(), Place::default());
        let layout = layout.codes[range.clone()]
            .iter()
            .zip(&layout.back[range.clone()])
            .zip(&layout.offset[range.clone()]);
        let mut class_at = self.class_at;
        let columns = batch.op[from..]
            .iter_mut()
            .zip(&mut batch.gap[from..])
            .zip(&mut batch.dep[from..])
            .zip(&mut self.places);
        for ((((&code, &back), &offset), (((op, gap), dep), place)), index) in
            layout.zip(columns).zip(range)
        {
            let shape = self.shapes[usize::from(code)];
            let (site, known) = site(&mut self.history, index, code);
            let sibling = index.wrapping_sub(usize::from(shape.sibling)) % WINDOW;
            *op = Op(shape.op);
            *gap = shape.gap.wrapping_add(known);
            let base;
            (base, *dep) = match shape.sibling {
                0 => (site, shape.dep),
                distance => (
                    (CODE_SITES + sibling) as u16,
                    self.recent_dep[sibling].wrapping_add(u32::from(distance)),
                ),
            };
            let class = streams.classes[class_at];
            class_at += usize::from(back == 0);
            let from = (CODE_SITES + index.wrapping_sub(back.into()) % WINDOW) as u16;
            *place = match back {
                0 => Place {
                    site,
                    base,
                    class,
                    offset: 0,
                },
                _ => Place {
                    site: NOBODY,
                    base: from,
                    class: FROM_BASE,
                    offset,
                },
            };
            self.recent_dep[index % WINDOW] = *dep;
        }
        self.class_at = class_at;
    }

    fn decode_addresses(&mut self, streams: &Streams, addrs: &mut [u64]) {
        let mut residuals = &streams.residuals[self.residual_at..];
        let mut previous = self.previous;
        for ((addr, place), index) in addrs.iter_mut().zip(&self.places).zip(self.index..) {
            let (bytes, _) = residuals
                .split_first_chunk()
                .expect("the residuals are padded");
            let length = usize::from(place.class % 8);
            let residual = u64::from_le_bytes(*bytes) & MASKS[length];
            residuals = &residuals[usize::from(LENGTHS[length])..];

            let site = usize::from(place.site);
            let base = self.bases[usize::from(place.base)];
            let predictor = place.class / 8;
            let moves = &mut self.moves[site];
            let moved = moves[usize::from(predictor / 2 % 2)] as u64;
            let moved = select_unpredictable(predictor == FROM_BASE, 0, moved);
            // The sum that does not wait for the base first: it may come from the access before.
            let moved = moved
                .wrapping_add(unzigzag(residual) as u64)
                .wrapping_add(place.offset as u64);
            let origin = select_unpredictable(predictor == STEP_FROM_PREVIOUS, previous, base);
            let found = origin.wrapping_add(moved);
            *moves = [base, previous].map(|from| found.wrapping_sub(from) as i32);
            self.bases[site] = found;
            self.bases[CODE_SITES + index % WINDOW] = found;
            previous = found;
            *addr = found;
        }
        self.previous = previous;
        self.residual_at = streams.residuals.len() - residuals.len();
    }
}

/// Bytes of the residuals of all these classes. Sums of 16 bits, which no 4096 classes exceed,
/// are added four times as fast as wider ones.
fn residual_total(classes: &[u8]) -> usize {
    let parts = classes.chunks(4096).map(|part| {
        let lengths = part.iter().map(|&class| residual_bytes(class) as u16);
        usize::from(lengths.sum::<u16>())
    });
    parts.sum()
}
