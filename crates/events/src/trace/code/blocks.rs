//! Executions of blocks, as they are copied into a batch.

use super::executions::{UsualAccess, Walk, each_usual};
use crate::trace::accesses::FourSites;
use crate::trace::varint::{take, unzigzag};
use crate::{CodeTable, NO_SITE};

/// A block.
#[derive(Clone, Copy)]
pub struct Block {
    /// Begin of its usual accesses, in fours, and their number.
    pub fours: u32,
    pub accesses: u32,
    /// Accesses whose addresses follow from no other.
    pub own: u32,
    /// Instructions after the last access.
    pub rest: u32,
}

/// All blocks defined so far.
#[derive(Default)]
pub struct Blocks {
    blocks: Vec<Block>,
    /// Fours of blocks, then those of the chunk's exceptions.
    fours: Vec<FourSites>,
    /// Number of those that are blocks'.
    of_blocks: usize,
}

impl Blocks {
    /// Takes in what the table has had defined since.
    pub fn follow(&mut self, table: &CodeTable) {
        self.fours.truncate(self.of_blocks);
        for number in self.blocks.len()..table.blocks().len() {
            let fours = self.fours.len();
            let (mut accesses, mut own) = (0, 0);
            let rest = each_usual(table, number as u32, |access| {
                if accesses % 4 == 0 {
                    self.fours.push(FourSites::default());
                }
                let four = self.fours.last_mut().expect("one was pushed");
                four.set(accesses % 4, access.gap.into(), access);
                accesses += 1;
                own += u32::from(access.follows.back == 0);
            });
            self.blocks.push(Block {
                fours: fours as u32,
                accesses: accesses as u32,
                own,
                rest,
            });
        }
        self.of_blocks = self.fours.len();
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// A block.
    #[inline(always)]
    pub fn block(&self, number: u32) -> Block {
        self.blocks[number as usize]
    }

    /// The fours of all.
    pub fn fours(&self) -> &[FourSites] {
        &self.fours
    }

    /// Enters a block, `pending` instructions after the last access.
    pub fn enter(table: &CodeTable, block: u32, pending: u32) -> Walk {
        let instructions = table.blocks()[block as usize].lengths.len() as u32;
        Walk::into(table.first_site(block), instructions, pending)
    }

    /// Takes the sites of so many accesses of an exception, in which `walk` has entered. Where
    /// their fours begin; `None` if they are damaged.
    pub fn take_sites(
        &mut self,
        input: &mut &[u8],
        count: usize,
        table: &CodeTable,
        walk: &mut Walk,
    ) -> Option<u32> {
        let from = self.fours.len();
        let mut site = i64::from(walk.first_site);
        for access in 0..count {
            site = site.checked_add(unzigzag(take(input)?))?;
            let known = u32::try_from(site).ok()?;
            if known >= table.sites() && known != NO_SITE {
                return None;
            }
            if access % 4 == 0 {
                self.fours.push(FourSites::default());
            }
            let usual = UsualAccess {
                site: known,
                ..UsualAccess::default()
            };
            let gap = walk.gap(known);
            let last = self.fours.last_mut().expect("one was pushed");
            last.set(access % 4, gap, usual);
        }
        Some(from as u32)
    }
}
