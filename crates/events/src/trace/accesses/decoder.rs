use super::forms;
use super::shapes::Shape;
use super::{
    CLASSES, CODE_SITES, FROM_BASE, FromCode, History, LastCodes, MAX_ACCESSES, SITES,
    STEP_FROM_PREVIOUS, Streams, WINDOW, boxed, residual_bytes,
};
use crate::trace::code::UsualAccess;
use crate::trace::varint::unzigzag;
use crate::{Batch, Follows, Op};
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
    follows: Vec<Follows>,
    /// Of how many it is known by now.
    len: usize,
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
        self.follows.clear();
        self.len = 0;
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
        self.len = self.codes.len();
    }

    /// There are forms, of a chunk of so many accesses; `None` when their stream is damaged.
    pub fn start_forms(&mut self, stream: &[u8], accesses: usize) -> Option<()> {
        self.codes.resize(accesses, 0);
        self.follows.resize(accesses, Follows::default());
        let forms = self.forms.get_or_insert_with(forms::Decoder::new);
        forms.start(stream)
    }

    /// Accesses that have codes and addresses of their own come.
    pub fn push_own(&mut self, count: usize) -> Option<()> {
        let codes = self.forms.as_mut()?.own(count, self.all.len())?;
        let to = self.len..self.len + count;
        self.codes.get_mut(to)?.copy_from_slice(&self.all[codes]);
        self.len += count;
        Some(())
    }

    /// The usual accesses of a block come.
    #[inline]
    pub fn push_form(&mut self, stream: &[u8], block: u32, usual: &[UsualAccess]) -> Option<()> {
        let forms = self.forms.as_mut()?;
        let codes = forms.next(stream, block, usual.len(), self.all.len())?;
        let range = self.len..self.len + usual.len();
        self.len = range.end;
        let to = self.codes.get_mut(range.clone())?.iter_mut();
        let to = to.zip(self.follows.get_mut(range)?);
        for ((to, follows), (&code, access)) in to.zip(self.all[codes].iter().zip(usual)) {
            *to = code;
            *follows = access.follows;
        }
        Some(())
    }

    /// No more come; `None` unless everything was used.
    pub fn end_forms(&mut self, stream: &[u8]) -> Option<()> {
        let forms = self.forms.as_ref()?;
        (forms.is_at_end(stream, self.all.len()) && self.len == self.codes.len()).then_some(())
    }
}

/// Decodes the accesses of one chunk after the other.
pub struct Decoder {
    /// By code. No access has a code beyond the chunk's dictionary.
    shapes: Box<[Shape; MAX_ACCESSES]>,
    history: History,
    /// The last address of each site, then the last addresses by place in the chunk: whichever
    /// of them is an access's base is found by one index.
    bases: Box<[u64; CODE_SITES + WINDOW]>,
    /// By site: the last move from its base, and from the access before.
    moves: Box<[[i32; 2]; CODE_SITES]>,
    /// One more than the highest site that the chunk may have used.
    highest_site: usize,
    /// The last dependences, by place in the chunk.
    recent_dep: [u32; WINDOW],
    /// The last address.
    previous: u64,
    /// Of the accesses being decoded.
    places: Vec<AddressTerms>,
    /// Accesses decoded, and bytes of residuals used.
    index: usize,
    class_at: usize,
    residual_at: usize,
}

/// What is needed of an access to find its address.
#[derive(Clone, Copy, Default)]
struct AddressTerms {
    site: u16,
    /// Index of its base address.
    base: u16,
    class: u8,
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
        // Without forms none follow from others.
        let follow = layout.follows.iter().filter(|follows| follows.back > 0);
        if layout.codes.len() != accesses || streams.classes.len() + follow.count() != accesses {
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
                let site = |_: &mut History, index, _| {
                    let at: usize = index - first;
                    (code.site(at), code.gaps[at])
                };
                if layout.follows.is_empty() {
                    self.decode_shapes::<false>(streams, layout, batch, from, site);
                } else {
                    self.decode_shapes::<true>(streams, layout, batch, from, site);
                }
            }
            None => {
                let site = |history: &mut History, _, code| {
                    history.push(code);
                    (history.site(), 0)
                };
                self.decode_shapes::<false>(streams, layout, batch, from, site);
            }
        }
        if layout.follows.is_empty() {
            self.decode_addresses::<false>(streams, &[], &mut batch.addr[from..]);
        } else {
            let follows = &layout.follows[first..];
            self.decode_addresses::<true>(streams, follows, &mut batch.addr[from..]);
        }
        self.index += count;
    }

    /// All but the addresses; `site` tells the site and what the flow says of the gap from the
    /// access's number and code.
    #[inline(always)]
    fn decode_shapes<const FOLLOW: bool>(
        &mut self,
        streams: &Streams,
        layout: &Layout,
        batch: &mut Batch,
        from: usize,
        site: impl Fn(&mut History, usize, u16) -> (u16, u32),
    ) {
        let range = self.index..self.index + batch.len() - from;
        self.places.resize(range.len(), AddressTerms::default());
        let codes = &layout.codes[range.clone()];
        let follows = &layout.follows[if FOLLOW { range.clone() } else { 0..0 }];
        let classes = &streams.classes[self.class_at..];
        let mut class_at = 0;
        let columns = batch.op[from..]
            .iter_mut()
            .zip(&mut batch.gap[from..])
            .zip(&mut batch.dep[from..])
            .zip(&mut self.places);
        for ((at, (&code, (((op, gap), dep), place))), index) in
            codes.iter().zip(columns).enumerate().zip(range)
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
            let class = classes[class_at];
            // That of the next is read again where the address follows from another.
            class_at += usize::from(!FOLLOW || follows[at].back == 0);
            *place = AddressTerms { site, base, class };
            self.recent_dep[index % WINDOW] = *dep;
        }
        self.class_at += class_at;
    }

    /// The addresses, after what they follow from if any follow from others.
    #[inline(always)]
    fn decode_addresses<const FOLLOW: bool>(
        &mut self,
        streams: &Streams,
        follows: &[Follows],
        addrs: &mut [u64],
    ) {
        let mut residuals = &streams.residuals[self.residual_at..];
        let mut previous = self.previous;
        let places = addrs.iter_mut().zip(&self.places);
        for ((at, (addr, place)), index) in places.enumerate().zip(self.index..) {
            if FOLLOW && follows[at].back > 0 {
                let Follows { back, offset } = follows[at];
                let base = CODE_SITES + index.wrapping_sub(back.into()) % WINDOW;
                let found = self.bases[base].wrapping_add(offset as u64);
                self.bases[CODE_SITES + index % WINDOW] = found;
                previous = found;
                *addr = found;
                continue;
            }
            let (bytes, _) = residuals
                .split_first_chunk()
                .expect("the residuals are padded");
            let length = usize::from(place.class % 8);
            let residual = u64::from_le_bytes(*bytes) & MASKS[length];
            residuals = &residuals[usize::from(LENGTHS[length])..];

            let site = usize::from(place.site) % CODE_SITES;
            let base = self.bases[usize::from(place.base)];
            let predictor = place.class / 8;
            let moves = &mut self.moves[site];
            let moved = moves[usize::from(predictor / 2 % 2)] as u64;
            let moved = select_unpredictable(predictor == FROM_BASE, 0, moved);
            // The sum that does not wait for the base first: it may come from the access before.
            let moved = moved.wrapping_add(unzigzag(residual) as u64);
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
