//! Blocks that are executed in a row again and again: what is found out once of such a chain.
//!
//! Executions are compared with those before one by one. Where several in a row are known to be of the same blocks
//! as others were, their accesses are compared with those of the others all at once, and what is left to see of each
//! block is whether its form is still remembered.

use super::executions::Executions;
use crate::ChainRun;
use crate::trace::accesses;

/// The most chains of which anything is remembered.
const MOST: u32 = 1 << 18;
/// The most accesses of one.
const ACCESSES: usize = accesses::WINDOW;
/// Number of different executions of one that are remembered.
const VARIANTS: usize = 4;
/// So much more often in vain than not is anything found out in a chunk, at most.
const PATIENCE: i32 = 16;

/// The chains of a chunk.
#[derive(Default)]
pub struct Chains {
    /// By number.
    chains: Vec<Chain>,
    /// Counts chunks, from 1.
    chunk: u32,
    /// Executions that are appended one by one, so that something is found out of them.
    meeting: Meeting,
}

#[derive(Default)]
struct Chain {
    /// The chunk of which something has been found out, and how many of the variants are of it, the latest first.
    chunk: u32,
    count: usize,
    variants: Vec<Variant>,
    /// Goes up when one is met again, and down when one is not.
    score: i32,
}

/// Facts found out of executions of a chain.
#[derive(Default)]
pub struct Variant {
    /// The blocks, and their forms; [`NO_FORM`] where a block has no accesses.
    pub blocks: Vec<(u32, u32)>,
    /// The gap of the first access less the instructions between it and the chain.
    gap: u32,
    /// Instructions after the last access.
    pub rest: u32,
    pub accesses: accesses::CommonFields,
}

/// Not the number of a form.
pub const NO_FORM: u32 = u32::MAX;

#[derive(Default)]
struct Meeting {
    chain: usize,
    /// Number of executions that there will be, and the begin of the first one's accesses in the
    /// batch.
    entries: usize,
    from: usize,
    gap: u32,
    blocks: Vec<(u32, u32)>,
}

impl Chains {
    /// The executions before that these are like. Their accesses depend on these loads, and perhaps
    /// there are some more; `gap` is that of the first less the instructions between it and the
    /// chain.
    #[inline(always)]
    pub fn find(
        &mut self,
        alike: &ChainRun,
        accesses: &mut accesses::Encoder,
        deps: &[u32],
        gap: u32,
    ) -> Option<&Variant> {
        let chain = self.chains.get_mut(alike.chain as usize)?;
        if chain.chunk != self.chunk {
            return None;
        }
        let mut variants = chain.variants[..chain.count].iter();
        let place = variants.position(|variant| variant.is(accesses, deps, gap))?;
        if place > 0 {
            chain.variants.swap(0, place);
        }
        chain.score = (chain.score + 1).min(PATIENCE);
        chain.variants.first()
    }

    /// Such executions are appended one by one, from access `from` of the batch on.
    pub fn meet(&mut self, alike: &ChainRun, from: usize, gap: u32) {
        self.meeting.entries = 0;
        if alike.chain >= MOST {
            return;
        }
        let number = alike.chain as usize;
        if number >= self.chains.len() {
            self.chains.resize_with(number + 1, Chain::default);
        }
        let chain = &mut self.chains[number];
        if chain.chunk != self.chunk {
            chain.chunk = self.chunk;
            chain.count = 0;
            chain.score = 0;
        }
        if chain.score > -PATIENCE {
            chain.score -= 1;
            self.meeting.chain = number;
            self.meeting.entries = alike.entries as usize;
            self.meeting.from = from;
            self.meeting.gap = gap;
            self.meeting.blocks.clear();
        }
    }

    /// An execution was appended, and had this form. If it was the last of those met, where the first access was.
    #[inline(always)]
    pub fn note(&mut self, block: u32, form: Option<usize>) -> Option<usize> {
        let meeting = &mut self.meeting;
        if meeting.entries == 0 {
            return None;
        }
        let form = form.map_or(NO_FORM, |form| form as u32);
        meeting.blocks.push((block, form));
        (meeting.blocks.len() == meeting.entries).then_some(meeting.from)
    }

    /// Finds out what others have in common with these executions, of these dependences and with so many
    /// instructions after the last access.
    #[inline(never)]
    pub fn learn(
        &mut self,
        accesses: &accesses::Encoder,
        executions: &Executions,
        deps: &[u32],
        rest: u32,
    ) {
        self.meeting.entries = 0;
        if deps.is_empty() || deps.len() > ACCESSES {
            return;
        }
        let (chain, blocks) = (&mut self.chains[self.meeting.chain], &self.meeting.blocks);
        if chain.count == chain.variants.len() && chain.count < VARIANTS {
            chain.variants.push(Variant::default());
        }
        chain.count = (chain.count + 1).min(VARIANTS);
        chain.variants[..chain.count].rotate_right(1);
        let variant = &mut chain.variants[0];
        variant.blocks.clone_from(blocks);
        variant.gap = self.meeting.gap;
        variant.rest = rest;
        variant.accesses.start(deps);
        for &(block, form) in blocks.iter().filter(|block| block.1 != NO_FORM) {
            let usual = executions.usual(block).accesses;
            accesses.tell(usual, form as usize, &mut variant.accesses);
        }
    }

    /// The executions met are not appended to their end.
    pub fn part(&mut self) {
        self.meeting.entries = 0;
    }

    /// Starts the next chunk, which has forms of its own.
    pub fn clear(&mut self) {
        self.part();
        self.chunk = self.chunk.wrapping_add(1);
    }
}

impl Variant {
    #[inline(always)]
    fn is(&self, accesses: &mut accesses::Encoder, deps: &[u32], gap: u32) -> bool {
        gap == self.gap
            && accesses.are_alike(deps, &self.accesses)
            && (self.blocks.iter())
                .all(|&(block, form)| form == NO_FORM || accesses.forms().remember(block, form))
    }
}
