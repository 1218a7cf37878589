//! Accesses apart from their addresses, prepared four at a time: of a form once in a chunk, of a block once. An
//! execution is then copied from the two, whatever it has that one before it had not.

use super::forms;
use super::shapes::Shape;
use super::{CODE_SITES, LastCodes, MAX_ACCESSES, Streams, boxed};
use crate::Op;
use crate::trace::code::UsualAccess;

/// Terms of an access's address: the place that remembers the last one in bits 0 to 13, in bits 16 to 23 how many
/// accesses back the one is that it follows from, in bits 24 to 31 how many back its sibling is.
pub type Terms = u32;

/// Distance of the access that an address follows from; 0 for none.
#[inline(always)]
pub fn back(terms: Terms) -> usize {
    usize::from((terms >> 16) as u8)
}

/// Distance of the sibling in accesses; 0 for none.
#[inline(always)]
pub fn sibling(terms: Terms) -> usize {
    (terms >> 24) as usize
}

/// The place that remembers the last address.
#[inline(always)]
pub fn site(terms: Terms) -> usize {
    terms as usize % CODE_SITES
}

/// The terms of an access that has this sibling.
pub fn with_sibling(sibling: u8) -> Terms {
    u32::from(sibling) << 24
}

/// Four accesses of a form, or what is left of them; nothing is said of a dependence with a sibling.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub struct FourShapes {
    /// Excess of the gap over the block's.
    pub gap: [u32; 4],
    pub dep: [u32; 4],
    pub terms: [Terms; 4],
    pub op: [u16; 4],
}

/// Four accesses of a block, or what is left of them.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub struct FourSites {
    pub gap: [u32; 4],
    pub site: [u32; 4],
    pub terms: [Terms; 4],
    /// Distance of an address from the one that it follows from.
    pub offset: [i32; 4],
}

impl FourSites {
    /// Sets one of the four.
    pub fn set(&mut self, index: usize, gap: u32, access: UsualAccess) {
        self.gap[index] = gap;
        self.site[index] = access.site;
        let site = access.site % CODE_SITES as u32;
        self.terms[index] = site | u32::from(access.follows.back) << 16;
        self.offset[index] = access.follows.offset;
    }
}

/// A form.
#[derive(Clone, Copy, Default)]
pub struct Form {
    /// Begin of its codes, and how many it has.
    code: u32,
    accesses: u32,
    /// Begin of its fours.
    pub fours: u32,
    /// Range of the siblings that are its own.
    pub siblings: (u32, u32),
}

/// The shapes and forms of a chunk.
pub struct Layout {
    decoder: Option<forms::Decoder>,
    last_codes: Option<LastCodes>,
    made: Dictionary,
}

/// The forms that there were so far, and what they are made of.
struct Dictionary {
    /// By code. No access of a sound chunk has a code beyond its dictionary.
    shapes: Box<[Shape; MAX_ACCESSES]>,
    known: usize,
    /// The chunk's codes, and how many of them forms have.
    codes: Vec<u16>,
    used: usize,
    forms: Vec<Form>,
    fours: Vec<FourShapes>,
    /// Accesses of forms that have siblings: which of the form's, and how far back.
    siblings: Vec<(u32, u32)>,
}

impl Layout {
    pub fn new() -> Layout {
        let made = Dictionary {
            shapes: boxed(),
            known: 0,
            codes: Vec::new(),
            used: 0,
            forms: Vec::new(),
            fours: Vec::new(),
            siblings: Vec::new(),
        };
        Layout {
            decoder: None,
            last_codes: None,
            made,
        }
    }

    /// Starts a chunk.
    ///
    /// # Errors
    /// What is wrong with the streams.
    pub fn start(&mut self, streams: &Streams) -> Result<(), &'static str> {
        if streams.codes_low.len() != streams.codes_high.len() {
            return Err("the halves of the codes are not as many");
        }
        self.made.start(streams)
    }

    /// In an older file, a bit of sizes stands where an access continues its instruction now.
    pub fn continue_none(&mut self) {
        for shape in &mut self.made.shapes[..self.made.known] {
            let op = Op(shape.op);
            if op.continues() {
                shape.op = op.continuing(false).0 | Op::MAX_SIZE;
            }
        }
    }

    /// In a chunk with code of a file up to version 4, codes are told from those before at the same site.
    pub fn take_last_codes(&mut self, sites: &[u32]) {
        let last_codes = self.last_codes.get_or_insert_with(LastCodes::new);
        last_codes.decode(sites, &mut self.made.codes);
    }

    /// There are forms; `None` when their stream is damaged.
    pub fn start_forms(&mut self, stream: &[u8]) -> Option<()> {
        let decoder = self.decoder.get_or_insert_with(forms::Decoder::new);
        decoder.start(stream)
    }

    /// The form of the next execution, with so many accesses.
    #[inline(always)]
    pub fn form(&mut self, stream: &[u8], block: u32, accesses: u32) -> Option<Form> {
        let Layout { decoder, made, .. } = self;
        let decoder = decoder.as_mut()?;
        let number = decoder.next(stream, block, || made.own(accesses))?;
        let form = made.forms[number as usize];
        if form.accesses == accesses {
            return Some(form);
        }
        // It was another block's.
        let end = form.code as usize + accesses as usize;
        if end > made.used {
            return None;
        }
        let number = made.make(form.code, accesses);
        Some(made.forms[number as usize])
    }

    /// A form of the next codes that were not used.
    pub fn own(&mut self, accesses: u32) -> Option<Form> {
        let number = self.made.own(accesses)?;
        Some(self.made.forms[number as usize])
    }

    /// True if everything was used.
    pub fn is_at_end(&self, stream: &[u8]) -> bool {
        let forms = self.decoder.as_ref();
        forms.is_some_and(|forms| forms.is_at_end(stream))
            && self.made.used == self.made.codes.len()
    }

    /// True if all codes have shapes.
    pub fn is_sound(&self) -> bool {
        let Dictionary { codes, known, .. } = &self.made;
        let highest = codes.iter().copied().fold(0, u16::max);
        codes.is_empty() || usize::from(highest) < *known
    }

    /// The codes, of all accesses where there are no forms.
    pub fn codes(&self) -> &[u16] {
        &self.made.codes
    }

    /// The shape of a code.
    #[inline(always)]
    pub fn shape(&self, code: u16) -> Shape {
        self.made.shapes[usize::from(code)]
    }

    /// The fours of all forms.
    pub fn fours(&self) -> &[FourShapes] {
        &self.made.fours
    }

    /// Accesses of forms that have siblings: which of the form's, and how far back.
    pub fn siblings(&self) -> &[(u32, u32)] {
        &self.made.siblings
    }
}

impl Dictionary {
    fn start(&mut self, streams: &Streams) -> Result<(), &'static str> {
        let halves = streams.codes_low.iter().zip(&streams.codes_high);
        self.codes.clear();
        (self.codes).extend(halves.map(|(&low, &high)| u16::from_le_bytes([low, high])));
        self.used = 0;
        self.forms.clear();
        self.fours.clear();
        self.siblings.clear();
        self.known = 0;
        let mut input = streams.shapes.as_slice();
        while !input.is_empty() {
            let slot = (self.shapes.get_mut(self.known)).ok_or("too many shapes")?;
            *slot = Shape::take(&mut input).ok_or("the shapes are damaged")?;
            self.known += 1;
        }
        Ok(())
    }

    /// A form of the next codes that were not used.
    fn own(&mut self, accesses: u32) -> Option<u32> {
        let code = self.used;
        let end = code.checked_add(accesses as usize);
        self.used = end.filter(|&end| end <= self.codes.len())?;
        Some(self.make(code as u32, accesses))
    }

    fn make(&mut self, code: u32, accesses: u32) -> u32 {
        let number = self.forms.len() as u32;
        let siblings = self.siblings.len() as u32;
        let codes = &self.codes[code as usize..][..accesses as usize];
        let fours = self.fours.len() as u32;
        for (four, codes) in codes.chunks(4).enumerate() {
            let mut made = FourShapes::default();
            for (index, &code) in codes.iter().enumerate() {
                let shape = self.shapes[usize::from(code)];
                made.gap[index] = shape.gap;
                made.dep[index] = shape.dep;
                made.op[index] = shape.op;
                made.terms[index] = with_sibling(shape.sibling);
                if shape.sibling > 0 {
                    let access = (4 * four + index) as u32;
                    self.siblings.push((access, shape.sibling.into()));
                }
            }
            self.fours.push(made);
        }
        self.forms.push(Form {
            code,
            accesses,
            fours,
            siblings: (siblings, self.siblings.len() as u32),
        });
        number
    }
}
