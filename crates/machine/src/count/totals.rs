use crate::caches::coherence::CoherenceCounts;
use crate::caches::served::PLACES;
use crate::count::sums::sums;
use crate::fetch::FetchCounts;
use crate::machine::counts::{RunCounts, WalkCacheCounts};
use crate::memory::MAX_NODES;
use pagelab_cpu::Stalls;
use pagelab_memory::BankCounts;

sums! {
    /// Everything that adds up over a run. Times are in slots.
    pub(crate) struct Totals {
        pub(crate) instructions: u64,
        pub(crate) accesses: u64,
        pub(crate) run: RunCounts,
        /// Time of the core that is furthest.
        pub(crate) elapsed: u64,
        /// Time of all cores.
        pub(crate) time: u64,
        /// Time if translations took none.
        pub(crate) free_time: u64,
        pub(crate) stalls: Stalls,
        /// Part of the stalls in faults that fills pages with zeros.
        pub(crate) zeroing: u64,
        pub(crate) tlb_lookups: u64,
        pub(crate) tlb_l1_misses: u64,
        pub(crate) tlb_l2_misses: u64,
        pub(crate) data_served: [u64; PLACES],
        pub(crate) prefetch_served: [u64; PLACES],
        pub(crate) early_served: [u64; PLACES],
        pub(crate) walk_served: [u64; PLACES],
        pub(crate) metadata_served: [u64; PLACES],
        pub(crate) walker_wait: u64,
        pub(crate) walk_cache: WalkCacheCounts,
        pub(crate) writebacks: u64,
        pub(crate) coherence: CoherenceCounts,
        /// Lines read from each node of memory, and time waited for its bandwidth.
        pub(crate) node_reads: [u64; MAX_NODES],
        pub(crate) node_queued: [u64; MAX_NODES],
        pub(crate) banks: BankCounts,
        pub(crate) fetch: FetchCounts,
    }
}

sums! {
    /// Sums of one core. Times are in slots.
    pub(crate) struct CoreTotals {
        pub(crate) instructions: u64,
        pub(crate) accesses: u64,
        pub(crate) time: u64,
        /// Time if translations took none.
        pub(crate) free_time: u64,
        pub(crate) stalls: Stalls,
        pub(crate) zeroing: u64,
        pub(crate) tlb_l1_misses: u64,
        pub(crate) tlb_l2_misses: u64,
    }
}
