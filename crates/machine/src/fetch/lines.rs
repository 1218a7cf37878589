use pagelab_addr::LINE_SHIFT;
use pagelab_events::{CodeBlock, Definition};

/// The lines of memory that the blocks of a program lie in.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockLines {
    /// By the blocks' numbers.
    blocks: Vec<Block>,
    /// By the same, the line of a block that has one; else [`NO_LINE`].
    only_lines: Vec<u64>,
    later: Vec<FollowingLine>,
    sites: u32,
}

/// A block's first line; the others follow it in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Block {
    pub(crate) first: u64,
    /// The site of its first instruction.
    pub(crate) site: u32,
    /// Begin and number of the other lines in the list of those.
    begin: u32,
    pub(crate) others: u32,
}

/// That of no address.
pub(crate) const NO_LINE: u64 = u64::MAX - 1;

/// Stand-in for a block that was not defined.
static UNKNOWN: Block = Block {
    first: 0,
    site: 0,
    begin: 0,
    others: 0,
};

/// A line of a block that is not its first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowingLine {
    /// Accesses that the instructions before usually make.
    pub(crate) accesses: u32,
    /// The first instruction that needs it.
    pub(crate) instruction: u32,
}

impl BlockLines {
    pub(crate) fn define(&mut self, definition: &Definition) {
        let Definition::Block(CodeBlock {
            pc,
            lengths,
            accesses,
            ..
        }) = definition
        else {
            return;
        };
        let line_of = |byte: u64| pc.wrapping_add(byte) >> LINE_SHIFT;
        let first = line_of(0);
        let begin = self.later.len();
        let mut order = accesses.to_vec();
        order.sort_unstable();
        let (mut byte, mut last) = (0, first);
        for (instruction, &length) in lengths.iter().enumerate() {
            byte += u64::from(length);
            // An instruction that ends in another line than it begins in needs both.
            while length > 0 && last != line_of(byte - 1) {
                last = last.wrapping_add(1) & (u64::MAX >> LINE_SHIFT);
                let before = order.partition_point(|&of| usize::from(of) < instruction);
                self.later.push(FollowingLine {
                    accesses: before as u32,
                    instruction: instruction as u32,
                });
            }
        }
        let others = self.later.len() - begin;
        self.only_lines
            .push(if others == 0 { first } else { NO_LINE });
        self.blocks.push(Block {
            first,
            site: self.sites,
            begin: begin as u32,
            others: others as u32,
        });
        self.sites = self.sites.saturating_add(lengths.len() as u32);
    }

    /// The line of a block that lies in one; [`NO_LINE`] for others.
    #[inline(always)]
    pub(crate) fn only_line(&self, number: u32) -> u64 {
        let line = self.only_lines.get(number as usize);
        line.copied().unwrap_or(NO_LINE)
    }

    #[inline(always)]
    pub(crate) fn block(&self, number: u32) -> &Block {
        self.blocks.get(number as usize).unwrap_or(&UNKNOWN)
    }

    /// One of the block's other lines.
    #[inline(always)]
    pub(crate) fn later(&self, block: &Block, number: u32) -> FollowingLine {
        self.later[(block.begin + number) as usize]
    }
}
