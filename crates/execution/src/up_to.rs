//! Accesses of a chunk, one by one, by the code that is executed up to each.

use crate::pieces::Pieces;
use crate::registers::Registers;
use pagelab_cpu::{Core, Waits};
use pagelab_events::{Op, dependence};

/// Code executed up to each of some accesses; empty where nothing is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Executed<'a> {
    /// Number of instructions that the core holds with each, where that differs; else empty.
    pub holds: &'a [u32],
    /// Slots of arithmetic between each of its loads and its address.
    pub slots: &'a [[u16; 2]],
    /// For each access: a locked instruction makes it. Empty where that takes nothing.
    pub locked: &'a [bool],
    /// The pieces of code that are executed since the access before it, by their numbers, and where those of
    /// each access end; empty where registers are not followed.
    pub pieces: Option<&'a Pieces>,
    /// Numbers of pieces.
    pub numbers: &'a [u32],
    /// Their ends by access.
    pub ends: &'a [u32],
}

/// Goes through a chunk access by access.
#[derive(Debug)]
pub struct UpTo<'a> {
    of: Executed<'a>,
    registers: &'a mut Registers,
    addr: &'a [u64],
    op: &'a [Op],
    /// The next access, and its first piece of code.
    next: usize,
    piece: usize,
}

impl<'a> UpTo<'a> {
    /// With the registers of the clock that the accesses go through, their addresses and what they do.
    pub fn new(
        of: Executed<'a>,
        registers: &'a mut Registers,
        addr: &'a [u64],
        op: &'a [Op],
    ) -> Self {
        UpTo {
            of,
            registers,
            addr,
            op,
            next: 0,
            piece: 0,
        }
    }

    /// True if something is known of the accesses.
    pub fn is_known(&self) -> bool {
        !(self.of.holds.is_empty() && self.of.slots.is_empty())
    }

    /// Conditions that the next access waits for, which names the loads of its address by `dep`. The core is told
    /// how far it looks ahead, and of locked instructions.
    #[inline(always)]
    pub fn next(&mut self, core: &mut Core, dep: u32) -> Waits {
        let Executed {
            holds,
            slots,
            locked,
            pieces,
            numbers,
            ends,
        } = self.of;
        let next = self.next;
        self.next += 1;
        if let Some(&instructions) = holds.get(next) {
            core.look_ahead(instructions);
        }
        let mut waits = Waits {
            arithmetic: slots.get(next).copied().unwrap_or_default(),
            ..Waits::from([dependence::near(dep), dependence::far(dep)])
        };
        let (Some(&addr), Some(op)) = (self.addr.get(next), self.op.get(next)) else {
            return waits;
        };
        if locked.get(next) == Some(&true) && op.is_store() {
            core.locked();
        }
        let (Some(pieces), Some(&end)) = (pieces, ends.get(next)) else {
            return waits;
        };
        let numbers = &numbers[self.piece..end as usize];
        self.piece = end as usize;
        waits.computed =
            (self.registers).execute(pieces, numbers, core.dispatched(), addr, op.is_store());
        waits
    }
}
