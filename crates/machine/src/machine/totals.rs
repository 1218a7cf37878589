use super::{CoreState, Machine};
use crate::caches::served::Served;
use crate::count::own_counters::OwnCounters;
use crate::count::sums::Sums;
use crate::count::totals::{CoreTotals, Totals};
use crate::fetch::FetchCounts;
use crate::mmu::Mmu;
use std::collections::BTreeMap;

impl<M: Mmu> Machine<M> {
    /// Everything so far, measured or not.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals {
            accesses: self.counts.accesses,
            run: self.counts.run,
            data_served: self.timing.data_served,
            prefetch_served: self.timing.prefetch_served,
            early_served: self.timing.early_served,
            walk_served: self.timing.walk_served,
            metadata_served: self.timing.metadata_served,
            walker_wait: self.timing.walker_wait,
            walk_cache: self.counts.walk_cache,
            writebacks: self.shared.writebacks,
            coherence: self.shared.coherence(),
            node_reads: self.memory.reads(),
            node_queued: self.memory.queued(),
            banks: self.memory.banks(),
            fetch: (self.fetch.as_ref()).map_or_else(FetchCounts::default, |fetch| fetch.counts),
            ..Totals::default()
        };
        for (number, core) in self.cores.iter().enumerate() {
            totals.free_time += self.free_now(number);
            let tlb = self.mmu.counters(number);
            totals.instructions += core.clock.instructions();
            totals.elapsed = totals.elapsed.max(core.clock.now());
            totals.time += core.clock.now();
            totals.stalls = totals.stalls.and(&core.clock.stalls());
            totals.zeroing += core.zeroing;
            totals.tlb_lookups += tlb.lookups;
            totals.tlb_l1_misses += tlb.l1_misses;
            totals.tlb_l2_misses += tlb.l2_misses - core.taken_as_hits;
        }
        totals
    }

    /// Everything so far on each core, measured or not.
    pub(crate) fn core_totals(&self) -> Vec<CoreTotals> {
        let of_core = |(number, core): (usize, &CoreState)| {
            let tlb = self.mmu.counters(number);
            CoreTotals {
                instructions: core.clock.instructions(),
                accesses: core.accesses,
                time: core.clock.now(),
                free_time: self.free_now(number),
                stalls: core.clock.stalls(),
                zeroing: core.zeroing,
                tlb_l1_misses: tlb.l1_misses,
                tlb_l2_misses: tlb.l2_misses - core.taken_as_hits,
            }
        };
        self.cores.iter().enumerate().map(of_core).collect()
    }

    /// Counts of the design so far.
    pub(crate) fn own_counters(&self) -> OwnCounters {
        let own = self.mmu.own_counters().into_iter();
        let mut tlb: BTreeMap<_, _> = own.collect();
        if tlb.contains_key("prefetches_useful") {
            // Only the clock knows.
            tlb.insert("prefetches_late", self.timing.late_translations);
        }
        if tlb.contains_key("data_guesses") {
            tlb.insert("data_lines_late", self.timing.late_lines);
            let from_memory = self.timing.early_served[Served::Dram as usize];
            tlb.insert("lines_fetched_from_memory", from_memory);
        }
        OwnCounters {
            tlb,
            page_table: (self.page_table_counters)(&self.mmu),
        }
    }
}
