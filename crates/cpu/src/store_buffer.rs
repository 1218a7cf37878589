//! The store buffer: what has retired and waits to be written, in the order of the program.

use crate::config::CoreConfig;
use std::collections::VecDeque;

/// When its entries are free, and its stores written.
#[derive(Clone, Debug)]
pub(crate) struct StoreBuffer {
    /// When each of the last entries is free again, the oldest at `next`.
    free_at: Vec<u64>,
    next: usize,
    /// Slots from one store's write to the next one's.
    apart: u64,
    /// When the last store is written.
    written: u64,
    /// Locked instructions' stores that have not retired, the first of them, and how much longer than others
    /// each takes.
    locked: VecDeque<usize>,
    next_locked: usize,
    atomics: u64,
}

impl StoreBuffer {
    pub(crate) fn new(config: &CoreConfig) -> Self {
        let apart = u64::from(config.width.div_ceil(config.store_ports));
        let atomics = config.arithmetic().unwrap_or_default().atomics;
        let atomics = u64::from(atomics) * u64::from(config.width);
        StoreBuffer {
            free_at: vec![0; config.store_buffer as usize],
            next: 0,
            apart,
            written: 0,
            locked: VecDeque::new(),
            next_locked: usize::MAX,
            atomics: atomics.saturating_sub(apart),
        }
    }

    #[inline(always)]
    pub(crate) fn places(&self) -> usize {
        self.free_at.len()
    }

    /// When the entry is free that a store takes after `others` more.
    #[inline(always)]
    pub(crate) fn free_after(&self, others: usize) -> u64 {
        let place = self.next + others;
        let places = self.free_at.len();
        self.free_at[if place < places {
            place
        } else {
            place - places
        }]
    }

    /// A store that will be written is a locked instruction's.
    pub(crate) fn lock(&mut self, access: usize) {
        if self.atomics > 0 {
            self.locked.push_back(access);
            self.next_locked = self.locked[0];
        }
    }

    #[cold]
    fn write_locked(&mut self) {
        self.written += self.atomics;
        self.locked.pop_front();
        self.next_locked = self.locked.front().copied().unwrap_or(usize::MAX);
    }

    /// Writes a store that has retired and whose line was there at `done`.
    #[inline(always)]
    pub(crate) fn write(&mut self, access: usize, retired: u64, done: u64) {
        self.written = (self.written + self.apart).max(retired).max(done);
        if access == self.next_locked {
            self.write_locked();
        }
        self.free_at[self.next] = self.written;
        self.next += 1;
        if self.next == self.free_at.len() {
            self.next = 0;
        }
    }
}
