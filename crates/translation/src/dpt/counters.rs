use super::metadata::Metadata;
use serde::Serialize;

/// Counts of the techniques of a distributed page table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DptCounters {
    /// Pages of PTEs in use now, pooled ones included.
    pub pte_pages: u64,
    /// Pages of PTEs ever placed.
    pub pte_pages_placed: u64,
    /// Pages of PTEs that found no place by hash and lie anywhere.
    pub placed_anywhere: u64,
    /// Searches whose first frame held data.
    pub collisions_with_data: u64,
    /// Searches whose first frame held a page table.
    pub collisions_with_tables: u64,
    /// Pages of PTEs by stride (1, 512, 256K) and step; step 0 is the frame that the hash named.
    pub soa_steps: [[u64; Metadata::MAX_STEP as usize + 1]; 3],
    /// Allocations for which other addresses were looked for.
    pub cva_searches: u64,
    /// Ranges of other addresses that were tried.
    pub cva_attempts: u64,
    /// Allocations for which other addresses were found.
    pub cva_successes: u64,
    /// Regions that have another address now or had one, by CVA.
    pub cva_regions: u64,
    /// Pages of data moved, by size (4 KiB, 2 MiB, 1 GiB).
    pub cpd_moves: [u64; 3],
    /// Pages of PTEs that FAP put into a fragmented block.
    pub fap_hits: u64,
    /// Pages of PTEs for which an unfragmented block was broken up.
    pub fap_blocks_broken: u64,
    /// Pages of PTEs placed in advance.
    pub ptp_pages: u64,
    /// Regions served from them.
    pub ptp_regions: u64,
    /// Searches of a metadata table by a walk.
    pub dmt_searches: u64,
    /// Entries read by them.
    pub dmt_probes: u64,
    /// Bytes of metadata tables now, and of tables of exceptions.
    pub dmt_bytes: u64,
}
