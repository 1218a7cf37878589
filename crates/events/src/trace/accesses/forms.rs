//! The shapes that a block's accesses have had: docs/trace-format.md, "Forms".
//!
//! What a block does is mostly what it did the last time, but for the addresses. So of an execution
//! whose accesses are the usual ones only is stored whether their shapes are those of one of the
//! last times, and of which.

use crate::trace::varint;

/// Number of forms that are remembered in a slot.
const RECENT: usize = 4;
/// A block's slot is its number modulo this. What is kept of them fits a core's second-level cache.
const SLOTS: usize = 1 << 13;

/// In the stream: none of the forms that are remembered.
const NEW: u64 = 0;

/// The most bytes of the stream: an execution with accesses takes two varints, one of 17 bits.
pub const MAX_STREAM: usize = super::MAX_ACCESSES * 4;

/// The last forms of blocks: one more than where their codes begin among the chunk's, or another number of them; 0 for
/// none.
struct Recent(Box<[[u32; RECENT]; SLOTS]>);

impl Recent {
    fn new() -> Recent {
        Recent(super::boxed())
    }

    #[inline]
    fn of(&mut self, block: u32) -> &mut [u32; RECENT] {
        &mut self.0[block as usize % SLOTS]
    }

    fn clear(&mut self) {
        self.0.fill([0; RECENT]);
    }
}

/// Puts a form in front, which was at this place.
fn bring_forward(recent: &mut [u32; RECENT], place: usize, form: u32) {
    recent.copy_within(..place, 1);
    recent[0] = form;
}

/// Says which forms come.
pub struct Encoder {
    recent: Recent,
    /// For each slot the block, if all forms there are of regular executions of it.
    owners: Box<[u32; SLOTS]>,
    /// Number of forms in a row that were the block's last one.
    run: u64,
    stream: Vec<u8>,
}

impl Encoder {
    pub fn new() -> Encoder {
        Encoder {
            recent: Recent::new(),
            owners: super::boxed(),
            run: 0,
            stream: Vec::new(),
        }
    }

    /// The latest form of a block, by where its codes begin, if all that are remembered in its slot are of regular
    /// executions of it.
    #[inline(always)]
    pub fn latest(&mut self, block: u32) -> Option<usize> {
        let known = self.owners[block as usize % SLOTS] == block + 1;
        known.then(|| (self.recent.of(block)[0] as usize).wrapping_sub(1))
    }

    /// An execution has the latest form.
    #[inline(always)]
    pub fn repeat(&mut self) {
        self.run += 1;
    }

    /// True if a form is remembered in a block's slot.
    #[inline(always)]
    pub fn remember(&self, block: u32, form: u32) -> bool {
        self.recent.0[block as usize % SLOTS].contains(&(form + 1))
    }

    /// An execution has this form, which is remembered.
    #[inline(always)]
    pub fn have(&mut self, block: u32, form: u32) {
        let recent = self.recent.of(block);
        if recent[0] == form + 1 {
            self.run += 1;
        } else if let Some(place) = recent.iter().position(|&other| other == form + 1) {
            self.bring_back(block, place);
        }
    }

    /// Says which form an execution of the block has: the first of those remembered that `fits`, by where its
    /// codes begin. `None` if none does; the chunk's codes, `next` so far, then go on with those of its accesses.
    pub fn next(
        &mut self,
        block: u32,
        next: usize,
        regular: bool,
        fits: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let recent = self.recent.of(block);
        let fits = |&form: &u32| form > 0 && fits(form as usize - 1);
        if fits(&recent[0]) {
            self.run += 1;
            return Some(recent[0] as usize - 1);
        }
        let found = recent[1..].iter().position(fits);
        let Some(found) = found else {
            self.start(block, next, regular);
            return None;
        };
        Some(self.bring_back(block, found + 1))
    }

    /// The forms of a block that are remembered beside the latest: one more than where their codes begin, 0 for none.
    #[inline(always)]
    pub fn older(&mut self, block: u32) -> [u32; RECENT - 1] {
        let [_, older @ ..] = *self.recent.of(block);
        older
    }

    /// An execution has the form at this place, 1 to 3, which becomes the latest. Returns where its codes begin.
    #[inline(never)]
    pub fn bring_back(&mut self, block: u32, place: usize) -> usize {
        varint::put(&mut self.stream, std::mem::take(&mut self.run));
        varint::put(&mut self.stream, place as u64);
        let recent = self.recent.of(block);
        let form = recent[place];
        bring_forward(recent, place, form);
        form as usize - 1
    }

    /// An execution has a new form, whose codes begin at `next`.
    pub fn start(&mut self, block: u32, next: usize, regular: bool) {
        varint::put(&mut self.stream, std::mem::take(&mut self.run));
        varint::put(&mut self.stream, NEW);
        let recent = self.recent.of(block);
        let owner = &mut self.owners[block as usize % SLOTS];
        let name = if regular { block + 1 } else { 0 };
        // Nobody's any more if there are forms of another execution.
        *owner = if recent[0] == 0 || *owner == name {
            name
        } else {
            0
        };
        bring_forward(recent, RECENT - 1, next as u32 + 1);
    }

    /// Ends the chunk: moves its stream to `stream`, and starts the next.
    pub fn finish(&mut self, stream: &mut Vec<u8>) {
        if self.run > 0 || !self.stream.is_empty() {
            self.recent.clear();
            self.owners.fill(0);
        }
        self.run = 0;
        stream.clear();
        std::mem::swap(stream, &mut self.stream);
    }
}

/// Finds out which forms the executions of one chunk after the other have. Forms have numbers here.
pub struct Decoder {
    /// One more than the numbers of forms.
    recent: Recent,
    /// Number of executions before the next of which the stream says something; without end if it has ended.
    until: u64,
    ended: bool,
    /// Bytes of the stream that were used.
    at: usize,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder {
            recent: Recent::new(),
            until: 0,
            ended: false,
            at: 0,
        }
    }

    /// Starts a chunk with this stream; `None` when it is damaged.
    pub fn start(&mut self, stream: &[u8]) -> Option<()> {
        self.recent.clear();
        self.at = 0;
        self.go_on(stream)
    }

    /// The form of a block's execution; `new` makes one. `None` when the stream is damaged.
    #[inline(always)]
    pub fn next(
        &mut self,
        stream: &[u8],
        block: u32,
        new: impl FnOnce() -> Option<u32>,
    ) -> Option<u32> {
        if self.until == 0 {
            return self.told(stream, block, new);
        }
        self.until -= 1;
        self.recent.of(block)[0].checked_sub(1)
    }

    #[inline(never)]
    fn told(
        &mut self,
        stream: &[u8],
        block: u32,
        new: impl FnOnce() -> Option<u32>,
    ) -> Option<u32> {
        let recent = self.recent.of(block);
        let mut rest = &stream[self.at..];
        let which = varint::take(&mut rest)?;
        self.at = stream.len() - rest.len();
        let form = if which == NEW {
            let form = new()? + 1;
            bring_forward(recent, RECENT - 1, form);
            form
        } else {
            let place = usize::try_from(which).ok()?;
            let form = *recent.get(place)?;
            bring_forward(recent, place, form);
            form
        };
        self.go_on(stream)?;
        form.checked_sub(1)
    }

    /// True if everything was used.
    pub fn is_at_end(&self, stream: &[u8]) -> bool {
        self.ended && self.at == stream.len()
    }

    fn go_on(&mut self, stream: &[u8]) -> Option<()> {
        let mut rest = stream.get(self.at..)?;
        self.ended = rest.is_empty();
        self.until = if self.ended {
            u64::MAX
        } else {
            varint::take(&mut rest)?
        };
        self.at = stream.len() - rest.len();
        Some(())
    }
}
