use pagelab_cpu::{Computed, Core, Pieces, Waits};
use pagelab_events::{Mispredicted, Op, dependence};

/// Work of a core between the accesses of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accesses<'a> {
    /// Instructions before each access, and how far back the loads are that made its address.
    pub(crate) gap: &'a [u32],
    pub(crate) dep: &'a [u32],
    /// Number of instructions that the core holds with each, where that differs; else empty.
    pub(crate) look_ahead: &'a [u32],
    /// Code executed up to each.
    pub(crate) executed: Executed<'a>,
    /// Their addresses and what they do.
    pub(crate) addr: &'a [u64],
    pub(crate) op: &'a [Op],
    /// Mispredicted branches, and before which access.
    pub(crate) mispredicted: &'a [(u32, Mispredicted)],
}

/// Code executed up to each of some accesses; empty where nothing is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Executed<'a> {
    /// Slots of arithmetic between each of its loads and its address.
    pub(crate) slots: &'a [[u16; 2]],
    /// For each access: a locked instruction makes it. Empty where that takes nothing.
    pub(crate) locked: &'a [bool],
    /// The pieces of code that are executed since the access before it, by their numbers, and where those of
    /// each access end; empty where registers are not followed.
    pub(crate) pieces: Option<&'a Pieces>,
    pub(crate) numbers: &'a [u32],
    pub(crate) ends: &'a [u32],
}

/// Goes through what is known of accesses from the instructions between them.
pub(super) struct FromCode<'a> {
    of: Accesses<'a>,
    /// The next access, and its first piece of code.
    next: usize,
    piece: usize,
}

impl<'a> FromCode<'a> {
    pub(super) fn new(of: Accesses<'a>) -> Self {
        FromCode {
            of,
            next: 0,
            piece: 0,
        }
    }

    /// Loads and computations that the next access waits for besides what its dependence names. How far the core
    /// looks ahead is told to it.
    #[inline(always)]
    pub(super) fn next(&mut self, core: &mut Core) -> ([u16; 2], Computed) {
        let Accesses {
            look_ahead,
            executed,
            addr,
            op,
            ..
        } = self.of;
        let next = self.next;
        self.next += 1;
        if let Some(&instructions) = look_ahead.get(next) {
            core.look_ahead(instructions);
        }
        if executed.locked.get(next) == Some(&true) && op.get(next).is_some_and(|op| op.is_store())
        {
            core.locked();
        }
        let slots = executed.slots.get(next).copied().unwrap_or_default();
        let (Some(pieces), Some(&end)) = (executed.pieces, executed.ends.get(next)) else {
            return (slots, Computed::default());
        };
        let (Some(&addr), Some(op)) = (addr.get(next), op.get(next)) else {
            return (slots, Computed::default());
        };
        let numbers = &executed.numbers[self.piece..end as usize];
        self.piece = end as usize;
        (slots, core.execute(pieces, numbers, addr, op.is_store()))
    }
}

/// Distances of the loads that a dependence names.
#[inline(always)]
pub(super) fn loads(dep: u32) -> [u32; 2] {
    [dependence::near(dep), dependence::far(dep)]
}

/// Loads that an access waits for, by its dependence and by what its code computes.
#[inline(always)]
pub(super) fn waits(dep: u32, (arithmetic, computed): ([u16; 2], Computed)) -> Waits {
    Waits {
        loads: loads(dep),
        arithmetic,
        computed,
    }
}
