use crate::hashed::ContiguityCounters;
use serde::Serialize;

/// Contents and work of a clustered page table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClusteredCounters {
    /// Lines of all tables now.
    pub lines: u64,
    /// Lines in use now.
    pub lines_used: u64,
    /// Clusters ever entered.
    pub clusters_inserted: u64,
    /// Pages ever mapped.
    pub pages_mapped: u64,
    /// Present entries of the clusters moved: over `pages_mapped`, the PTE migrations per page
    /// allocation.
    pub ptes_migrated: u64,
    /// Times that a table was rehashed into twice the memory.
    pub rehashes: u64,
    /// Clusters moved by that.
    pub moved_by_rehash: u64,
    /// Clusters moved to close the gap that another one left.
    pub moved_by_removal: u64,
    /// Searches of tables by walks.
    pub searches: u64,
    /// Lines read by them.
    pub probes: u64,
    /// Ways in which memory for tables was come by.
    pub contiguity: ContiguityCounters,
}
