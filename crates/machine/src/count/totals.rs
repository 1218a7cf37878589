use crate::caches::coherence::CoherenceCounts;
use crate::caches::served::PLACES;
use crate::fetch::FetchCounts;
use crate::memory::MAX_NODES;
use pagelab_cpu::Stalls;
use pagelab_memory::BankCounts;
use serde::{Deserialize, Serialize};

/// Everything that adds up over a run. Times are in slots.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) instructions: u64,
    pub(crate) accesses: u64,
    pub(crate) stores: u64,
    pub(crate) prefetches: u64,
    pub(crate) mispredicted: u64,
    /// Time of the core that is furthest.
    pub(crate) elapsed: u64,
    /// Time of all cores.
    pub(crate) time: u64,
    /// The same if translations took none.
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
    pub(crate) walk_cache_lookups: u64,
    pub(crate) walk_cache_hits: u64,
    pub(crate) writebacks: u64,
    pub(crate) coherence: CoherenceCounts,
    /// Lines read from each node of memory, and time waited for its bandwidth.
    pub(crate) node_reads: [u64; MAX_NODES],
    pub(crate) node_queued: [u64; MAX_NODES],
    pub(crate) banks: BankCounts,
    pub(crate) fetch: FetchCounts,
}

impl Totals {
    /// Difference to an earlier moment.
    pub(crate) fn since(&self, earlier: &Totals) -> Totals {
        self.zip(earlier, |now, then| now - then)
    }

    /// Both together.
    pub(crate) fn and(&self, other: &Totals) -> Totals {
        self.zip(other, |a, b| a + b)
    }

    fn zip(&self, other: &Totals, f: impl Fn(u64, u64) -> u64) -> Totals {
        Totals {
            instructions: f(self.instructions, other.instructions),
            accesses: f(self.accesses, other.accesses),
            stores: f(self.stores, other.stores),
            prefetches: f(self.prefetches, other.prefetches),
            mispredicted: f(self.mispredicted, other.mispredicted),
            elapsed: f(self.elapsed, other.elapsed),
            time: f(self.time, other.time),
            free_time: f(self.free_time, other.free_time),
            stalls: zip_stalls(self.stalls, other.stalls, &f),
            zeroing: f(self.zeroing, other.zeroing),
            tlb_lookups: f(self.tlb_lookups, other.tlb_lookups),
            tlb_l1_misses: f(self.tlb_l1_misses, other.tlb_l1_misses),
            tlb_l2_misses: f(self.tlb_l2_misses, other.tlb_l2_misses),
            data_served: each(self.data_served, other.data_served, &f),
            prefetch_served: each(self.prefetch_served, other.prefetch_served, &f),
            early_served: each(self.early_served, other.early_served, &f),
            walk_served: each(self.walk_served, other.walk_served, &f),
            metadata_served: each(self.metadata_served, other.metadata_served, &f),
            walker_wait: f(self.walker_wait, other.walker_wait),
            walk_cache_lookups: f(self.walk_cache_lookups, other.walk_cache_lookups),
            walk_cache_hits: f(self.walk_cache_hits, other.walk_cache_hits),
            writebacks: f(self.writebacks, other.writebacks),
            coherence: self.coherence.zip(&other.coherence, &f),
            node_reads: each(self.node_reads, other.node_reads, &f),
            node_queued: each(self.node_queued, other.node_queued, &f),
            banks: BankCounts {
                hits: f(self.banks.hits, other.banks.hits),
                conflicts: f(self.banks.conflicts, other.banks.conflicts),
                waited: f(self.banks.waited, other.banks.waited),
            },
            fetch: self.fetch.zip(&other.fetch, &f),
        }
    }
}

/// Sums of one core. Times are in slots.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CoreTotals {
    pub(crate) instructions: u64,
    pub(crate) accesses: u64,
    pub(crate) time: u64,
    /// The same if translations took none.
    pub(crate) free_time: u64,
    pub(crate) stalls: Stalls,
    pub(crate) zeroing: u64,
    pub(crate) tlb_l1_misses: u64,
    pub(crate) tlb_l2_misses: u64,
}

impl CoreTotals {
    /// Difference to an earlier moment.
    pub(crate) fn since(&self, earlier: &CoreTotals) -> CoreTotals {
        self.zip(earlier, |now, then| now - then)
    }

    /// Both together.
    pub(crate) fn and(&self, other: &CoreTotals) -> CoreTotals {
        self.zip(other, |a, b| a + b)
    }

    fn zip(&self, other: &CoreTotals, f: impl Fn(u64, u64) -> u64) -> CoreTotals {
        CoreTotals {
            instructions: f(self.instructions, other.instructions),
            accesses: f(self.accesses, other.accesses),
            time: f(self.time, other.time),
            free_time: f(self.free_time, other.free_time),
            stalls: zip_stalls(self.stalls, other.stalls, &f),
            zeroing: f(self.zeroing, other.zeroing),
            tlb_l1_misses: f(self.tlb_l1_misses, other.tlb_l1_misses),
            tlb_l2_misses: f(self.tlb_l2_misses, other.tlb_l2_misses),
        }
    }
}

fn each<const N: usize>(a: [u64; N], b: [u64; N], f: impl Fn(u64, u64) -> u64) -> [u64; N] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

pub(crate) fn zip_stalls(a: Stalls, b: Stalls, f: impl Fn(u64, u64) -> u64) -> Stalls {
    Stalls {
        data: f(a.data, b.data),
        translation: f(a.translation, b.translation),
        mispredictions: f(a.mispredictions, b.mispredictions),
        fetch: f(a.fetch, b.fetch),
        faults: f(a.faults, b.faults),
        migrations: f(a.migrations, b.migrations),
    }
}
