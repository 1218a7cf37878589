use super::columns::{BATCH, Columns};
use super::layout::{Layout, back, sibling, site, with_sibling};
use super::{
    CLASSES, CODE_SITES, FROM_BASE, History, SITES, STEP_FROM_BASE, STEP_FROM_PREVIOUS, Streams,
    WINDOW, residual_bytes,
};
use crate::Op;
use crate::trace::varint::unzigzag;
use std::hint::select_unpredictable;

/// Bytes appended to the residuals, so that the last ones can be read eight at a time.
const PADDING: usize = 8;

/// Meanings of the classes, those that there are not among them.
const KINDS: [Kind; 32] = {
    let mut kinds = [Kind::of(0); 32];
    let mut class = 0;
    while class < CLASSES {
        kinds[class as usize] = Kind::of(class);
        class += 1;
    }
    kinds
};

/// Meaning of a class: masks of what is added up, and of the residual.
#[derive(Clone, Copy)]
struct Kind {
    residual: u64,
    moved: u64,
    previous: u64,
    bytes: u8,
    /// It is the move from the access before.
    from_previous: bool,
}

impl Kind {
    const fn of(class: u8) -> Kind {
        let bytes = residual_bytes(class) as u8;
        let predictor = class / 8;
        Kind {
            residual: match bytes {
                0 => 0,
                bytes => u64::MAX >> (64 - 8 * bytes),
            },
            moved: if predictor == FROM_BASE { 0 } else { u64::MAX },
            previous: if predictor == STEP_FROM_PREVIOUS {
                u64::MAX
            } else {
                0
            },
            bytes,
            from_previous: predictor > STEP_FROM_BASE,
        }
    }
}

/// Memory of a site.
#[derive(Clone, Copy, Default)]
#[repr(align(16))]
struct Place {
    last: u64,
    /// The last move from its base, and that from the access before.
    moves: [i32; 2],
}

/// State by which addresses are found: in one piece, so that one register leads there.
struct Memory {
    places: [Place; CODE_SITES],
    /// The last addresses, of which the last one of the batch before is the last.
    recent: [u64; WINDOW],
}

/// Decodes the accesses of one chunk after the other.
pub struct Decoder {
    history: History,
    memory: Box<Memory>,
    /// One more than the highest place that the chunk may have used.
    highest_place: usize,
    /// The last dependences of the chunk.
    deps: [u32; WINDOW],
    /// Accesses decoded, and bytes of classes and residuals used.
    index: usize,
    class_at: usize,
    residual_at: usize,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder {
            history: History::default(),
            memory: new_memory(),
            highest_place: CODE_SITES,
            deps: [0; WINDOW],
            index: 0,
            class_at: 0,
            residual_at: 0,
        }
    }

    /// Starts a chunk, of which so many accesses have addresses of their own.
    ///
    /// # Errors
    /// What is wrong with the streams. When nothing is, decoding cannot fail.
    pub fn start(
        &mut self,
        streams: &mut Streams,
        layout: &Layout,
        own: usize,
        with_code: bool,
    ) -> Result<(), &'static str> {
        if streams.classes.len() != own {
            return Err("the streams do not hold as many accesses as the header says");
        }
        if !layout.is_sound() {
            return Err("a code has no shape");
        }
        if streams.classes.iter().copied().fold(0, u8::max) >= CLASSES {
            return Err("a class is not defined");
        }
        if residual_total(&streams.classes) != streams.residuals.len() {
            return Err("the residuals are not as long as their classes say");
        }
        streams.residuals.extend([0; PADDING]);
        self.history = History::default();
        self.memory.places[..self.highest_place].fill(Place::default());
        self.memory.recent.fill(0);
        self.highest_place = if with_code { CODE_SITES } else { SITES };
        self.deps.fill(0);
        self.index = 0;
        self.class_at = 0;
        self.residual_at = 0;
        Ok(())
    }

    /// The dependences of the last accesses.
    pub fn last_deps(&self) -> &[u32; WINDOW] {
        &self.deps
    }

    /// All but the addresses of the next `count` accesses, of which no code is known.
    pub fn plain(&mut self, layout: &Layout, count: usize, columns: &mut Columns) {
        let codes = &layout.codes()[self.index..][..count.min(BATCH)];
        for (at, &code) in codes.iter().enumerate() {
            let shape = layout.shape(code);
            self.history.push(code);
            columns.op[at] = Op(shape.op);
            columns.gap[at] = shape.gap;
            columns.dep[at] = match usize::from(shape.sibling) {
                0 => shape.dep,
                sibling => {
                    before(columns.dep, &self.deps, at, sibling).wrapping_add(sibling as u32)
                }
            };
            columns.work.terms[at] = u32::from(self.history.site()) | with_sibling(shape.sibling);
        }
    }

    /// The addresses of the next `count` accesses, of which all else is there; after what they
    /// follow from if any follow from others.
    pub fn addresses<const FOLLOW: bool>(
        &mut self,
        streams: &Streams,
        count: usize,
        columns: &mut Columns,
    ) {
        let mut residuals = &streams.residuals[self.residual_at..];
        let mut classes = streams.classes[self.class_at..].iter();
        let memory = &mut *self.memory;
        let work = &*columns.work;
        let mut previous = memory.recent[WINDOW - 1];
        for (at, addr) in columns.addr[..count].iter_mut().enumerate() {
            let terms = work.terms[at];
            let found;
            if FOLLOW && back(terms) > 0 {
                let from = memory.recent[at.wrapping_sub(back(terms)) % WINDOW];
                found = from.wrapping_add(work.offset[at] as u64);
            } else {
                let &class = classes.next().expect("as many classes as addresses");
                let kind = &KINDS[usize::from(class) % KINDS.len()];
                let (bytes, _) = residuals
                    .split_first_chunk()
                    .expect("the residuals are padded");
                let residual = u64::from_le_bytes(*bytes) & kind.residual;
                residuals = &residuals[usize::from(kind.bytes)..];

                let sibling = sibling(terms);
                let other = memory.recent[at.wrapping_sub(sibling) % WINDOW];
                let place = &mut memory.places[site(terms)];
                let base = select_unpredictable(sibling == 0, place.last, other);
                let moved = place.moves[usize::from(kind.from_previous)] as u64 & kind.moved;
                // The sum that does not wait for the base first: it may come from the access before.
                let moved = moved.wrapping_add(unzigzag(residual) as u64);
                let origin = base ^ ((base ^ previous) & kind.previous);
                found = origin.wrapping_add(moved);
                place.last = found;
                place.moves = [base, previous].map(|from| found.wrapping_sub(from) as i32);
            }
            memory.recent[at % WINDOW] = found;
            *addr = found;
            previous = found;
        }
        memory.recent.rotate_left(count % WINDOW);
        self.class_at = streams.classes.len() - classes.len();
        self.residual_at = streams.residuals.len() - residuals.len();
        keep(&mut self.deps, &columns.dep[..count]);
        self.index += count;
    }
}

/// The dependence `back` places before `at`, 1 to 255: in the column, or among those that came before it.
#[inline(always)]
pub fn before<const N: usize>(
    column: &[u32; N],
    earlier: &[u32; WINDOW],
    at: usize,
    back: usize,
) -> u32 {
    match at.checked_sub(back) {
        Some(from) => column[from],
        None => earlier[at.wrapping_sub(back) % WINDOW],
    }
}

/// Keeps the last ones, now that these have come.
fn keep(earlier: &mut [u32; WINDOW], new: &[u32]) {
    let new = &new[new.len().saturating_sub(WINDOW)..];
    earlier.copy_within(new.len().., 0);
    earlier[WINDOW - new.len()..].copy_from_slice(new);
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

fn new_memory() -> Box<Memory> {
    Box::new(Memory {
        places: [Place::default(); CODE_SITES],
        recent: [0; WINDOW],
    })
}
