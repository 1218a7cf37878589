use super::forms;
use super::shapes::{Numbering, Shape};
use super::{
    CODE_SITES, FROM_BASE, FromCode, History, MAX_ACCESSES, SITES, STEP_FROM_BASE,
    STEP_FROM_PREVIOUS, Streams, WINDOW, boxed, residual_bytes,
};
use crate::trace::code::UsualAccess;
use crate::trace::varint::zigzag;
use crate::{Batch, Op};
use std::hint::select_unpredictable;
use std::ops::Range;

/// More than the dependences of a chunk and those before it.
const DEPS: usize = 2 * MAX_ACCESSES;

/// Encodes the accesses of one chunk after the other.
pub struct Encoder {
    numbering: Numbering,
    /// Where a shape is looked for first: by site with code, else by the code before.
    guesses: Box<[u16; CODE_SITES]>,
    forms: forms::Encoder,
    /// Accesses so far.
    len: usize,
    /// The codes of those that have one of their own.
    codes: Vec<u16>,
    /// What these codes are.
    made: Vec<Coded>,
    /// All dependences, after those of [`WINDOW`] accesses that there never were.
    deps: Box<[u32; DEPS]>,
    classes: Box<[u8; MAX_ACCESSES]>,
    class_count: usize,
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
            forms: forms::Encoder::new(),
            len: 0,
            codes: Vec::with_capacity(MAX_ACCESSES),
            made: Vec::with_capacity(MAX_ACCESSES),
            deps: boxed(),
            classes: boxed(),
            class_count: 0,
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
        self.len
    }

    /// Appends some accesses of the batch, no more than [`MAX_ACCESSES`] in all, with what their
    /// code says of them: of all accesses of a chunk or of none.
    pub fn push(&mut self, batch: &Batch, range: Range<usize>, code: Option<FromCode>) {
        let (first, count) = (self.len, range.len());
        match code {
            Some(code) => {
                let deps = &batch.dep[range.clone()];
                self.deps[WINDOW + first..][..count].copy_from_slice(deps);
                self.highest_site = CODE_SITES;
                self.encode_shapes::<true>(batch, range.clone(), code);
            }
            None => self.encode_shapes::<false>(batch, range.clone(), FromCode::default()),
        }
        self.encode_addresses(&batch.addr[range], first);
        self.len += count;
    }

    /// Appends the accesses of one execution of a block, from access `from` of the batch on, if they are its usual
    /// ones, `pending` instructions after the access before. `false`, and nothing is changed, if instructions
    /// or places are others.
    #[inline]
    pub fn push_execution(
        &mut self,
        batch: &Batch,
        from: usize,
        block: u32,
        usual: &[UsualAccess],
        pending: u32,
    ) -> bool {
        let count = usual.len();
        let range = from..from + count;
        if !is_usual(
            &batch.addr[range.clone()],
            &batch.site[range.clone()],
            usual,
        ) {
            return false;
        }
        self.push_form(batch, from, block, usual, pending, false);
        true
    }

    /// The same of one that [is regular](Batch::regular).
    #[inline(always)]
    pub fn push_regular(
        &mut self,
        batch: &Batch,
        from: usize,
        block: u32,
        usual: &[UsualAccess],
        pending: u32,
    ) {
        let count = usual.len();
        let range = from..from + count;
        let addrs = &batch.addr[range.clone()];
        debug_assert!(is_usual(addrs, &batch.site[range.clone()], usual));
        let form = self.forms.latest(block);
        let gap = batch.gap[from].wrapping_sub(pending + u32::from(usual[0].gap));
        let Some(form) = form else {
            self.push_form(batch, from, block, usual, pending, true);
            return;
        };
        let deps = &batch.dep[range];
        let to = &mut self.deps[WINDOW + self.len..][..count];
        for (to, &dep) in to.iter_mut().zip(deps) {
            *to = dep;
        }
        // All else is the same each time.
        if self.depend_as(form, deps, gap) {
            self.forms.repeat();
            self.push_addresses(addrs, usual, form);
        } else {
            self.push_other(batch, from, block, usual, pending);
        }
    }

    /// An execution that is regular and has not the block's latest form, which all forms remembered are of.
    #[inline(never)]
    fn push_other(
        &mut self,
        batch: &Batch,
        from: usize,
        block: u32,
        usual: &[UsualAccess],
        pending: u32,
    ) {
        let range = from..from + usual.len();
        let made = Made::new(batch, range.clone(), usual, pending, self.len);
        let gap = made.gap(0);
        let older = self.forms.older(block);
        let place = older.iter().position(|&form| {
            let form = (form as usize).checked_sub(1);
            form.is_some_and(|form| self.depend_as(form, made.deps, gap))
        });
        let next = self.codes.len();
        let form = match place {
            Some(place) => self.forms.bring_back(block, place + 1),
            None => {
                self.forms.start(block, next, true);
                self.new_form(&made)
            }
        };
        self.push_addresses(&batch.addr[range], usual, form);
    }

    /// Whether the next accesses, whose dependences are these and among those of the chunk, depend on loads as those with
    /// the codes from `form` on, and the first one's gap has as much more than the flow says.
    #[inline(always)]
    fn depend_as(&self, form: usize, deps: &[u32], gap: u32) -> bool {
        let made = &self.made[form..form + deps.len()];
        let mut differs = made[0].shape.gap ^ gap;
        let mut fixed = u32::MAX;
        for (&dep, made) in deps.iter().zip(made) {
            differs |= (dep ^ made.dep) & made.bits;
            fixed &= made.bits;
        }
        differs == 0 && (fixed != 0 || self.depend_as_siblings(made, deps))
    }

    /// Whether those of which it is not fixed depend on loads as their siblings do.
    #[inline(never)]
    fn depend_as_siblings(&self, made: &[Coded], deps: &[u32]) -> bool {
        let mut all = made.iter().zip(deps).zip(WINDOW + self.len..);
        all.all(|((made, &dep), at)| {
            let back = made.shape.sibling;
            made.bits != 0 || dep == self.deps[at - usize::from(back)].wrapping_add(back.into())
        })
    }

    fn push_form(
        &mut self,
        batch: &Batch,
        from: usize,
        block: u32,
        usual: &[UsualAccess],
        pending: u32,
        regular: bool,
    ) {
        let range = from..from + usual.len();
        self.highest_site = CODE_SITES;
        let made = Made::new(batch, range.clone(), usual, pending, self.len);
        made.copy_deps(&mut self.deps);
        let (known, deps) = (&self.made, &self.deps);
        let fits = |form: usize| made.has_form(known, form, deps);
        let form = self.forms.next(block, self.codes.len(), regular, fits);
        let form = form.unwrap_or_else(|| self.new_form(&made));
        self.push_addresses(&batch.addr[range], usual, form);
    }

    /// Appends the codes of accesses of a block whose form the chunk has not had.
    fn new_form(&mut self, made: &Made) -> usize {
        let form = self.codes.len();
        for (index, access) in made.usual.iter().enumerate() {
            let at = self.len + index;
            let dep = self.deps[WINDOW + at];
            let sibling = self.sibling(at as u32, dep);
            let shape = Shape {
                op: made.ops[index].0,
                sibling,
                gap: made.gap(index),
                dep: if sibling == 0 { dep } else { 0 },
            };
            let guess = &mut self.guesses[access.site as usize % CODE_SITES];
            self.codes.push(self.numbering.code(shape, guess));
            // Its sibling may have one, too, and so on.
            let before = index.checked_sub(sibling.into());
            let fixed =
                before.is_some_and(|before| sibling == 0 || self.made[form + before].bits != 0);
            self.made.push(Coded {
                shape,
                dep,
                bits: if fixed { u32::MAX } else { 0 },
            });
        }
        form
    }

    /// Appends the addresses of a block's accesses, as far as they follow from no other, and remembers which loads
    /// the accesses depend on. All else of them is known by now.
    #[inline(always)]
    fn push_addresses(&mut self, addrs: &[u64], usual: &[UsualAccess], form: usize) {
        let made = &self.made[form..form + usual.len()];
        let mut at = self.residual_bytes;
        let mut classes = self.class_count;
        let mut previous = self.previous;
        let accesses = addrs.iter().zip(usual).zip(made).zip(self.len..);
        for (((&addr, access), made), index) in accesses {
            if access.follows.back == 0 {
                let site = access.site as usize % CODE_SITES;
                let base = match made.shape.sibling {
                    0 => site,
                    sibling => CODE_SITES + index.wrapping_sub(sibling.into()) % WINDOW,
                };
                let from_base = addr.wrapping_sub(self.bases[base]);
                let from_previous = addr.wrapping_sub(previous);
                let [step, offset] = self.moves[site];
                self.moves[site] = [from_base as i32, from_previous as i32];
                self.bases[site] = addr;
                let (class, residual) = best(from_base, step as u64, from_previous, offset as u64);
                self.classes[classes % MAX_ACCESSES] = class;
                classes += 1;
                self.residuals[at..at + 8].copy_from_slice(&residual.to_le_bytes());
                at += residual_bytes(class);
            }
            self.bases[CODE_SITES + index % WINDOW] = addr;
            previous = addr;
            let dep = self.deps[(WINDOW + index) % DEPS];
            if dep != 0 {
                let producer = (index as u32).wrapping_sub(dep);
                self.dependants[producer as usize % WINDOW] = (producer, index as u32);
            }
        }
        self.residual_bytes = at;
        self.class_count = classes;
        self.previous = previous;
        self.len += usual.len();
    }

    /// All but the addresses.
    fn encode_shapes<const CODE: bool>(
        &mut self,
        batch: &Batch,
        range: Range<usize>,
        code: FromCode,
    ) {
        let first = self.len;
        let codes = self.codes.len();
        self.codes.resize(codes + range.len(), 0);
        self.places.resize(range.len(), (0, 0));
        if CODE {
            // No form begins there.
            self.made.resize(codes + range.len(), Coded::default());
        }
        let columns = (batch.op[range.clone()].iter())
            .zip(&batch.gap[range.clone()])
            .zip(&batch.dep[range]);
        let mut guess = self.codes[..codes].last().copied().unwrap_or(0);
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
                self.codes[codes + at] = self.numbering.code(shape, guess);
            } else {
                // What followed the shape before.
                let slot = usize::from(guess) % CODE_SITES;
                guess = self.numbering.code(shape, &mut self.guesses[slot]);
                self.codes[codes + at] = guess;
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
        let classes = &mut self.classes[self.class_count..];
        self.class_count += addrs.len();
        let places = self.places.iter().zip(classes);
        for ((&addr, (&(site, base), class)), index) in addrs.iter().zip(places).zip(first..) {
            let site = usize::from(site) % CODE_SITES;
            let from_base = addr.wrapping_sub(self.bases[usize::from(base)]);
            let from_previous = addr.wrapping_sub(previous);
            let [step, offset] = self.moves[site].map(|moved| moved as u64);
            self.moves[site] = [from_base as i32, from_previous as i32];
            self.bases[site] = addr;
            self.bases[CODE_SITES + index % WINDOW] = addr;
            previous = addr;

            let residual;
            (*class, residual) = best(from_base, step, from_previous, offset);
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
        streams.classes.clear();
        (streams.classes).extend_from_slice(&self.classes[..self.class_count]);
        streams.residuals.clear();
        streams
            .residuals
            .extend_from_slice(&self.residuals[..self.residual_bytes]);
        self.forms.finish(&mut streams.forms);

        self.numbering.clear();
        self.len = 0;
        self.codes.clear();
        self.made.clear();
        self.class_count = 0;
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

/// What an access of this code is, in a form.
#[derive(Clone, Copy, Default)]
struct Coded {
    shape: Shape,
    /// The dependence that it always has, if `bits` are all set. If none are it is told by that of a sibling that may have
    /// another each time.
    dep: u32,
    bits: u32,
}

/// What a block's accesses are beside their addresses.
struct Made<'a> {
    ops: &'a [Op],
    gaps: &'a [u32],
    deps: &'a [u32],
    usual: &'a [UsualAccess],
    /// Instructions between the access before and the block.
    pending: u32,
    /// The place of the first one in the chunk.
    first: usize,
}

impl<'a> Made<'a> {
    /// The accesses of the batch from `range.start` on; `first` come before them in the chunk.
    fn new(
        batch: &'a Batch,
        range: Range<usize>,
        usual: &'a [UsualAccess],
        pending: u32,
        first: usize,
    ) -> Made<'a> {
        Made {
            ops: &batch.op[range.clone()],
            gaps: &batch.gap[range.clone()],
            deps: &batch.dep[range],
            usual,
            pending,
            first,
        }
    }

    /// What the gap of an access has more than the flow says.
    fn gap(&self, index: usize) -> u32 {
        let pending = if index == 0 { self.pending } else { 0 };
        let usual = u32::from(self.usual[index].gap).wrapping_add(pending);
        self.gaps[index].wrapping_sub(usual)
    }

    /// Puts the dependences where all of the chunk are.
    #[inline(always)]
    fn copy_deps(&self, all: &mut [u32; DEPS]) {
        for (to, &dep) in all[WINDOW + self.first..].iter_mut().zip(self.deps) {
            *to = dep;
        }
    }

    /// Whether the accesses have the shapes from number `form` on; `deps` are all of the chunk.
    #[inline(never)]
    fn has_form(&self, known: &[Coded], form: usize, deps: &[u32; DEPS]) -> bool {
        let Some(known) = known.get(form..form + self.usual.len()) else {
            return false;
        };
        let mut all = known.iter().enumerate();
        all.all(|(index, Coded { shape, .. })| {
            let at = WINDOW + self.first + index;
            let dep = match shape.sibling {
                0 => shape.dep,
                back => deps[at - usize::from(back)].wrapping_add(back.into()),
            };
            shape.op == self.ops[index].0 && shape.gap == self.gap(index) && self.deps[index] == dep
        })
    }
}

/// Whether accesses with these addresses and instructions are the usual ones of a block.
fn is_usual(addrs: &[u64], sites: &[u32], usual: &[UsualAccess]) -> bool {
    let mut all = usual.iter().zip(sites).enumerate();
    all.all(|(index, (access, &site))| {
        // Of an access that follows from none this is the access itself.
        let from = addrs[index - usize::from(access.follows.back)];
        site == access.site && addrs[index] == from.wrapping_add(access.follows.offset as u64)
    })
}

/// The prediction with the smallest residual, as a class, and that residual: of an address so far from its
/// base, which was `step` from it the last time, and so far from the one before, `offset` the last time.
#[inline(always)]
fn best(from_base: u64, step: u64, from_previous: u64, offset: u64) -> (u8, u64) {
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
    (predictor * 8 + length, residual)
}
