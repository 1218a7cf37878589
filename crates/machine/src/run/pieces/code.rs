use crate::fetch::{BlockLines, FollowingLine};
use pagelab_addr::LINE_SHIFT;
use pagelab_events::{Batch, Flow};

/// Follows what is executed from line to line, as the machine does (`machine/fetch/`), but that each line
/// is told, at hand or not.
#[derive(Default)]
pub(super) struct Executed {
    lines: BlockLines,
    /// The entry of the flow, and the line of its block; lines of the block that had begun before.
    entry: usize,
    line: u32,
    begun: u32,
}

impl Executed {
    /// Goes on with a batch.
    pub(super) fn begin(&mut self, batch: &Batch) {
        for definition in &batch.definitions {
            self.lines.define(definition);
        }
        (self.entry, self.line, self.begun) = (0, 0, 0);
    }

    /// The address of the next line that is needed before access `at` of the batch, or before one before it.
    pub(super) fn next(&mut self, batch: &Batch, at: usize) -> Option<u64> {
        if let Some(begun) = &batch.begun
            && let Some((access, line, _)) = self.lines.rest(begun, self.begun).next()
        {
            if access > at {
                return None;
            }
            self.begun += 1;
            return Some(line << LINE_SHIFT);
        }
        loop {
            let &(start, flow) = batch.flow.get(self.entry)?;
            let start = start as usize;
            if start > at {
                return None;
            }
            let Flow::Block(block) = flow else {
                self.entry += 1;
                continue;
            };
            let block = self.lines.block(block);
            if self.line > block.others {
                (self.entry, self.line) = (self.entry + 1, 0);
                continue;
            }
            if let Some(other) = self.line.checked_sub(1) {
                let FollowingLine { accesses, .. } = self.lines.later(block, other);
                let next = batch.flow.get(self.entry + 1);
                let next = next.map_or(batch.len(), |next| next.0 as usize);
                if (start + accesses as usize).min(next) > at {
                    return None;
                }
            }
            let line = block.first.wrapping_add(u64::from(self.line));
            self.line += 1;
            return Some(line << LINE_SHIFT);
        }
    }
}
