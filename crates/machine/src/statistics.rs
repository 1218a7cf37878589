use crate::config::MachineConfig;
use crate::machine::Machine;
use crate::memory::Memory;
use crate::result::{
    CacheResult, Cycles, DramResult, RunResult, SCHEMA, Sample, ServedBy, TlbResult, WalkResult,
};
use pagelab_translation::{PageTable, Tlb};

impl<P: PageTable, T: Tlb> Machine<P, T> {
    /// Accesses simulated so far.
    pub fn accesses(&self) -> u64 {
        self.counts.accesses
    }

    /// Instructions so far, all cores.
    fn instructions(&self) -> u64 {
        self.cores
            .iter()
            .map(|core| core.clock.instructions())
            .sum()
    }

    /// The time of the core that is furthest, in slots.
    fn elapsed(&self) -> u64 {
        self.cores
            .iter()
            .map(|core| core.clock.now())
            .max()
            .unwrap_or(0)
    }

    pub(crate) fn sample(&self) -> Sample {
        Sample {
            instructions: self.instructions(),
            cycles: self.elapsed() / self.slots_per_cycle,
            resident_bytes: self.os.resident_bytes(),
            table_bytes: self.table.table_bytes(),
        }
    }

    /// What the run found out so far; `stopped` says why it ended early, if it did.
    pub fn result(
        mut self,
        config: &MachineConfig,
        design: &str,
        stopped: Option<String>,
        counters: impl Fn(&P) -> serde_json::Result<serde_json::Value>,
    ) -> RunResult {
        let instructions = self.instructions();
        let last = self.sample();
        let memory = self.memory.take().unwrap_or_else(|| Memory::of(&self.os));
        let timeline = std::mem::take(&mut self.timeline).finish(last);
        RunResult {
            schema: SCHEMA,
            complete: stopped.is_none(),
            stopped,
            design: design.to_owned(),
            machine: config.clone(),
            instructions,
            accesses: self.counts.accesses,
            loads: self.counts.accesses - self.counts.stores,
            stores: self.counts.stores,
            skipped_instructions: self.counts.skipped_instructions,
            cycles: self.cycles(config),
            tlb: self.tlb_result(instructions),
            walks: self.walk_result(),
            caches: self.cache_result(instructions),
            dram: self.dram_result(),
            os: self.os.statistics(&self.table),
            // Counters are plain numbers, which always have a JSON form.
            design_counters: counters(&self.table).unwrap_or_default(),
            timeline,
            free_2m_blocks: memory.free_2m_blocks,
            memory_map: memory.map,
        }
    }

    fn cycles(&self, config: &MachineConfig) -> Cycles {
        let slots = self.slots_per_cycle;
        let mut cycles = Cycles {
            elapsed: self.elapsed() / slots,
            frequency_hz: config.core.ghz * 1e9,
            ..Cycles::default()
        };
        for core in &self.cores {
            let stalls = core.clock.stalls();
            let total = core.clock.now() / slots;
            let [data, translation, faults, migrations] = [
                stalls.data,
                stalls.translation,
                stalls.faults,
                stalls.migrations,
            ]
            .map(|time| time / slots);
            cycles.total += total;
            cycles.data += data;
            cycles.translation += translation;
            cycles.faults += faults;
            cycles.migrations += migrations;
            // Rounded down each, so the rest is never less than nothing.
            cycles.compute += total - data - translation - faults - migrations;
        }
        cycles
    }

    fn tlb_result(&self, instructions: u64) -> TlbResult {
        let mut result = TlbResult::default();
        for core in &self.cores {
            let counters = core.tlb.counters();
            result.lookups += counters.lookups;
            result.l1_misses += counters.l1_misses;
            result.l2_misses += counters.l2_misses;
        }
        result.l1_mpki = per_kilo(result.l1_misses, instructions);
        result.l2_mpki = per_kilo(result.l2_misses, instructions);
        result
    }

    fn walk_result(&self) -> WalkResult {
        let served_by = ServedBy::from_counts(self.timing.walk_served);
        WalkResult {
            count: self.timing.walk_latency.count(),
            latency: self.timing.walk_latency.clone(),
            walker_wait: self.timing.walker_wait / self.slots_per_cycle,
            reads: served_by.total(),
            served_by,
            metadata_served_by: ServedBy::from_counts(self.timing.metadata_served),
            cache_lookups: self.counts.walk_cache_lookups,
            cache_hits: self.counts.walk_cache_hits,
        }
    }

    fn cache_result(&self, instructions: u64) -> CacheResult {
        let data = ServedBy::from_counts(self.timing.data_served);
        let walks = ServedBy::from_counts(self.timing.walk_served);
        let dram = data.dram + walks.dram;
        let llc = dram + data.llc + walks.llc;
        let l2 = llc + data.l2 + walks.l2;
        CacheResult {
            data,
            l1_mpki: per_kilo(l2, instructions),
            l2_mpki: per_kilo(llc, instructions),
            llc_mpki: per_kilo(dram, instructions),
        }
    }

    fn dram_result(&self) -> DramResult {
        DramResult {
            reads: self.timing.data_served[3] + self.timing.walk_served[3],
            writes: self.shared.writebacks,
            queue_cycles: self.dram.queued_ticks() / self.slots_per_cycle,
        }
    }
}

fn per_kilo(events: u64, instructions: u64) -> f64 {
    if instructions == 0 {
        0.0
    } else {
        events as f64 * 1000.0 / instructions as f64
    }
}
