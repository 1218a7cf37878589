//! When nothing more needs to be reported: behind the last window.
//!
//! How far the program has come is counted block by block, as the plugin does it for what it leaves out. Blocks
//! that were left in the middle make it too much, calls of the kernel too little, so reporting ends only when
//! the last window is far behind. What is recorded is decided when the trace is made.

use std::sync::atomic::Ordering;

use pagelab_recorder_wire::block::{Block, Reporting};
use pagelab_recorder_wire::region::Header;
use pagelab_recorder_wire::word::Kind;

use crate::window::Window;

/// Blocks have lower numbers: of others nothing is counted.
const MOST_BLOCKS: usize = 1 << 24;

/// Counts accesses or instructions up to a limit.
pub(crate) struct Limit {
    in_instructions: bool,
    reporting: Reporting,
    at: u64,
    until: u64,
    /// Count of each block.
    counts: Vec<u32>,
}

impl Limit {
    /// That of a window, if it has one.
    pub(crate) fn of(window: &Window, reporting: Reporting) -> Option<Limit> {
        let more = window.limit / 4 + (1 << 20);
        (window.limit > 0).then(|| Limit {
            in_instructions: window.in_instructions,
            reporting,
            at: 0,
            until: (window.skip.saturating_add(window.limit)).saturating_add(more),
            counts: Vec::new(),
        })
    }

    /// Takes note of a message.
    pub(super) fn follow(&mut self, kind: Kind, message: &[u64]) {
        match (kind, message) {
            (Kind::Define, &[_, number, pc, instructions, ref bytes @ ..]) => {
                let bytes: Vec<u8> = bytes.iter().flat_map(|word| word.to_le_bytes()).collect();
                let number = number as usize;
                let (Some((lengths, code)), true) = (
                    bytes.split_at_checked(instructions as usize),
                    number < MOST_BLOCKS,
                ) else {
                    return;
                };
                if self.counts.len() <= number {
                    self.counts.resize(number + 1, 0);
                }
                self.counts[number] = if self.in_instructions {
                    lengths.len() as u32
                } else {
                    Block::analyse(pc, lengths, code, self.reporting)
                        .script
                        .len() as u32
                };
            }
            (Kind::Skipped, &[_, instructions, accesses]) => {
                self.at += if self.in_instructions {
                    instructions
                } else {
                    accesses
                };
            }
            _ => {}
        }
    }

    /// Counts the blocks among these words.
    pub(super) fn count(&mut self, words: &[u64]) {
        const BLOCK: u64 = Kind::Block.word(0) >> 32;
        for word in words.iter().filter(|&word| word >> 32 == BLOCK) {
            let count = self.counts.get(*word as u32 as usize);
            self.at += u64::from(count.copied().unwrap_or(0));
        }
    }

    /// Has nothing more reported if the limit is far behind; whether that is so.
    pub(super) fn close(&self, header: &Header) -> bool {
        let behind = self.at >= self.until;
        if behind {
            header.left.0.store(i64::MAX, Ordering::Release);
            header.reporting.0.store(0, Ordering::Release);
            // Threads look what is wanted when the epoch moves.
            header.epoch.0.fetch_add(1, Ordering::SeqCst);
        }
        behind
    }
}
