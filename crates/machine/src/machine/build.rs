//! A machine from its description.

use super::{CoreState, Machine};
use crate::caches::neighbour_pages::NeighbourPages;
use crate::caches::others::Others;
use crate::caches::served::Served;
use crate::caches::{PrivateCaches, SharedCache};
use crate::config::MachineConfig;
use crate::config::check::check;
use crate::count::heat_map::HeatMap;
use crate::count::timeline::Timeline;
use crate::count::windows::Windows;
use crate::error::BuildError;
use crate::fetch::Fetch;
use crate::machine::chunk::Chunk;
use crate::machine::costs::{Costs, next_tick};
use crate::machine::counts::MachineCounts;
use crate::machine::gib_cache::GibCache;
use crate::machine::sharing::Sharing;
use crate::memory::MainMemory;
use crate::mmu::{CachePort, Mmu, Walks};
use crate::timing::{Counts, FreeClocks, Latencies, Pending};
use pagelab_addr::PageDirectory;
use pagelab_cpu::Core;
use pagelab_events::NO_SITE;
use pagelab_execution::Execution;
use pagelab_memory::simd::SimdLevel;
use pagelab_os::{Effects, Os};
use serde_json::Value;
use std::collections::HashMap;

impl<M: Mmu> Machine<M> {
    /// A machine around a design, whose page table has these counters.
    ///
    /// # Errors
    /// [`BuildError`] names the first value that cannot be.
    pub(crate) fn new(
        config: &MachineConfig,
        os: Os,
        mmu: M,
        page_table_counters: fn(&M) -> Value,
    ) -> Result<Self, BuildError> {
        check(config)?;
        config.core.check()?;
        let slots_per_ns = config.core.ghz * f64::from(config.core.width);
        let costs = Costs::new(&config.cost, os.config().reclaim, slots_per_ns)?;
        let next_tick = next_tick(&os, slots_per_ns, 0);
        let tells_accesses = os.tells_accesses();
        let latencies = Latencies::new(config);
        // Policies that leave something to chance draw for each core and level by themselves.
        let caches = (1..=u64::from(config.cores))
            .map(|core| PrivateCaches::new(&config.caches, config.seed.wrapping_add(core << 8)))
            .collect::<Result<Vec<_>, _>>()?;
        let core = Core::new(&config.core, latencies.served[Served::L1 as usize])?;
        let cores = (0..config.cores)
            .map(|_| CoreState {
                clock: core.clone(),
                pending: Pending::new(config.core.reorder_buffer),
                prefetch_walks: false,
                accesses: 0,
                sharing: Sharing::default(),
                zeroing: 0,
                unknown: None,
                taken_as_hits: 0,
            })
            .collect();
        // The clock is that clock where translation is free.
        let free = (config.free_clock && !M::FREE)
            .then(|| FreeClocks::new(config, &latencies, &core))
            .transpose()?;
        let memory = MainMemory::new(config)?;
        let looks = CachePort::new(config.cores, memory.takes_write_backs());
        let chunk = Chunk {
            write_backs: memory.takes_write_backs().then(Vec::new),
            ..Chunk::default()
        };
        let fetch = (config.fetch.as_ref())
            .map(|fetch| Fetch::new(fetch, config.cores, config.seed).map(Box::new))
            .transpose()?;
        Ok(Machine {
            fetch,
            execution: Execution::new(
                &config.core,
                config.cores,
                latencies.served[Served::L1 as usize],
            )
            .map(Box::new),
            cores,
            caches,
            shared: SharedCache::new(&config.caches, config.cores, config.seed)?,
            others: Others::new(&config.caches, config.seed.wrapping_add(3), slots_per_ns)?,
            memory,
            mmu,
            page_table_counters,
            looks,
            os,
            directory: PageDirectory::new(),
            gibs: GibCache::new(),
            chunk,
            beside: NeighbourPages::default(),
            mispredicted: Vec::new(),
            dep: Vec::new(),
            walks: Walks::new(),
            instruction: NO_SITE,
            targets: Vec::new(),
            line: 0,
            effects: Effects::default(),
            latencies,
            free,
            costs,
            counts: MachineCounts::default(),
            timing: Counts::default(),
            slots_per_cycle: u64::from(config.core.width),
            level: SimdLevel::detect(),
            timeline: Timeline::default(),
            heat_map: config.heat_map.then(|| Box::new(HeatMap::new())),
            windows: Windows::default(),
            at_exit: None,
            threads: HashMap::new(),
            current: None,
            pinned: None,
            next_tick,
            threads_until: [0; 2],
            in_faults: 0,
            slots_per_ns,
            tells_accesses,
            flushes: !config.tlb.asids,
            tlb_entries: config.tlb.l2_4k.entries as usize,
        })
    }
}
