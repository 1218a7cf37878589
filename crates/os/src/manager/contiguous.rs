//! The `contiguous` manager: pieces that are as long as possible, given and mapped when a mapping is made, as contigmfs
//! in `linux/modules` has them (FBMM paper, section 5.3, after Redundant Memory Mappings).

use super::{About, Manager, Run};
use crate::frames::buddy::Buddy;
use crate::frames::tag;
use pagelab_addr::Pfn;

pub(super) const ABOUT: About = (
    "contiguous",
    "4K pages in rows as long as possible, given when a mapping is made: private memory only (contigmfs)",
);

/// The longest piece: 64 MiB (`CONTIG_MOST`).
const MOST: u32 = 1 << 14;
/// Orders of pieces.
const ORDERS: usize = MOST.ilog2() as usize + 1;

#[derive(Clone, Debug, Default)]
pub(super) struct Contiguous {
    pieces: [u64; ORDERS],
}

/// Order of the smallest block that has so many pages.
fn order_base_2(nr: u32) -> u32 {
    nr.next_power_of_two().ilog2()
}

/// A block of the buddy allocator, or the largest that there is, as single pages. What is longer than needed goes back
/// at once (`contig_alloc_block`).
fn alloc_block(memory: &mut Buddy, run: &mut Run) -> Option<Pfn> {
    let most = order_base_2(run.nr).min(memory.max_order());
    let mut orders = (0..=most).rev();
    let (head, order) =
        orders.find_map(|order| Some((memory.allocate(order, tag::data_of(0))?, order)))?;
    for rest in run.nr..1 << order {
        memory.free(Pfn(head.0 + rest), 0);
    }
    run.nr = run.nr.min(1 << order);
    Some(head)
}

/// Free blocks in a row, as single pages, where more than one block is wanted and there are neighbours
/// (`contig_alloc_blocks`, `fbmm_alloc_range`).
fn alloc_blocks(memory: &mut Buddy, run: &mut Run) -> Option<Pfn> {
    let (head, nr) = memory.allocate_row(run.nr, tag::data_of(0))?;
    run.nr = nr;
    Some(head)
}

impl Manager for Contiguous {
    fn boxed(&self) -> Box<dyn Manager> {
        Box::new(self.clone())
    }

    fn is_file_system(&self) -> bool {
        true
    }

    fn max_pages(&self) -> u32 {
        MOST
    }

    fn is_eager(&self) -> bool {
        true
    }

    fn alloc(&mut self, memory: &mut Buddy, run: &mut Run) -> Option<Pfn> {
        let head = alloc_blocks(memory, run).or_else(|| alloc_block(memory, run))?;
        run.order = 0;
        self.pieces[order_base_2(run.nr) as usize] += 1;
        Some(head)
    }

    fn pieces(&self) -> &[u64] {
        &self.pieces
    }
}

/// The tests of linux/modules/contigmfs/contigmfs_kunit.c, by their names.
#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u32 = 1024;

    fn memory(blocks: u32) -> Buddy {
        Buddy::new(vec![0; (blocks * BLOCK) as usize], &[0], 10)
    }

    fn free(memory: &mut Buddy, head: Pfn, nr: u32) {
        for pfn in head.0..head.0 + nr {
            memory.free(Pfn(pfn), 0);
        }
    }

    #[test]
    fn pieces() {
        let mut memory = memory(64);
        let mut contiguous = Contiguous::default();
        for (wanted, order) in [
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 2),
            (5, 3),
            (8, 3),
            (9, 4),
            (511, 9),
            (512, 9),
            (513, 10),
            (1000, 10),
            (1024, 10),
            (1025, 11),
            (2048, 11),
            (2049, 12),
            (5000, 13),
            (MOST, 14),
        ] {
            let mut expected = contiguous.pieces;
            expected[order] += 1;
            let mut run = Run {
                nr: wanted,
                order: 0,
            };
            let head = contiguous.alloc(&mut memory, &mut run).unwrap();
            assert_eq!((run.nr, run.order), (wanted, 0));
            assert!(head.0.is_multiple_of(BLOCK.min(1 << order)), "{wanted}");
            assert_eq!(contiguous.pieces, expected);
            // The rest of a block went back.
            assert_eq!(memory.free_frames(), 64 * BLOCK - wanted);
            free(&mut memory, head, wanted);
            assert_eq!(memory.free_blocks()[10], 64);
        }
    }

    /// The first range that has what is wanted is taken; where none has, the longest; and where none is longer than
    /// a block, a block.
    #[test]
    fn rows() {
        let map = "-aa-bbb-cccc-";
        let mut memory = memory(20);
        for (block, _) in ("-".repeat(20)).char_indices() {
            let kept = map
                .chars()
                .nth(block)
                .map_or(block % 2 == 1, |mark| mark == '-');
            if kept {
                assert!((0..BLOCK).all(|at| memory.claim(Pfn(block as u32 * BLOCK + at), 6)));
            }
        }
        let mut contiguous = Contiguous::default();
        for (wanted, given, range) in [
            (3000, 3000, Some('b')),
            (5000, 4096, Some('c')),
            (1500, 1500, Some('a')),
            (1500, 1024, None),
        ] {
            let mut run = Run {
                nr: wanted,
                order: 0,
            };
            let head = contiguous.alloc(&mut memory, &mut run).unwrap();
            assert_eq!(run.nr, given);
            if let Some(range) = range {
                let block = map.find(range).unwrap() as u32;
                assert_eq!(head, Pfn(block * BLOCK));
            }
        }
    }

    /// The largest block there is, where memory is in pieces.
    #[test]
    fn smaller_blocks() {
        let mut memory = memory(1);
        for pfn in (0..BLOCK).step_by(8) {
            assert!(memory.claim(Pfn(pfn + 4), 6));
        }
        let mut run = Run { nr: 100, order: 0 };
        let head = Contiguous::default().alloc(&mut memory, &mut run).unwrap();
        assert_eq!((head.0 % 8, run.nr), (0, 4));
    }
}
