use super::{Accesses, Counts, Fetched, Latencies, Paths, Pending, fetch, time};
use crate::caches::served::Served;
use crate::config::MachineConfig;
use crate::error::BuildError;
use crate::machine::chunk::Chunk;
use crate::memory::MainMemory;
use pagelab_cpu::Core;
use pagelab_events::Mispredicted;
use pagelab_execution::UpTo;

/// Clocks of the same cores doing the same, but for translations, which take no time: what they
/// are ahead of the others is what translation costs.
///
/// Charging each stall to translation or data when it happens cannot say that, since a stall that
/// translation ends is often one that data would have begun.
#[derive(Debug)]
pub(crate) struct FreeClocks {
    cores: Vec<(Core, Pending)>,
    memory: MainMemory,
    latencies: Latencies,
    /// Nobody asks for these.
    counts: Counts,
}

impl FreeClocks {
    /// Clocks of so many cores as `core`, which is at time 0.
    pub(crate) fn new(
        config: &MachineConfig,
        latencies: &Latencies,
        core: &Core,
    ) -> Result<Self, BuildError> {
        let clock = |_| (core.clone(), Pending::new(config.core.reorder_buffer));
        Ok(FreeClocks {
            cores: (0..config.cores).map(clock).collect(),
            memory: MainMemory::new(config)?,
            latencies: *latencies,
            counts: Counts::default(),
        })
    }

    /// Paths of a core's references, and what it has put aside.
    fn of(&mut self, core: usize) -> (Paths<'_>, &mut Pending) {
        let (clock, pending) = &mut self.cores[core];
        let paths = Paths {
            core: clock,
            memory: &mut self.memory,
            latencies: &self.latencies,
            counts: &mut self.counts,
        };
        (paths, pending)
    }

    /// Takes a chunk through a core's clock.
    pub(crate) fn time(
        &mut self,
        core: usize,
        chunk: &Chunk,
        accesses: Accesses,
        up_to: Option<UpTo>,
    ) {
        let (mut paths, pending) = self.of(core);
        time::<true>(&mut paths, pending, chunk, accesses, up_to);
    }

    /// Takes what was fetched through a core's clock.
    pub(crate) fn fetch(
        &mut self,
        core: usize,
        chunk: &Chunk,
        fetched: &Fetched,
        ahead: &[(u32, Served)],
    ) {
        let (mut paths, pending) = self.of(core);
        fetch::<true>(&mut paths, pending, chunk, fetched, ahead);
    }

    /// Takes mispredicted branches before a core's next access.
    pub(crate) fn mispredicted(&mut self, core: usize, branches: &[(u32, Mispredicted)]) {
        let (mut paths, pending) = self.of(core);
        pending.mispredicted_all(&mut paths, branches);
    }

    /// Times the accesses of a core that were put aside.
    pub(crate) fn finish(&mut self, core: usize) {
        let (mut paths, pending) = self.of(core);
        pending.run_all(&mut paths);
    }

    /// Time in the kernel between two accesses.
    pub(crate) fn kernel(&mut self, core: usize, time: u64, migration: u64) {
        self.cores[core].0.kernel(time, migration);
    }

    /// A core's time, in slots.
    pub(crate) fn now(&self, core: usize) -> u64 {
        self.cores[core].0.now()
    }
}
