use crate::caches::served::Served;
use crate::config::MachineConfig;
use crate::config::designed::DesignedMachine;
use crate::count::by_code::ByCode;
use crate::count::heat_map::HeatMap;
use crate::count::histogram::Histogram;
use crate::count::memory::Memory;
use crate::count::own_counters::OwnCounters;
use crate::count::result::{
    BankResult, CacheResult, Causes, CoreResult, Cycles, DramResult, FetchResult, GapResult,
    NodeResult, RunResult, SCHEMA, Sample, ServedBy, TlbResult, WalkResult, WindowResult,
};
use crate::count::totals::{CoreTotals, Totals};
use crate::count::windows::{Measured, Window};
use crate::design::name::DesignName;
use crate::fetch::FetchCounts;
use crate::machine::Machine;
use crate::mmu::Mmu;
use crate::run::stopped::Stopped;
use pagelab_addr::PAGE_BYTES;
use pagelab_cpu::Stalls;
use pagelab_os::OsStatistics;
use pagelab_translation::PageTable;

impl<M: Mmu> Machine<M> {
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
            table_bytes: self.mmu.table().table_bytes(),
        }
    }

    /// Result of the run so far; `stopped` says why it ended early, if it did.
    pub(crate) fn result(
        self,
        config: &MachineConfig,
        design: DesignName,
        stopped: Option<Stopped>,
    ) -> RunResult {
        self.outcome().result(config, design, stopped)
    }

    /// Result of a run that goes on, of a sample up to its last whole window. It has neither memory map nor code.
    /// Where nothing is cut, the clock lacks the last accesses.
    pub(crate) fn so_far(&self, config: &MachineConfig, design: DesignName) -> RunResult {
        let outcome = Outcome {
            measured: self.measured_so_far(),
            simulated: self.counts.accesses,
            skipped_instructions: self.counts.skipped_instructions,
            memory: Memory::unknown(&self.os),
            by_code: Vec::new(),
            heat_map: None,
            timeline: self.timeline.clone().finish(self.sample()),
            own: self.own_counters(),
            os: self.os.statistics(self.mmu.table()),
            has_programs: self.has_programs(),
        };
        outcome.result(config, design, None)
    }

    /// Outcome of the run so far.
    pub(crate) fn outcome(mut self) -> Outcome {
        self.finish_all();
        let last = self.sample();
        let measured = self.measured();
        let at_exit = self.at_exit.take();
        let by_code = self.timing.by_code.take();
        Outcome {
            measured,
            simulated: self.counts.accesses,
            skipped_instructions: self.counts.skipped_instructions,
            memory: at_exit.unwrap_or_else(|| Memory::of(&self.os)),
            by_code: by_code.map_or_else(Vec::new, |all| all.finish(self.slots_per_cycle)),
            heat_map: self.heat_map.take(),
            timeline: std::mem::take(&mut self.timeline).finish(last),
            own: self.own_counters(),
            os: self.os.statistics(self.mmu.table()),
            has_programs: self.has_programs(),
        }
    }
}

/// Outcome of a run.
pub(crate) struct Outcome {
    pub(crate) measured: Measured,
    /// Accesses, measured or not.
    pub(crate) simulated: u64,
    pub(crate) skipped_instructions: u64,
    /// Just before the first process ended, or at the end.
    pub(crate) memory: Memory,
    pub(crate) by_code: Vec<ByCode>,
    pub(crate) heat_map: Option<Box<HeatMap>>,
    pub(crate) timeline: Vec<Sample>,
    pub(crate) own: OwnCounters,
    pub(crate) os: OsStatistics,
    has_programs: bool,
}

impl Outcome {
    pub(crate) fn result(
        self,
        config: &MachineConfig,
        design: DesignName,
        stopped: Option<Stopped>,
    ) -> RunResult {
        let slots = u64::from(config.core.width);
        let Outcome {
            measured, memory, ..
        } = self;
        let totals = measured.totals;
        RunResult {
            schema: SCHEMA,
            complete: stopped.is_none(),
            out_of_memory: stopped
                .as_ref()
                .is_some_and(|stopped| stopped.out_of_memory),
            stopped: stopped.map(|stopped| stopped.why),
            design: design.name(),
            page_table: design.page_table.name,
            tlb_design: design.tlb.name,
            machine: DesignedMachine::new(config, design),
            instructions: totals.instructions,
            accesses: totals.accesses,
            loads: totals.accesses - totals.run.stores - totals.run.prefetches,
            counts: totals.run,
            skipped_instructions: self.skipped_instructions,
            warm_up_accesses: self.simulated - totals.accesses,
            initialisation_cycles: measured.initialisation.elapsed / slots,
            cycles: cycles(&totals, slots, config),
            tlb: tlb(&totals),
            tlb_counters: self.own.tlb,
            walks: walks(&totals, slots, measured.walk_latency),
            caches: caches(&totals, config),
            fetch: config.fetch.map(|_| fetch(&totals)),
            dram: dram(&totals, slots, config),
            nodes: nodes(&totals, slots, config, &memory),
            per_core: if self.has_programs {
                let cores = measured.cores.iter();
                cores.map(|totals| core(totals, slots, config)).collect()
            } else {
                Vec::new()
            },
            os: self.os,
            design_counters: self.own.page_table,
            windows: measured
                .windows
                .into_iter()
                .map(|measured| window(measured, slots, config))
                .collect(),
            timeline: self.timeline,
            free_2m_blocks: memory.free_2m_blocks,
            memory_map: memory.map,
            heat_map: self.heat_map.map(|heat_map| heat_map.finish()),
            by_code: self.by_code,
        }
    }
}

/// Zeroing is a part of the time in faults. It is counted as the fault is taken: of a run that
/// ended there, before the clock knew of it. `free_time` is that of the second clock, if there is one; where
/// translation costs nothing the two may differ by a little either way.
fn causes(
    stalls: Stalls,
    zeroing: u64,
    (time, free_time): (u64, u64),
    config: &MachineConfig,
) -> Causes {
    let slots = u64::from(config.core.width);
    let zeroing = zeroing.min(stalls.faults);
    let saved = time.saturating_sub(free_time) / slots;
    Causes {
        data: stalls.data / slots,
        translation: stalls.translation / slots,
        mispredictions: stalls.mispredictions / slots,
        fetch: config.fetch.map(|_| stalls.fetch / slots),
        faults: (stalls.faults - zeroing) / slots,
        zeroing: zeroing / slots,
        migrations: stalls.migrations / slots,
        recoverable: config.free_clock.then_some(saved),
    }
}

fn cycles(totals: &Totals, slots: u64, config: &MachineConfig) -> Cycles {
    let total = totals.time / slots;
    let times = (totals.time, totals.free_time);
    let causes = causes(totals.stalls, totals.zeroing, times, config);
    Cycles {
        elapsed: totals.elapsed / slots,
        total,
        // Rounded down each, so the rest is never less than nothing.
        compute: total - causes.total(),
        causes,
        frequency_hz: config.core.ghz * 1e9,
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
    let wait = totals.walker_wait / slots;
    WalkResult {
        count: latency.count(),
        mean_with_wait: if latency.count() == 0 {
            0.0
        } else {
            latency.mean() + wait as f64 / latency.count() as f64
        },
        latency,
        walker_wait: wait,
        reads: served_by.total(),
        served_by,
        metadata_served_by: ServedBy::from_counts(totals.metadata_served),
        caches: totals.walk_cache,
    }
}

/// References that each cache level passed on, data and walks: first, second, last level.
pub(crate) fn misses(totals: &Totals) -> [u64; 3] {
    let served = |level: usize| totals.data_served[level] + totals.walk_served[level];
    let llc = served(Served::Dram as usize);
    let l2 = llc + served(Served::Llc as usize) + served(Served::OtherCore as usize);
    [l2 + served(1), l2, llc]
}

fn caches(totals: &Totals, config: &MachineConfig) -> CacheResult {
    let [l1, l2, llc] = misses(totals).map(|misses| per_kilo(misses, totals.instructions));
    CacheResult {
        data: ServedBy::from_counts(totals.data_served),
        prefetches: (config.caches.prefetch).map(|_| ServedBy::from_counts(totals.prefetch_served)),
        coherence: (config.caches.coherence).map(|_| totals.coherence),
        l1_mpki: l1,
        l2_mpki: l2,
        llc_mpki: llc,
    }
}

fn fetch(totals: &Totals) -> FetchResult {
    let FetchCounts {
        tlb_lookups,
        tlb_l1_misses,
        tlb_l2_misses,
        walks,
        served,
        prefetched,
    } = totals.fetch;
    let served_by = ServedBy::from_counts(served);
    let fetches = served_by.total();
    FetchResult {
        fetches,
        served_by,
        prefetches: ServedBy::from_counts(prefetched),
        l1_mpki: per_kilo(fetches - served_by.l1, totals.instructions),
        tlb: TlbResult {
            lookups: tlb_lookups,
            l1_misses: tlb_l1_misses,
            l2_misses: tlb_l2_misses,
            l1_mpki: per_kilo(tlb_l1_misses, totals.instructions),
            l2_mpki: per_kilo(tlb_l2_misses, totals.instructions),
        },
        walks,
    }
}

fn dram(totals: &Totals, slots: u64, config: &MachineConfig) -> DramResult {
    let busy = config.dram.rows.and_then(|rows| rows.busy);
    let [_, _, reads] = misses(totals);
    DramResult {
        reads: reads
            + totals.walk_served[Served::PastCaches as usize]
            + totals.prefetch_served[Served::Dram as usize]
            + totals.early_served[Served::Dram as usize]
            + totals.fetch.served[Served::Dram as usize]
            + totals.fetch.prefetched[Served::Dram as usize],
        writes: totals.writebacks,
        queue_cycles: totals.node_queued.iter().sum::<u64>() / slots,
        banks: busy.map(|_| BankResult {
            row_hits: totals.banks.hits,
            row_conflicts: totals.banks.conflicts,
            busy_cycles: totals.banks.waited / slots,
        }),
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

fn core(totals: &CoreTotals, slots: u64, config: &MachineConfig) -> CoreResult {
    let times = (totals.time, totals.free_time);
    CoreResult {
        instructions: totals.instructions,
        accesses: totals.accesses,
        cycles: totals.time / slots,
        causes: causes(totals.stalls, totals.zeroing, times, config),
        l1_tlb_misses: totals.tlb_l1_misses,
        l2_tlb_misses: totals.tlb_l2_misses,
    }
}

fn window(measured: Window, slots: u64, config: &MachineConfig) -> WindowResult {
    let Window {
        totals,
        walks,
        own,
        after,
    } = measured;
    let [_, l2_misses, llc_misses] = misses(&totals);
    let times = (totals.time, totals.free_time);
    let later = causes(after.stalls, after.zeroing, (0, 0), config);
    WindowResult {
        instructions: totals.instructions,
        accesses: totals.accesses,
        cycles: totals.elapsed / slots,
        total: (config.cores > 1).then_some(totals.time / slots),
        causes: causes(totals.stalls, totals.zeroing, times, config),
        l1_tlb_misses: totals.tlb_l1_misses,
        l2_tlb_misses: totals.tlb_l2_misses,
        coherence: config.caches.coherence.map(|_| totals.coherence),
        walks: walks.count,
        walk_cycles: walks.cycles,
        walk_reads: totals.walk_served.iter().sum(),
        l2_misses,
        llc_misses,
        after: GapResult {
            instructions: after.instructions,
            faults: later.faults,
            zeroing: later.zeroing,
            migrations: later.migrations,
        },
        tlb_counters: own.tlb,
        design_counters: own.page_table,
    }
}

fn per_kilo(events: u64, instructions: u64) -> f64 {
    if instructions == 0 {
        0.0
    } else {
        events as f64 * 1000.0 / instructions as f64
    }
}
