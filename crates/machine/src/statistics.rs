use crate::config::MachineConfig;
use crate::histogram::Histogram;
use crate::machine::Machine;
use crate::memory::Memory;
use crate::result::{
    CacheResult, CoreResult, Cycles, DramResult, NodeResult, RunResult, SCHEMA, Sample, ServedBy,
    TlbResult, WalkResult, WindowResult,
};
use crate::totals::{CoreTotals, Totals};
use crate::windows::Walks;
use pagelab_addr::PAGE_BYTES;
use pagelab_cpu::Stalls;
use pagelab_translation::{PageTable, Tlb};
use std::collections::BTreeMap;

impl<P: PageTable, T: Tlb> Machine<P, T> {
    /// Accesses simulated so far.
    pub fn accesses(&self) -> u64 {
        self.counts.accesses
    }

    pub(crate) fn sample(&self) -> Sample {
        let measured = self.measured_totals();
        Sample {
            instructions: measured.instructions,
            cycles: measured.elapsed / self.slots_per_cycle,
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
        let last = self.sample();
        let slots = self.slots_per_cycle;
        let measured = self.measured();
        let totals = measured.totals;
        let memory = self.at_exit.take().unwrap_or_else(|| Memory::of(&self.os));
        let timeline = std::mem::take(&mut self.timeline).finish(last);
        RunResult {
            schema: SCHEMA,
            complete: stopped.is_none(),
            stopped,
            design: design.to_owned(),
            machine: config.clone(),
            instructions: totals.instructions,
            accesses: totals.accesses,
            loads: totals.accesses - totals.stores,
            stores: totals.stores,
            skipped_instructions: self.counts.skipped_instructions,
            warm_up_accesses: self.counts.accesses - totals.accesses,
            initialisation_cycles: measured.initialisation.elapsed / slots,
            cycles: cycles(&totals, slots, config.core.ghz),
            tlb: tlb(&totals),
            tlb_counters: self.tlb_counters(),
            walks: walks(&totals, slots, measured.walk_latency),
            caches: caches(&totals),
            dram: dram(&totals, slots),
            nodes: nodes(&totals, slots, config, &memory),
            per_core: if self.has_programs() {
                let cores = measured.cores.iter();
                cores.map(|totals| core(totals, slots)).collect()
            } else {
                Vec::new()
            },
            os: self.os.statistics(&self.table),
            // Counters are plain numbers, which always have a JSON form.
            design_counters: counters(&self.table).unwrap_or_default(),
            windows: measured
                .windows
                .iter()
                .map(|(totals, walks)| window(totals, *walks, slots))
                .collect(),
            timeline,
            free_2m_blocks: memory.free_2m_blocks,
            memory_map: memory.map,
        }
    }
}

impl<P: PageTable, T: Tlb> Machine<P, T> {
    /// The TLB design's own counters, all cores together.
    fn tlb_counters(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        for core in &self.cores {
            for (name, count) in core.tlb.own_counters() {
                *sums.entry(name).or_default() += count;
            }
        }
        sums
    }
}

fn cycles(totals: &Totals, slots: u64, ghz: f64) -> Cycles {
    let total = totals.time / slots;
    let Stalls {
        data,
        translation,
        faults,
        migrations,
    } = totals.stalls;
    let [data, translation, faults, migrations] =
        [data, translation, faults, migrations].map(|time| time / slots);
    Cycles {
        elapsed: totals.elapsed / slots,
        total,
        // Rounded down each, so the rest is never less than nothing.
        compute: total - data - translation - faults - migrations,
        data,
        translation,
        faults,
        migrations,
        frequency_hz: ghz * 1e9,
    }
}

fn tlb(totals: &Totals) -> TlbResult {
    TlbResult {
        lookups: totals.tlb_lookups,
        l1_misses: totals.tlb_l1_misses,
        l2_misses: totals.tlb_l2_misses,
        l1_mpki: per_kilo(totals.tlb_l1_misses, totals.instructions),
        l2_mpki: per_kilo(totals.tlb_l2_misses, totals.instructions),
    }
}

fn walks(totals: &Totals, slots: u64, latency: Histogram) -> WalkResult {
    let served_by = ServedBy::from_counts(totals.walk_served);
    WalkResult {
        count: latency.count(),
        latency,
        walker_wait: totals.walker_wait / slots,
        reads: served_by.total(),
        served_by,
        metadata_served_by: ServedBy::from_counts(totals.metadata_served),
        cache_lookups: totals.walk_cache_lookups,
        cache_hits: totals.walk_cache_hits,
    }
}

/// References that each cache level passed on, data and walks: first, second, last level.
fn misses(totals: &Totals) -> [u64; 3] {
    let served = |level: usize| totals.data_served[level] + totals.walk_served[level];
    let llc = served(3);
    let l2 = llc + served(2);
    [l2 + served(1), l2, llc]
}

fn caches(totals: &Totals) -> CacheResult {
    let [l1, l2, llc] = misses(totals).map(|misses| per_kilo(misses, totals.instructions));
    CacheResult {
        data: ServedBy::from_counts(totals.data_served),
        l1_mpki: l1,
        l2_mpki: l2,
        llc_mpki: llc,
    }
}

fn dram(totals: &Totals, slots: u64) -> DramResult {
    let [_, _, reads] = misses(totals);
    DramResult {
        reads,
        writes: totals.writebacks,
        queue_cycles: totals.node_queued.iter().sum::<u64>() / slots,
    }
}

/// Each node, where the machine's description has nodes.
fn nodes(totals: &Totals, slots: u64, config: &MachineConfig, memory: &Memory) -> Vec<NodeResult> {
    let all: u64 = totals.node_reads.iter().sum();
    let counted = totals.node_reads.iter().zip(&totals.node_queued);
    let described = config.memory.nodes.iter().zip(&memory.data_frames);
    described
        .zip(counted)
        .map(|((node, &frames), (&reads, &queued))| NodeResult {
            bytes: node.bytes,
            resident_bytes: u64::from(frames) * PAGE_BYTES,
            reads,
            share: if all == 0 {
                0.0
            } else {
                reads as f64 / all as f64
            },
            queue_cycles: queued / slots,
        })
        .collect()
}

fn core(totals: &CoreTotals, slots: u64) -> CoreResult {
    CoreResult {
        instructions: totals.instructions,
        accesses: totals.accesses,
        cycles: totals.time / slots,
        data: totals.stalls.data / slots,
        translation: totals.stalls.translation / slots,
        faults: totals.stalls.faults / slots,
        migrations: totals.stalls.migrations / slots,
        l1_tlb_misses: totals.tlb_l1_misses,
        l2_tlb_misses: totals.tlb_l2_misses,
    }
}

fn window(totals: &Totals, walks: Walks, slots: u64) -> WindowResult {
    let [_, l2_misses, llc_misses] = misses(totals);
    WindowResult {
        instructions: totals.instructions,
        accesses: totals.accesses,
        cycles: totals.elapsed / slots,
        data: totals.stalls.data / slots,
        translation: totals.stalls.translation / slots,
        faults: totals.stalls.faults / slots,
        migrations: totals.stalls.migrations / slots,
        l1_tlb_misses: totals.tlb_l1_misses,
        l2_tlb_misses: totals.tlb_l2_misses,
        walks: walks.count,
        walk_cycles: walks.cycles,
        walk_reads: totals.walk_served.iter().sum(),
        l2_misses,
        llc_misses,
    }
}

fn per_kilo(events: u64, instructions: u64) -> f64 {
    if instructions == 0 {
        0.0
    } else {
        events as f64 * 1000.0 / instructions as f64
    }
}
