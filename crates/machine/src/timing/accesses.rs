use pagelab_cpu::Waits;
use pagelab_events::{Mispredicted, dependence};

/// What a core does between the accesses of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accesses<'a> {
    /// Instructions before each access, and how far back the loads are that made its address.
    pub(crate) gap: &'a [u32],
    pub(crate) dep: &'a [u32],
    /// How many instructions the core holds with each, where that differs; else empty.
    pub(crate) look_ahead: &'a [u32],
    /// Slots of arithmetic between each of its loads and its address, where that is known; else empty.
    pub(crate) arithmetic: &'a [[u16; 2]],
    /// Mispredicted branches, and before which access.
    pub(crate) mispredicted: &'a [(u32, Mispredicted)],
}

/// How far back the loads are that a dependence names.
#[inline(always)]
pub(super) fn loads(dep: u32) -> [u32; 2] {
    [dependence::near(dep), dependence::far(dep)]
}

/// What an access waits for, by its dependence and the arithmetic to its address.
#[inline(always)]
pub(super) fn waits(dep: u32, arithmetic: [u16; 2]) -> Waits {
    Waits {
        loads: loads(dep),
        arithmetic,
    }
}
