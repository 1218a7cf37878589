use super::descent::Descent;
use crate::machine::buffer::Buffer;
use pagelab_memory::Access;

/// The lists between the levels, reused from chunk to chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    pub(super) to_l2: Buffer<Descent>,
    pub(super) to_llc: Buffer<Descent>,
    /// Descriptions of the references, where a level's policy wants them.
    pub(super) described: Vec<Access>,
    /// `to_llc` of a sample, with what its second level would not have had.
    pub(super) decided: Vec<Descent>,
    /// `to_l2` with prefetches, and the accesses that references are of.
    pub(super) with_prefetches: Vec<Descent>,
    pub(super) accesses_of: Vec<u32>,
    /// Prefetches into the last level only, each with the place of the reference that had it made;
    /// and what goes on to that level with them.
    pub(super) held: Vec<(u32, Descent)>,
    pub(super) with_held: Vec<Descent>,
    /// References to the second and to the last level, with the lines that the kernel has filled.
    pub(super) with_filled: [Vec<Descent>; 2],
    /// The places of stores that other cores have to drop a line for.
    pub(super) invalidating: Vec<u32>,
}
