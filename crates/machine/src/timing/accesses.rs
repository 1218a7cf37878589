use pagelab_events::{Mispredicted, dependence};

/// Accesses of a chunk, as their source has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accesses<'a> {
    /// Instructions before each access, and how far back the loads are that made its address.
    pub(crate) gap: &'a [u32],
    pub(crate) dep: &'a [u32],
    /// Mispredicted branches, and before which access.
    pub(crate) mispredicted: &'a [(u32, Mispredicted)],
}

/// Distances of the loads that a dependence names.
#[inline(always)]
pub(super) fn loads(dep: u32) -> [u32; 2] {
    [dependence::near(dep), dependence::far(dep)]
}
