//! Executed blocks, and the instruction of each access, as small numbers.
//!
//! docs/trace-format.md is the definition. In short: a chunk's flow is a sequence of *symbols*, each
//! a thread or a block. Which block comes next is predicted from the last ones; stored are how many
//! predictions in a row are right, and what comes where one is not. An execution covers the accesses
//! up to the next entry; where they are not those of its definition they are listed.

mod blocks;
mod chains;
mod decoder;
mod encoder;
mod entries;
mod executions;
mod version4;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub use entries::Entries;
use entries::Entry;
pub use executions::UsualAccess;
pub use version4::Streams as Version4Streams;

use crate::Flow;

/// The largest number of entries in a chunk's flow.
pub const MAX_FLOW: usize = 1 << 18;
/// The most bytes of the streams: runs, turns, exceptions. A run takes a varint of 19 bits; a turn three
/// varints of 35 bits at most; an exception one of 33 for each access and two more.
pub const MAX_STREAM: [usize; 3] = [
    (MAX_FLOW + 1) * 3,
    MAX_FLOW * 11,
    (1 << 16) * 5 + MAX_FLOW * 10,
];

/// The streams of one chunk.
#[derive(Default)]
pub struct Streams {
    /// Number of entries in a row that are as predicted, before each of the turns and after the
    /// last.
    pub runs: Vec<u8>,
    /// The entries that are not.
    pub turns: Vec<u8>,
    /// Entries whose accesses are not those of the definition.
    pub exceptions: Vec<u8>,
}

/// A turn: the other block that the last ones were followed by.
const OTHER: u64 = 0;
/// A turn: a thread, of which the numbers follow.
const THREAD: u64 = 1;
/// A turn: a block, plus its distance from the one after the last.
const BLOCK: u64 = 2;

/// A symbol: who goes on, or what is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// This thread of this process.
    Thread { process: u32, thread: u32 },
    /// This block.
    Block(u32),
}

impl Symbol {
    /// The symbol of an entry of a batch of this process.
    pub fn of(flow: Flow, process: u32) -> Symbol {
        match flow {
            Flow::Thread(thread) => Symbol::Thread { process, thread },
            Flow::Block(block) => Symbol::Block(block),
        }
    }
}

/// Bits of the number of a context.
const CONTEXT_BITS: u32 = 15;

/// Blocks that have followed the last ones.
struct Followers {
    /// By context the last two blocks that followed, the last one first: one more than their numbers, 0 for
    /// none.
    seen: Box<[[u32; 2]; 1 << CONTEXT_BITS]>,
    /// The last six blocks, mixed.
    history: u64,
    /// One more than the number of the block before.
    next: u32,
}

impl Followers {
    fn new() -> Followers {
        let seen = vec![[0; 2]; 1 << CONTEXT_BITS].into_boxed_slice();
        Followers {
            seen: seen.try_into().expect("the length is that of the type"),
            history: 0,
            next: 0,
        }
    }

    fn clear(&mut self) {
        self.seen.fill([0; 2]);
        self.history = 0;
        self.next = 0;
    }

    /// The context of the next block.
    #[inline]
    fn context(&self) -> usize {
        context(self.history)
    }

    /// The block that is predicted there; where the context is new, the one defined after the last.
    #[inline]
    fn predicted(&self, context: usize) -> u32 {
        match self.seen[context][0] {
            0 => self.next,
            block => block - 1,
        }
    }

    /// The other one, if there is one.
    #[inline]
    fn other(&self, context: usize) -> Option<u32> {
        self.seen[context][1].checked_sub(1)
    }

    /// Appends the blocks that are predicted next, so many. Whether there are all of them, of `blocks` that
    /// there are in all.
    fn predict(&mut self, count: usize, blocks: usize, out: &mut Vec<Entry>) -> bool {
        // In registers, which a vector's memory cannot be thought to overlap.
        let (mut history, mut next) = (self.history, self.next);
        let mut sound = true;
        out.extend((0..count).map(|_| {
            let context = context(history);
            let seen = &mut self.seen[context];
            let found = match seen[0] {
                0 => next.wrapping_add(1),
                found => found,
            };
            next = found;
            seen[0] = found;
            history = history << 11 ^ u64::from(found);
            sound &= found as usize <= blocks;
            Entry::of(found.wrapping_sub(1))
        }));
        (self.history, self.next) = (history, next);
        sound
    }

    /// True if a block comes that came last after the same blocks; it has come then.
    #[inline(always)]
    fn came_again(&mut self, block: u32) -> bool {
        let next = block + 1;
        let again = self.seen[self.context()][0] == next;
        if again {
            self.next = next;
            self.history = self.history << 11 ^ u64::from(next);
        }
        again
    }

    /// The block that came; no number reaches 2^26.
    #[inline]
    fn came(&mut self, context: usize, block: u32) {
        self.next = block + 1;
        let seen = &mut self.seen[context];
        if seen[0] != self.next {
            *seen = [self.next, seen[0]];
        }
        self.history = self.history << 11 ^ u64::from(self.next);
    }
}

/// The context after these blocks.
#[inline(always)]
fn context(history: u64) -> usize {
    (history.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CONTEXT_BITS)) as usize
}
