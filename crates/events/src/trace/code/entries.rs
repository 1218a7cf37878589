//! The entries of a chunk's flow.

use crate::Flow;

/// Mark of an entry that names a thread: this and its number among the chunk's entries that name
/// one.
const THREAD: u32 = 1 << 31;

/// An entry.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The access before which it starts, once that is known.
    pub at: u32,
    /// The block, or a thread.
    what: u32,
}

impl Entry {
    /// The entry of a block below 2^31.
    #[inline(always)]
    pub fn of(block: u32) -> Entry {
        Entry { at: 0, what: block }
    }

    /// The entry of a batch's flow that says the same of a block.
    #[inline(always)]
    pub fn executes(self) -> Flow {
        Flow::Block(self.what)
    }

    /// The block that is executed; `None` if a thread goes on.
    #[inline(always)]
    pub fn block(self) -> Option<u32> {
        (self.what & THREAD == 0).then_some(self.what)
    }
}

/// A thread that goes on.
#[derive(Clone, Copy)]
pub struct Goes {
    /// Entry that says so.
    pub entry: u32,
    pub process: u32,
    pub thread: u32,
}

/// The entries of a chunk's flow.
#[derive(Default)]
pub struct Entries {
    all: Vec<Entry>,
    threads: Vec<Goes>,
}

impl Entries {
    pub fn clear(&mut self) {
        self.all.clear();
        self.threads.clear();
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn push_block(&mut self, block: u32) {
        self.all.push(Entry::of(block));
    }

    pub fn push_thread(&mut self, process: u32, thread: u32) {
        let entry = self.all.len() as u32;
        self.all.push(Entry::of(THREAD | self.threads.len() as u32));
        self.threads.push(Goes {
            entry,
            process,
            thread,
        });
    }

    /// All of them.
    pub fn all(&self) -> &[Entry] {
        &self.all
    }

    /// The entries, to append blocks or to change.
    pub fn all_mut(&mut self) -> &mut Vec<Entry> {
        &mut self.all
    }

    /// True if there is one and it names a thread.
    pub fn begin_with_thread(&self) -> bool {
        self.threads.first().is_some_and(|first| first.entry == 0)
    }

    /// The first thread that goes on at entry `from` or later.
    pub fn next_thread(&self, from: usize) -> Option<Goes> {
        let at = (self.threads).partition_point(|goes| (goes.entry as usize) < from);
        self.threads.get(at).copied()
    }
}
