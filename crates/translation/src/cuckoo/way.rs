//! One way of an elastic cuckoo table: lines in simulated memory, of which each holds a key, and
//! at most one resize under way.
//!
//! While a way is resized, a pointer moves over its lines as they were before. A key whose old
//! line the pointer has passed is found by the new size, any other by the old one; so a search
//! reads one line of each way at any time (Skarlatos et al., ASPLOS 2020).

use crate::Frames;
use crate::city::Unseeded;
use crate::hashed::Block;
use pagelab_addr::PhysAddr;

/// No key.
pub(super) const NONE: u32 = u32::MAX;

/// Lines in chunks of equal size, each contiguous.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) chunks: Vec<Block>,
    /// log2 of the lines of a chunk.
    pub(super) chunk_shift: u32,
}

impl Lines {
    #[inline]
    fn address(&self, line: usize) -> PhysAddr {
        self.chunks[line >> self.chunk_shift].line(line & ((1 << self.chunk_shift) - 1))
    }

    /// Lines that there is room for.
    pub(super) fn room(&self) -> usize {
        self.chunks.len() << self.chunk_shift
    }

    fn bytes(&self) -> u64 {
        self.chunks.iter().map(Block::bytes).sum()
    }

    pub(super) fn free<F: Frames>(self, frames: &mut F) {
        for chunk in self.chunks {
            chunk.free(frames);
        }
    }
}

/// Keys by line. Their number is a power of two, and the hash's low bits choose one.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub(super) seed: u64,
    pub(super) keys: Vec<u32>,
    pub(super) lines: Lines,
}

impl Storage {
    pub(super) fn new(seed: u64, entries: usize, lines: Lines) -> Storage {
        debug_assert!(entries.is_power_of_two() && lines.room() >= entries);
        Storage {
            seed,
            keys: vec![NONE; entries],
            lines,
        }
    }
}

/// Place of a key's line: in the old storage or in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) next: bool,
    pub(super) line: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Way {
    main: Storage,
    /// Storage to which a resize that is not in place moves the keys.
    next: Option<Storage>,
    /// Lines before the resize under way: all of `main`, or half of it when in place.
    old: usize,
    /// The first of those that was not rehashed yet.
    pointer: usize,
    /// Keys in both storages.
    pub(super) used: usize,
    /// Keys entered since the pointer last moved.
    pub(super) owed: u32,
}

/// Line that the pointer meets next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// A key that moved to its new line, or stays in its line, in place.
    Rehashed { moved: bool, key: u32 },
    /// A key that was taken out of its line, `from`, and has to be entered again.
    TakenOut { key: u32, from: usize },
    /// The end: the resize is over.
    End,
}

impl Way {
    pub(super) fn new(main: Storage) -> Way {
        Way {
            old: main.keys.len(),
            main,
            next: None,
            pointer: 0,
            used: 0,
            owed: 0,
        }
    }

    /// Entries that it has room for, the resize under way finished.
    pub(super) fn entries(&self) -> usize {
        self.next.as_ref().unwrap_or(&self.main).keys.len()
    }

    /// The seed of its hash, before the resize under way.
    pub(super) fn seed(&self) -> u64 {
        self.main.seed
    }

    pub(super) fn is_resizing(&self) -> bool {
        self.next.is_some() || self.old < self.main.keys.len()
    }

    pub(super) fn lines(&self) -> &Lines {
        &self.main.lines
    }

    pub(super) fn bytes(&self) -> u64 {
        let next = self.next.as_ref().map_or(0, |next| next.lines.bytes());
        self.main.lines.bytes() + next
    }

    #[inline]
    pub(super) fn place(&self, hash: Unseeded) -> Bucket {
        let seeded = hash.with_seed(self.main.seed) as usize;
        let line = seeded & (self.old - 1);
        if line >= self.pointer {
            return Bucket { next: false, line };
        }
        match &self.next {
            None => Bucket {
                next: false,
                line: seeded & (2 * self.old - 1),
            },
            Some(next) => Bucket {
                next: true,
                line: hash.with_seed(next.seed) as usize & (next.keys.len() - 1),
            },
        }
    }

    #[inline]
    fn storage(&self, place: Bucket) -> &Storage {
        match &self.next {
            Some(next) if place.next => next,
            _ => &self.main,
        }
    }

    /// The address of the line where a key is, if it is in this way.
    #[inline]
    pub(super) fn address(&self, hash: Unseeded) -> PhysAddr {
        let place = self.place(hash);
        self.storage(place).lines.address(place.line)
    }

    pub(super) fn get(&self, place: Bucket) -> u32 {
        self.storage(place).keys[place.line]
    }

    /// Puts a key into a line; returns what was there.
    pub(super) fn replace(&mut self, place: Bucket, key: u32) -> u32 {
        let storage = match &mut self.next {
            Some(next) if place.next => next,
            _ => &mut self.main,
        };
        std::mem::replace(&mut storage.keys[place.line], key)
    }

    /// Starts to double in place; there are lines for it.
    pub(super) fn start_in_place(&mut self, more: Vec<Block>) {
        debug_assert!(!self.is_resizing());
        self.main.lines.chunks.extend(more);
        self.main.keys.resize(2 * self.old, NONE);
        debug_assert!(self.main.lines.room() >= self.main.keys.len());
    }

    /// Starts to move to another storage.
    pub(super) fn start_moving(&mut self, next: Storage) {
        debug_assert!(!self.is_resizing());
        self.next = Some(next);
    }

    /// Rehashes the next key that the pointer meets, if a resize is under way.
    pub(super) fn rehash<F: Frames>(
        &mut self,
        frames: &mut F,
        hash_of: impl Fn(u32) -> Unseeded,
    ) -> Met {
        while self.pointer < self.old && self.is_resizing() {
            let from = self.pointer;
            self.pointer += 1;
            let key = self.main.keys[from];
            if key == NONE {
                continue;
            }
            if self.next.is_some() {
                self.main.keys[from] = NONE;
                self.used -= 1;
                return Met::TakenOut { key, from };
            }
            // One more bit of the hash: the line or the one as far on as there were lines. No
            // other key can be there, since only keys of this line go there.
            let Bucket { line, .. } = self.place(hash_of(key));
            self.main.keys.swap(from, line);
            debug_assert!(line == from || self.main.keys[from] == NONE);
            let moved = line != from;
            return Met::Rehashed { moved, key };
        }
        self.end(frames);
        Met::End
    }

    fn end<F: Frames>(&mut self, frames: &mut F) {
        if let Some(next) = self.next.take() {
            std::mem::replace(&mut self.main, next).lines.free(frames);
        }
        self.old = self.main.keys.len();
        self.pointer = 0;
    }

    /// Undoes [`Met::TakenOut`].
    pub(super) fn put_back(&mut self, key: u32, from: usize) {
        self.main.keys[from] = key;
        self.pointer = from;
        self.used += 1;
    }

    pub(super) fn free<F: Frames>(self, frames: &mut F) {
        self.main.lines.free(frames);
        if let Some(next) = self.next {
            next.lines.free(frames);
        }
    }
}
