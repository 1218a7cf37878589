//! Progress of a recorded thread.

use pagelab_events::{Batch, Mispredicted, NO_SITE, Stores};
use pagelab_recorder_wire::block::REGISTERS;
use pagelab_recorder_wire::word::MAX_ENTRIES;

use crate::branches::Branches;
use crate::loads::{Loads, MAX_DEP, dependence, merge, youngest};

/// More than the sets of registers that a block depends on: of each access by its address and by what it stores, of
/// each register that it writes, and of its branch.
pub(crate) const SETS: usize = 4 * MAX_ENTRIES;
const _: () = assert!(SETS > 1 + 2 * MAX_ENTRIES + REGISTERS + 1);

/// Progress of a thread.
pub(crate) struct Position {
    /// Accesses so far.
    pub(crate) accesses: u64,
    /// Instructions before the current block.
    pub(crate) instructions: u64,
    /// The number of the instruction after the one that made the last access.
    pub(crate) next: u64,
    /// For each register the loads that produced its value.
    pub(crate) registers: [Loads; REGISTERS],
    /// Registers that may have loads that something can still depend on, one bit each. Of the others there are none.
    pub(crate) live: u32,
    /// Accesses when the others were found last.
    pub(crate) swept: u64,
    /// For each set of registers that the current block depends on the loads behind it, after none.
    pub(crate) sets: Box<[Loads; SETS]>,
    /// And of what it has stored last.
    pub(crate) stores: Stores,
    /// Address of the last instruction of the block before.
    pub(crate) last_pc: u64,
    /// The site of that instruction, where the recording has the code.
    pub(crate) last_site: u32,
    pub(crate) branches: Branches,
    /// Accesses up to this one count as never made: something was left out after it.
    pub(crate) forgotten: u64,
}

impl Position {
    pub(crate) fn new() -> Position {
        Position {
            accesses: 0,
            instructions: 0,
            next: 0,
            registers: [[0; 2]; REGISTERS],
            live: 0,
            swept: 0,
            sets: Box::new([[0; 2]; SETS]),
            stores: Stores::default(),
            last_pc: 0,
            last_site: NO_SITE,
            branches: Branches::new(),
            forgotten: 0,
        }
    }

    /// Says before the next access which branches were mispredicted since the last.
    pub(crate) fn say_mispredicted(&mut self, batch: &mut Batch) {
        for (producers, reconverges) in self.branches.mispredicted.drain(..) {
            let dep = dependence(self.accesses + 1, producers, self.forgotten);
            batch.push_mispredicted(Mispredicted {
                dep,
                reconverges,
                more: 0,
            });
        }
        if self.branches.more > 0
            && let Some((_, last)) = batch.mispredicted.last_mut()
        {
            last.more = std::mem::take(&mut self.branches.more);
        }
    }

    /// Enters a block.
    #[inline(always)]
    pub(crate) fn enter(&mut self, pc: u64) {
        let written = self.branches.enter(pc);
        if written != 0 {
            self.control(written);
        }
    }

    /// Lets the values of these registers wait for the branch that was mispredicted last.
    #[cold]
    fn control(&mut self, written: u32) {
        self.live = u32::MAX;
        for (register, loads) in self.registers.iter_mut().enumerate() {
            if written & 1 << register != 0 {
                *loads = merge(*loads, self.branches.controlled_by);
            }
        }
    }

    /// Finds out the loads behind each of these sets of registers.
    #[inline(always)]
    pub(crate) fn behind_sets(&mut self, masks: &[u32]) {
        for (loads, &mask) in self.sets[1..].iter_mut().zip(masks) {
            *loads = youngest(mask & self.live, &self.registers);
        }
    }

    /// Forgets what is in registers and too old for anything to depend on it.
    pub(crate) fn sweep(&mut self) {
        self.swept = self.accesses;
        self.live = 0;
        for (register, loads) in self.registers.iter_mut().enumerate() {
            if self.accesses + 1 - loads[0] > MAX_DEP {
                *loads = [0; 2];
            } else {
                self.live |= 1 << register;
            }
        }
    }
}
