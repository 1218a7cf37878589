//! Meaning of each block's execution for its accesses.

use crate::{CodeTable, Follows};

/// A block.
#[derive(Clone, Copy)]
struct Block {
    first_site: u32,
    instructions: u32,
    /// Begin of its usual accesses, and their number.
    from: u32,
    accesses: u32,
    /// Instructions after the last access.
    rest: u32,
}

/// All blocks defined so far.
#[derive(Default)]
pub struct Executions {
    blocks: Vec<Block>,
    /// The usual accesses of all blocks.
    accesses: Vec<UsualAccess>,
}

/// An access that a block usually makes.
#[derive(Clone, Copy, Default)]
pub struct UsualAccess {
    pub site: u32,
    /// Instructions of the block since the access before.
    pub gap: u16,
    pub follows: Follows,
}

/// A block of which the usual accesses are known.
#[derive(Clone, Copy)]
pub struct Usual<'a> {
    pub accesses: &'a [UsualAccess],
    /// Instructions after the last of them.
    pub rest: u32,
}

impl Executions {
    /// Takes in what the table has had defined since.
    pub fn follow(&mut self, table: &CodeTable) {
        let known = self.blocks.len();
        for (number, block) in (known as u32..).zip(&table.blocks()[known..]) {
            let from = self.accesses.len() as u32;
            let rest = each_usual(table, number, |access| self.accesses.push(access));
            self.blocks.push(Block {
                first_site: table.first_site(number),
                instructions: block.lengths.len() as u32,
                from,
                accesses: block.accesses.len() as u32,
                rest,
            });
        }
    }

    /// Usual accesses of an execution of a block.
    #[inline]
    pub fn usual(&self, block: u32) -> Usual<'_> {
        let block = self.blocks[block as usize];
        let range = block.from as usize..(block.from + block.accesses) as usize;
        Usual {
            accesses: &self.accesses[range],
            rest: block.rest,
        }
    }

    /// Enters a block, `pending` instructions after the last access.
    pub fn enter(&self, block: u32, pending: u32) -> Walk {
        let block = self.blocks[block as usize];
        Walk::into(block.first_site, block.instructions, pending)
    }
}

/// Tells the usual accesses of a block, in order. Returns how many instructions come after the last.
pub fn each_usual(table: &CodeTable, number: u32, mut tell: impl FnMut(UsualAccess)) -> u32 {
    let block = &table.blocks()[number as usize];
    let first_site = table.first_site(number);
    let mut walk = Walk::into(first_site, block.lengths.len() as u32, 0);
    for (at, &index) in block.accesses.iter().enumerate() {
        let site = first_site + u32::from(index);
        tell(UsualAccess {
            site,
            // A block has no more instructions than 16 bits can number.
            gap: walk.gap(site) as u16,
            follows: block.addresses.get(at).copied().unwrap_or_default(),
        });
    }
    walk.leave()
}

/// Counts the instructions between accesses. All sums are modulo 2^32.
#[derive(Clone, Copy, Default)]
pub struct Walk {
    pub first_site: u32,
    instructions: u32,
    /// Instructions of the block that are counted, and those of all blocks since the last access.
    done: u32,
    pending: u32,
}

impl Walk {
    pub fn into(first_site: u32, instructions: u32, pending: u32) -> Walk {
        Walk {
            first_site,
            instructions,
            done: 0,
            pending,
        }
    }

    /// The gap before an access of this site; 0 for those that are not further on in the block.
    pub fn gap(&mut self, site: u32) -> u32 {
        let index = site.wrapping_sub(self.first_site);
        if index < self.done || index >= self.instructions {
            return 0;
        }
        let gap = self.pending.wrapping_add(index - self.done);
        self.done = index + 1;
        self.pending = 0;
        gap
    }

    /// The end of the block: the instructions since the last access.
    pub fn leave(self) -> u32 {
        self.pending.wrapping_add(self.instructions - self.done)
    }
}
