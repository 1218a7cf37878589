use crate::{Frames, Work};
use pagelab_addr::{Pfn, PhysAddr};

/// Ranges of a node of 4 KiB, 32 bytes each: base, limit, offset with permissions, child. (The
/// paper has a B-tree too and does not need its layout.)
const FAN_OUT: usize = 128;
const LINES_PER_NODE: u64 = 64;
/// Levels that any memory needs.
const LEVELS: usize = 5;

/// Places of the range table, a B-tree, in simulated memory. Its shape follows from the number of
/// ranges, its nodes being full.
#[derive(Clone, Debug, Default)]
pub(super) struct TableFrames {
    /// The leaves first.
    levels: [Vec<Pfn>; LEVELS],
}

impl TableFrames {
    pub(super) fn count(&self) -> u64 {
        self.levels.iter().map(|level| level.len() as u64).sum()
    }

    /// Takes or gives back frames until there is room for `ranges`. Without memory for a node its
    /// ranges are left out of walks.
    pub(super) fn fit<F: Frames>(&mut self, frames: &mut F, ranges: usize, work: &mut Work) {
        let mut entries = ranges;
        let mut is_leaf = true;
        for level in &mut self.levels {
            // Above a single node there is none.
            let wanted = if is_leaf || entries > 1 {
                entries.div_ceil(FAN_OUT)
            } else {
                0
            };
            while level.len() > wanted {
                if let Some(frame) = level.pop() {
                    frames.free_table(frame, 0);
                }
            }
            while level.len() < wanted
                && let Some(frame) = frames.allocate_table(0)
            {
                level.push(frame);
                work.table_frames += 1;
            }
            (entries, is_leaf) = (wanted, false);
        }
    }

    /// Reads of a walk for the range that begins at a page, from the root down. Which node and line
    /// has the range is taken from a hash of its address.
    pub(super) fn path(&self, first: u64) -> impl Iterator<Item = PhysAddr> {
        let hash = first.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let levels = self.levels.iter().rev().filter(|nodes| !nodes.is_empty());
        levels.map(move |nodes| {
            let node = ((u128::from(hash) * nodes.len() as u128) >> 64) as usize;
            let line = (hash >> 20) % LINES_PER_NODE;
            PhysAddr(nodes[node].address().0 + line * 64)
        })
    }
}
