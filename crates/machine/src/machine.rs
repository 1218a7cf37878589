use crate::chunk::{CHUNK, Chunk};
use crate::config::{CachesConfig, MachineConfig};
use crate::costs::Costs;
use crate::hierarchy::{self, PrivateCaches, SharedCache};
use crate::memory::Memory;
use crate::timeline::Timeline;
use crate::timing::{self, Counts, Latencies};
use crate::translate::StretchCache;
use crate::windows::Windows;
use pagelab_addr::{Asid, DirectoryFull, PageDirectory, PageSize};
use pagelab_cpu::{Core, CoreError};
use pagelab_events::{Batch, Control, Op, SourceError};
use pagelab_memory::simd::{Simd, SimdLevel};
use pagelab_memory::{Dram, GeometryError, dispatch};
use pagelab_os::{Effects, Invalidation, Os, OsConfigError, OsError};
use pagelab_translation::{Page, PageTable, Tlb, Walk};
use std::collections::HashMap;

/// Why a run ended before its source did.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The program spreads too far.
    #[error(transparent)]
    Directory(#[from] DirectoryFull),
    /// The operating system could not do what the program asked for.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The source could not be read on.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Page faults on one access do not end: a defect of the design.
    #[error("page faults at address {address:#x} do not lead to a translation")]
    Unresolved {
        /// Virtual address of the page.
        address: u64,
    },
}

/// Why a machine cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A cache's geometry.
    #[error("caches: {0}")]
    Caches(#[from] GeometryError),
    /// The core.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// The TLB.
    #[error("tlb: {0}")]
    Tlb(#[from] pagelab_translation::TlbError),
    /// A page-table design.
    #[error("{0}")]
    Design(#[from] pagelab_translation::ConfigError),
    /// Physical memory.
    #[error("memory.{0}")]
    Os(#[from] OsConfigError),
    /// A value that only makes sense between bounds.
    #[error("{key} = {value} is not {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

/// Everything that belongs to one core.
#[derive(Debug)]
pub(crate) struct CoreState<T> {
    pub(crate) clock: Core,
    pub(crate) tlb: T,
    caches: PrivateCaches,
}

/// A machine of one design: page table `P` and TLB `T`, fixed at compile time so that the hot
/// path calls nothing indirectly.
#[derive(Debug)]
pub struct Machine<P, T> {
    pub(crate) cores: Vec<CoreState<T>>,
    pub(crate) shared: SharedCache,
    pub(crate) dram: Dram,
    pub(crate) table: P,
    pub(crate) os: Os,
    pub(crate) directory: PageDirectory,
    pub(crate) stretches: StretchCache,
    pub(crate) chunk: Chunk,
    pub(crate) walk: Walk,
    effects: Effects,
    latencies: Latencies,
    costs: Costs,
    pub(crate) counts: MachineCounts,
    pub(crate) timing: Counts,
    pub(crate) slots_per_cycle: u64,
    pub(crate) prefetch_walks: bool,
    level: SimdLevel,
    pub(crate) timeline: Timeline,
    pub(crate) windows: Windows,
    /// Physical memory just before the first process ended, which gives most of it back.
    pub(crate) memory: Option<Memory>,
    /// The core of each thread, in order of appearance.
    threads: HashMap<(u32, u32), usize>,
    current: Option<(u32, usize)>,
}

/// What the front of the machine counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineCounts {
    pub(crate) accesses: u64,
    pub(crate) stores: u64,
    pub(crate) skipped_instructions: u64,
    pub(crate) walk_cache_lookups: u64,
    pub(crate) walk_cache_hits: u64,
}

impl Latencies {
    fn new(config: &MachineConfig) -> Self {
        let CachesConfig { l1, l2, llc, .. } = config.caches;
        let width = u64::from(config.core.width);
        let dram_ns = config.dram.latency_ns * config.core.ghz;
        Latencies {
            served: [
                u64::from(l1.cycles) * width,
                u64::from(l2.cycles) * width,
                u64::from(llc.cycles) * width,
                u64::from(llc.cycles) * width + (dram_ns * width as f64).round() as u64,
            ],
            second_tlb: u64::from(config.tlb.l2_cycles) * width,
        }
    }
}

/// References carry line numbers of 31 bits.
const MAX_MEMORY_BYTES: u64 = 128 << 30;

impl<P: PageTable, T: Tlb> Machine<P, T> {
    /// A machine around a page table and a TLB for each core.
    ///
    /// # Errors
    /// [`BuildError`] names the first value that cannot be.
    pub fn new(
        config: &MachineConfig,
        os: Os,
        table: P,
        tlb: impl Fn() -> Result<T, BuildError>,
    ) -> Result<Self, BuildError> {
        let check = |key, value: String, good, expected| {
            if good {
                Ok(())
            } else {
                Err(BuildError::Value {
                    key,
                    value,
                    expected,
                })
            }
        };
        check(
            "cores",
            config.cores.to_string(),
            (1..=1024).contains(&config.cores),
            "between 1 and 1024",
        )?;
        check(
            "memory.bytes",
            config.memory.memory_bytes.to_string(),
            config.memory.memory_bytes <= MAX_MEMORY_BYTES,
            "at most 128 GiB",
        )?;
        let dram = config.dram;
        check(
            "dram.gigabytes_per_second",
            dram.gigabytes_per_second.to_string(),
            dram.gigabytes_per_second.is_finite() && dram.gigabytes_per_second > 0.001,
            "a bandwidth above 0.001",
        )?;
        check(
            "dram.latency_ns",
            dram.latency_ns.to_string(),
            (0.0..1e9).contains(&dram.latency_ns),
            "a time from 0 to 10^9 ns",
        )?;
        config.core.check()?;
        let slots_per_ns = config.core.ghz * f64::from(config.core.width);
        let cores = (0..config.cores)
            .map(|_| {
                Ok(CoreState {
                    clock: Core::new(&config.core)?,
                    tlb: tlb()?,
                    caches: PrivateCaches::new(&config.caches)?,
                })
            })
            .collect::<Result<_, BuildError>>()?;
        Ok(Machine {
            cores,
            shared: SharedCache::new(&config.caches)?,
            dram: Dram::new(64.0 / dram.gigabytes_per_second * slots_per_ns),
            table,
            os,
            directory: PageDirectory::new(),
            stretches: StretchCache::new(),
            chunk: Chunk::default(),
            walk: Walk::new(),
            effects: Effects::default(),
            latencies: Latencies::new(config),
            costs: Costs::new(&config.cost, slots_per_ns)?,
            counts: MachineCounts::default(),
            timing: Counts::default(),
            slots_per_cycle: u64::from(config.core.width),
            prefetch_walks: false,
            level: SimdLevel::detect(),
            timeline: Timeline::default(),
            windows: Windows::default(),
            memory: None,
            threads: HashMap::new(),
            current: None,
        })
    }

    /// Uses another SIMD level than the best one. The results are the same.
    pub fn set_simd_level(&mut self, level: SimdLevel) {
        self.level = level;
    }

    /// Takes a batch of events through the machine.
    ///
    /// # Errors
    /// [`RunError`]; what came before stays counted.
    pub fn run(&mut self, batch: &Batch) -> Result<(), RunError> {
        let mut controls = batch.controls.iter().peekable();
        let mut at = 0;
        loop {
            while let Some((_, control)) = controls.next_if(|(before, _)| *before as usize <= at) {
                self.control(batch.process, control)?;
            }
            if at >= batch.len() {
                return Ok(());
            }
            let until = controls
                .peek()
                .map_or(batch.len(), |(before, _)| *before as usize)
                .min(batch.len());
            if self
                .current
                .is_none_or(|(process, _)| process != batch.process)
            {
                self.switch(batch.process, 0);
            }
            while at < until {
                let sample = self.timeline.next() - self.counts.accesses;
                let most = sample.min(self.left_to_warm_up()) as usize;
                let end = until.min(at + CHUNK.min(most));
                self.chunk(
                    batch.process,
                    &batch.addr[at..end],
                    &batch.op[at..end],
                    &batch.gap[at..end],
                    &batch.dep[at..end],
                )?;
                at = end;
            }
        }
    }

    fn chunk(
        &mut self,
        process: u32,
        addr: &[u64],
        op: &[Op],
        gap: &[u32],
        dep: &[u32],
    ) -> Result<(), RunError> {
        let core = self.current.map_or(0, |(_, core)| core);
        let asid = Asid(process as u16);
        let machine = self;
        dispatch!(machine.level, <S>[P: PageTable, T: Tlb](
            machine: &mut Machine<P, T>,
            core: usize,
            asid: Asid,
            addr: &[u64],
            op: &[Op],
            gap: &[u32],
            dep: &[u32],
        ) -> Result<(), RunError> {
            machine.chunk_at::<S>(core, asid, addr, op, gap, dep)
        })
    }

    #[inline(always)]
    fn chunk_at<S: Simd>(
        &mut self,
        core: usize,
        asid: Asid,
        addr: &[u64],
        op: &[Op],
        gap: &[u32],
        dep: &[u32],
    ) -> Result<(), RunError> {
        self.translate::<S>(core, asid, addr, op)?;
        let state = &mut self.cores[core];
        hierarchy::reference::<S>(&mut state.caches, &mut self.shared, &mut self.chunk);
        timing::time(
            &mut state.clock,
            &mut self.dram,
            &self.latencies,
            &mut self.timing,
            &self.chunk,
            gap,
            dep,
        );
        self.counts.accesses += addr.len() as u64;
        if self.counts.accesses == self.timeline.next() {
            let sample = self.sample();
            self.timeline.push(sample);
        }
        self.counts.stores += op.iter().map(|op| u64::from(op.is_store())).sum::<u64>();
        Ok(())
    }

    /// Lets a thread run on its core; new threads go round the cores.
    fn switch(&mut self, process: u32, thread: u32) {
        let next = self.threads.len() % self.cores.len();
        let core = *self.threads.entry((process, thread)).or_insert(next);
        if self.current.is_none_or(|(current, _)| current != process) {
            self.stretches.clear();
        }
        self.current = Some((process, core));
    }

    fn control(&mut self, process: u32, control: &Control) -> Result<(), RunError> {
        match *control {
            Control::Thread { thread } => {
                self.switch(process, thread);
                return Ok(());
            }
            Control::Skipped { instructions, .. } => {
                self.counts.skipped_instructions += instructions;
                let core = self.current.map_or(0, |(_, core)| core);
                self.left_out(process, core);
                return Ok(());
            }
            Control::ThreadStart { .. } | Control::ThreadEnd { .. } => return Ok(()),
            Control::Exit { .. } if self.memory.is_none() => {
                self.memory = Some(Memory::of(&self.os));
            }
            _ => {}
        }
        self.effects.clear();
        self.os.control(
            &mut self.table,
            &mut self.directory,
            process,
            control,
            &mut self.effects,
        )?;
        self.invalidate();
        let (kernel, migration) = self.costs.of(&self.effects);
        if kernel + migration > 0 {
            let core = self.current.map_or(0, |(_, core)| core);
            self.cores[core].clock.kernel(kernel, migration);
        }
        Ok(())
    }

    /// Takes a page fault; returns its cost in slots: (in the kernel at large, on migrations).
    #[inline(never)]
    pub(crate) fn fault(&mut self, page: Page, store: bool) -> Result<(u64, u64), RunError> {
        self.effects.clear();
        self.os.fault(
            &mut self.table,
            &mut self.directory,
            page,
            store,
            &mut self.effects,
        )?;
        self.invalidate();
        let (kernel, migration) = self.costs.of(&self.effects);
        Ok((self.costs.fault + kernel, migration))
    }

    /// Drops what the operating system's last operation made stale from all TLBs.
    fn invalidate(&mut self) {
        for core in &mut self.cores {
            for &Invalidation { first, pages } in &self.effects.invalidations {
                core.tlb.invalidate(first, pages);
            }
            for &asid in &self.effects.flushed {
                for stretch in self.directory.stretches(asid) {
                    core.tlb.invalidate(stretch, PageSize::Huge1G.base_pages());
                }
            }
        }
    }
}
