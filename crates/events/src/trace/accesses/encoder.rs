use super::common_fields::CommonFields;
use super::forms;
use super::shapes::{Numbering, Shape};
use super::{
    CODE_SITES, Coded, FROM_BASE, FromCode, History, MAX_ACCESSES, SITES, STEP_FROM_BASE,
    STEP_FROM_PREVIOUS, Streams, WINDOW, boxed, residual_bytes,
};
use crate::trace::code::UsualAccess;
use crate::trace::varint::zigzag;
use crate::{Batch, Op};
use std::hint::select_unpredictable;
use std::ops::Range;

/// More than the dependences of a chunk and those before it.
const DEPS: usize = 2 * MAX_ACCESSES;
/// The addresses of so many accesses are kept: of those that may have siblings, and of as many that
/// are appended at once.
const RING: usize = 2 * WINDOW;

/// Encodes the accesses of one chunk after the other.
pub struct Encoder {
    numbering: Numbering,
    /// First guess of a shape: by site with code, else by the code before.
    guesses: Box<[u16; CODE_SITES]>,
    forms: forms::Encoder,
    /// Accesses so far.
    len: usize,
    /// The codes of those that have one of their own.
    codes: Vec<u16>,
    /// Accesses that these codes stand for.
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
    bases: Box<[u64; CODE_SITES + RING]>,
    /// By site: the last move from its base, and from the access before. Low 32 bits.
    moves: Box<[[i32; 2]; CODE_SITES]>,
    previous: u64,
    /// One more than the highest site that the chunk may have used.
    highest_site: usize,
    /// By the producing load's place in the chunk: that place, and the last access that depends
    /// on it.
    dependants: [(u32, u32); WINDOW],
    /// For each access being encoded: the site, and the index of the base.
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

    /// Appends the accesses of an execution if they are the block's usual ones. `false`, and nothing is changed, if
    /// instructions or places are others.
    #[inline]
    pub fn push_execution(&mut self, execution: &Execution) -> bool {
        if !execution.is_usual() {
            return false;
        }
        self.push_form(execution, false);
        true
    }

    /// The same of one that [is regular](Batch::regular). Returns its form, by where its codes begin.
    #[inline(always)]
    pub fn push_regular(&mut self, execution: &Execution) -> usize {
        debug_assert!(execution.is_usual());
        let deps = execution.deps();
        let gap = execution.gap(0);
        let Some(form) = self.forms.latest(execution.block) else {
            return self.push_form(execution, true);
        };
        let to = &mut self.deps[WINDOW + self.len..][..deps.len()];
        for (to, &dep) in to.iter_mut().zip(deps) {
            *to = dep;
        }
        // All else is the same each time.
        if self.depend_as(form, deps, gap) {
            self.forms.repeat();
            self.push_addresses(execution, form);
            form
        } else {
            self.push_other(execution)
        }
    }

    /// An execution that is regular and has not the block's latest form, which all forms remembered are of.
    #[inline(never)]
    fn push_other(&mut self, execution: &Execution) -> usize {
        let (deps, gap) = (execution.deps(), execution.gap(0));
        let older = self.forms.older(execution.block);
        let place = older.iter().position(|&form| {
            let form = (form as usize).checked_sub(1);
            form.is_some_and(|form| self.depend_as(form, deps, gap))
        });
        let next = self.codes.len();
        let form = match place {
            Some(place) => self.forms.bring_back(execution.block, place + 1),
            None => {
                self.forms.start(execution.block, next, true);
                self.new_form(execution)
            }
        };
        self.push_addresses(execution, form);
        form
    }

    /// Tells of an execution that had this form what others have in common with it.
    pub fn tell(&self, usual: &[UsualAccess], form: usize, alike: &mut CommonFields) {
        for (access, made) in usual.iter().zip(&self.made[form..]) {
            alike.push(access, made);
        }
    }

    /// True if the next accesses depend on loads as those that are alike.
    #[inline(always)]
    pub fn are_alike(&self, deps: &[u32], alike: &CommonFields) -> bool {
        let before = &self.deps[self.len..];
        before
            .first_chunk()
            .is_some_and(|before| alike.depend_so(deps, before))
    }

    /// The forms of blocks.
    #[inline(always)]
    pub fn forms(&mut self) -> &mut forms::Encoder {
        &mut self.forms
    }

    /// Appends accesses that are alike, but for their forms.
    #[inline(always)]
    pub fn push_alike(&mut self, addrs: &[u64], deps: &[u32], alike: &CommonFields) {
        let first = self.len;
        // One by one: they are few, and a call to copy them takes longer.
        for (to, &dep) in self.deps[WINDOW + first..].iter_mut().zip(deps) {
            *to = dep;
        }
        for (index, &addr) in (first..).zip(addrs) {
            self.bases[CODE_SITES + index % RING] = addr;
        }
        let mut out = self.place();
        for own in &alike.own {
            let at = usize::from(own.index);
            let index = first + at;
            out.previous = self.bases[CODE_SITES + index.wrapping_sub(1) % RING];
            let base = match own.sibling {
                0 => own.site.into(),
                sibling => CODE_SITES + index.wrapping_sub(sibling.into()) % RING,
            };
            self.put_address(&mut out, addrs[at], own.site.into(), base);
        }
        for &index in &alike.dependants {
            let dep = deps[usize::from(index)];
            let index = first as u32 + u32::from(index);
            let producer = index.wrapping_sub(dep);
            self.dependants[producer as usize % WINDOW] = (producer, index);
        }
        out.previous = addrs.last().copied().unwrap_or(out.previous);
        self.go_on(&out);
        self.len += addrs.len();
    }

    /// True if the next accesses, whose dependences are these and among those of the chunk, depend on loads as those
    /// with the codes from `form` on, and the first one's gap has as much more than the flow says.
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

    /// True if those of which it is not fixed depend on loads as their siblings do.
    #[inline(never)]
    fn depend_as_siblings(&self, made: &[Coded], deps: &[u32]) -> bool {
        let mut all = made.iter().zip(deps).zip(WINDOW + self.len..);
        all.all(|((made, &dep), at)| {
            let back = made.shape.sibling;
            made.bits != 0 || dep == self.deps[at - usize::from(back)].wrapping_add(back.into())
        })
    }

    fn push_form(&mut self, execution: &Execution, regular: bool) -> usize {
        self.highest_site = CODE_SITES;
        let deps = execution.deps();
        self.deps[WINDOW + self.len..][..deps.len()].copy_from_slice(deps);
        let (known, deps, first) = (&self.made, &self.deps, self.len);
        let fits = |form: usize| execution.has_form(known, form, deps, first);
        let next = self.codes.len();
        let form = (self.forms).next(execution.block, next, regular, fits);
        let form = form.unwrap_or_else(|| self.new_form(execution));
        self.push_addresses(execution, form);
        form
    }

    /// Appends the codes of accesses of a block whose form the chunk has not had.
    fn new_form(&mut self, execution: &Execution) -> usize {
        let form = self.codes.len();
        let ops = execution.ops();
        for (index, access) in execution.usual.iter().enumerate() {
            let at = self.len + index;
            let dep = self.deps[WINDOW + at];
            let sibling = self.sibling(at as u32, dep);
            let shape = Shape {
                op: ops[index].0,
                sibling,
                gap: execution.gap(index),
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
    fn push_addresses(&mut self, execution: &Execution, form: usize) {
        let (addrs, usual) = (execution.addrs(), execution.usual);
        let mut out = self.place();
        for (at, (&addr, access)) in addrs.iter().zip(usual).enumerate() {
            let index = self.len + at;
            if access.follows.back == 0 {
                let site = access.site as usize % CODE_SITES;
                let base = match self.made[form + at].shape.sibling {
                    0 => site,
                    sibling => CODE_SITES + index.wrapping_sub(sibling.into()) % RING,
                };
                self.put_address(&mut out, addr, site, base);
            }
            self.bases[CODE_SITES + index % RING] = addr;
            out.previous = addr;
            let dep = self.deps[(WINDOW + index) % DEPS];
            if dep != 0 {
                let producer = (index as u32).wrapping_sub(dep);
                self.dependants[producer as usize % WINDOW] = (producer, index as u32);
            }
        }
        self.go_on(&out);
        self.len += usual.len();
    }

    /// Place of the next address.
    #[inline(always)]
    fn place(&self) -> Place {
        Place {
            classes: self.class_count,
            residuals: self.residual_bytes,
            previous: self.previous,
        }
    }

    /// The next one goes there.
    #[inline(always)]
    fn go_on(&mut self, place: &Place) {
        self.class_count = place.classes;
        self.residual_bytes = place.residuals;
        self.previous = place.previous;
    }

    /// Appends an address, which is predicted from what its site remembers and from this base.
    #[inline(always)]
    fn put_address(&mut self, out: &mut Place, addr: u64, site: usize, base: usize) {
        let site = site % CODE_SITES;
        let from_base = addr.wrapping_sub(self.bases[base]);
        let from_previous = addr.wrapping_sub(out.previous);
        let [step, offset] = self.moves[site];
        self.moves[site] = [from_base as i32, from_previous as i32];
        self.bases[site] = addr;
        let (class, residual) = best(from_base, step as u64, from_previous, offset as u64);
        self.classes[out.classes % MAX_ACCESSES] = class;
        out.classes += 1;
        // Eight bytes whatever the length: the next residual overwrites what is too much.
        let at = out.residuals;
        self.residuals[at..at + 8].copy_from_slice(&residual.to_le_bytes());
        out.residuals += residual_bytes(class);
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
                // Shape that followed this one before.
                let slot = usize::from(guess) % CODE_SITES;
                guess = self.numbering.code(shape, &mut self.guesses[slot]);
                self.codes[codes + at] = guess;
                self.history.push(guess);
                site = self.history.site();
            }
            let base = match sibling {
                0 => site,
                _ => (CODE_SITES + index.wrapping_sub(usize::from(sibling)) % RING) as u16,
            };
            self.places[at] = (site, base);
        }
    }

    fn encode_addresses(&mut self, addrs: &[u64], first: usize) {
        let mut out = self.place();
        let places = std::mem::take(&mut self.places);
        for ((&addr, &(site, base)), index) in addrs.iter().zip(&places).zip(first..) {
            self.put_address(&mut out, addr, site.into(), base.into());
            self.bases[CODE_SITES + index % RING] = addr;
            out.previous = addr;
        }
        self.places = places;
        self.go_on(&out);
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

/// Places of the next class and residual, and the address before.
struct Place {
    classes: usize,
    residuals: usize,
    previous: u64,
}

/// An execution of a block that makes its usual accesses, from access `from` of the batch on.
pub struct Execution<'a> {
    pub batch: &'a Batch,
    pub from: usize,
    pub block: u32,
    pub usual: &'a [UsualAccess],
    /// Instructions between the access before and the block.
    pub pending: u32,
}

impl Execution<'_> {
    #[inline(always)]
    fn range(&self) -> Range<usize> {
        self.from..self.from + self.usual.len()
    }

    #[inline(always)]
    fn addrs(&self) -> &[u64] {
        &self.batch.addr[self.range()]
    }

    #[inline(always)]
    fn ops(&self) -> &[Op] {
        &self.batch.op[self.range()]
    }

    #[inline(always)]
    fn deps(&self) -> &[u32] {
        &self.batch.dep[self.range()]
    }

    /// Excess of an access's gap over the flow's.
    #[inline(always)]
    fn gap(&self, index: usize) -> u32 {
        let pending = if index == 0 { self.pending } else { 0 };
        let usual = u32::from(self.usual[index].gap).wrapping_add(pending);
        self.batch.gap[self.from + index].wrapping_sub(usual)
    }

    /// True if instructions and addresses are the usual ones.
    fn is_usual(&self) -> bool {
        let addrs = self.addrs();
        let sites = &self.batch.site[self.range()];
        let mut all = self.usual.iter().zip(sites).enumerate();
        all.all(|(index, (access, &site))| {
            // An access that follows from none follows from itself here.
            let from = addrs[index - usize::from(access.follows.back)];
            site == access.site && addrs[index] == from.wrapping_add(access.follows.offset as u64)
        })
    }

    /// True if the accesses have the shapes from number `form` on; `deps` are all of the chunk, of which accesses
    /// `first` come before.
    #[inline(never)]
    fn has_form(&self, known: &[Coded], form: usize, deps: &[u32; DEPS], first: usize) -> bool {
        let Some(known) = known.get(form..form + self.usual.len()) else {
            return false;
        };
        let (ops, own) = (self.ops(), self.deps());
        let mut all = known.iter().enumerate();
        all.all(|(index, Coded { shape, .. })| {
            let at = WINDOW + first + index;
            let dep = match shape.sibling {
                0 => shape.dep,
                back => deps[at - usize::from(back)].wrapping_add(back.into()),
            };
            shape.op == ops[index].0 && shape.gap == self.gap(index) && own[index] == dep
        })
    }
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
