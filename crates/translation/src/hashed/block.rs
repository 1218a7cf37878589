//! Contiguous simulated memory for a table.

use crate::{FrameUse, Frames, Work};
use pagelab_addr::{LINE_SHIFT, PAGE_BYTES, PAGE_SHIFT, PageSize, Pfn, PhysAddr};
use serde::Serialize;

/// Ways in which contiguous memory for tables was come by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContiguityCounters {
    /// Bytes of the largest contiguous block ever taken.
    pub largest_block_bytes: u64,
    /// Blocks that no free contiguous memory was found for at first.
    pub not_free: u64,
    /// Blocks among those that were made free by moving data (`compaction`).
    pub compacted: u64,
    /// Pages of data moved for that, of any size.
    pub pages_moved: u64,
    /// Blocks that could not be had at all.
    pub failed: u64,
}

/// 2^`order` contiguous, aligned frames.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    base: Pfn,
    order: u32,
    /// The frames were taken one by one, and go back so.
    assembled: bool,
}

impl Block {
    /// Takes a block, with `compaction` also where movable data lie. What was moved is in
    /// `work`, for the caller to follow.
    pub(crate) fn allocate<F: Frames>(
        frames: &mut F,
        order: u32,
        compaction: bool,
        counters: &mut ContiguityCounters,
        work: &mut Work,
    ) -> Option<Block> {
        let moved = work.displaced.len();
        let block = match frames.allocate_table(order) {
            Some(base) => Some(Block {
                base,
                order,
                assembled: false,
            }),
            None => {
                counters.not_free += 1;
                let base = compaction.then(|| assemble(frames, order, work)).flatten();
                base.map(|base| Block {
                    base,
                    order,
                    assembled: true,
                })
            }
        };
        counters.pages_moved += (work.displaced.len() - moved) as u64;
        match &block {
            Some(block) => {
                counters.compacted += u64::from(block.assembled);
                counters.largest_block_bytes = counters.largest_block_bytes.max(block.bytes());
                work.table_frames += 1 << order;
            }
            None => counters.failed += 1,
        }
        block
    }

    pub(crate) fn free<F: Frames>(self, frames: &mut F) {
        if self.assembled {
            for frame in 0..1 << self.order {
                frames.free_table(Pfn(self.base.0 + frame), 0);
            }
        } else {
            frames.free_table(self.base, self.order);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        PAGE_BYTES << self.order
    }

    /// The address of its `number`th line.
    #[inline]
    pub(crate) fn line(&self, number: usize) -> PhysAddr {
        PhysAddr(self.base.address().0 + ((number as u64) << LINE_SHIFT))
    }

    /// The order of the smallest block with so many lines.
    pub(crate) fn order_of(lines: usize) -> u32 {
        lines
            .div_ceil(1 << (PAGE_SHIFT - LINE_SHIFT))
            .next_power_of_two()
            .ilog2()
    }
}

/// Makes the first aligned range free in which nothing stands that cannot be moved, as
/// `alloc_contig_pages` of Linux does (mm/page_alloc.c), and takes it frame by frame.
///
/// Pages of 1 GiB count as unmovable.
fn assemble<F: Frames>(frames: &mut F, order: u32, work: &mut Work) -> Option<Pfn> {
    let length = 1u32.checked_shl(order)?;
    let mut start = 0u32;
    while frames.count() - start >= length {
        match last_unmovable(frames, start, length) {
            None => return take_range(frames, start, length, work),
            Some(_) => start += length,
        }
        if start > frames.count() {
            break;
        }
    }
    None
}

fn last_unmovable<F: Frames>(frames: &F, start: u32, length: u32) -> Option<u32> {
    let whole = |size: PageSize| size.base_pages() <= length.max(PageSize::Large2M.base_pages());
    (start..start + length)
        .rev()
        .find(|&frame| match frames.usage(Pfn(frame)) {
            FrameUse::Free => false,
            FrameUse::Movable(size) => size == PageSize::Huge1G || !whole(size),
            FrameUse::Unmovable(_) | FrameUse::PageTable => true,
        })
}

fn take_range<F: Frames>(frames: &mut F, start: u32, length: u32, work: &mut Work) -> Option<Pfn> {
    let range = start..start + length;
    // Free frames come first, so that nothing is moved to there.
    let mut taken: Vec<u32> = range
        .clone()
        .filter(|&frame| frames.claim_table(Pfn(frame)))
        .collect();
    for frame in range {
        if frames.usage(Pfn(frame)) == FrameUse::PageTable {
            continue;
        }
        let Some(displaced) = frames.displace(Pfn(frame)) else {
            for frame in taken {
                frames.free_table(Pfn(frame), 0);
            }
            return None;
        };
        taken.push(frame);
        // The rest of a larger page is free now.
        let rest = displaced.from.0..displaced.from.0 + displaced.size.base_pages();
        let inside = rest.filter(|frame| (start..start + length).contains(frame));
        taken.extend(inside.filter(|&frame| frames.claim_table(Pfn(frame))));
        work.displaced.push(displaced);
    }
    Some(Pfn(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::FakeFrames;

    fn allocate(frames: &mut FakeFrames, order: u32, compaction: bool) -> (Option<Block>, Work) {
        let mut work = Work::default();
        let mut counters = ContiguityCounters::default();
        let block = Block::allocate(frames, order, compaction, &mut counters, &mut work);
        assert_eq!(counters.pages_moved, work.displaced.len() as u64);
        assert_eq!(counters.failed, u64::from(block.is_none()));
        (block, work)
    }

    #[test]
    fn compaction_moves_what_is_in_the_way_and_nothing_else() {
        let mut frames = FakeFrames::new(1024, 0, 1);
        for frame in (0..1024).step_by(4) {
            frames.occupy(Pfn(frame), PageSize::Base4K, true);
        }
        assert!(allocate(&mut frames, 3, false).0.is_none());
        let (block, work) = allocate(&mut frames, 3, true);
        let block = block.unwrap();
        assert_eq!(work.displaced.len(), 2);
        assert_eq!(frames.table_bytes(), block.bytes());
        for line in 0..8 * 64 {
            assert!(frames.is_table(block.line(line)));
        }
        block.free(&mut frames);
        assert_eq!(frames.table_bytes(), 0);
        assert_eq!(frames.free_frames(), 768);
    }

    #[test]
    fn a_large_page_moves_as_a_whole() {
        let mut frames = FakeFrames::new(4 * 512, 0, 1);
        // In the first half a 2 MiB page and in every other block one page that stays.
        frames.occupy(Pfn(0), PageSize::Large2M, true);
        frames.occupy(Pfn(3 * 512 + 7), PageSize::Base4K, false);
        let (block, work) = allocate(&mut frames, 10, true);
        let block = block.unwrap();
        assert_eq!(block.line(0), PhysAddr(0));
        assert_eq!(work.displaced.len(), 1);
        assert_eq!(work.displaced[0].to, Pfn(2 * 512));
        block.free(&mut frames);
        assert_eq!(frames.free_frames(), 3 * 512 - 1);
    }

    #[test]
    fn what_cannot_be_had_leaves_everything_free() {
        let mut frames = FakeFrames::new(64, 0, 1);
        for frame in (0..64).step_by(8) {
            frames.occupy(Pfn(frame), PageSize::Base4K, false);
        }
        assert!(allocate(&mut frames, 3, true).0.is_none());
        assert!(allocate(&mut frames, 30, true).0.is_none());
        assert_eq!(frames.free_frames(), 56);
        // Movable, but there is nowhere to move to.
        let mut frames = FakeFrames::new(16, 0, 1);
        for frame in 0..15 {
            frames.occupy(Pfn(frame), PageSize::Base4K, true);
        }
        assert!(allocate(&mut frames, 2, true).0.is_none());
        assert_eq!(frames.free_frames(), 1);
        assert_eq!(frames.table_bytes(), 0);
    }

    #[test]
    fn orders_hold_their_lines() {
        for (lines, order) in [(1, 0), (64, 0), (65, 1), (128, 1), (129, 2), (16384, 8)] {
            assert_eq!(Block::order_of(lines), order, "{lines} lines");
        }
    }
}
