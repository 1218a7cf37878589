use crate::caches::served::{PLACES, Served};
use crate::config::{CachesConfig, MachineConfig, WalksEnter};
use crate::memory::MainMemory;
use pagelab_memory::MODIFY;

/// Latencies of a machine, in slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    /// From where a reference is served. Memory's nodes have their own.
    pub(crate) served: [u64; PLACES],
    /// Until other cores have dropped a line.
    pub(crate) invalidate: u64,
    /// Second-level TLB.
    pub(crate) second_tlb: u64,
    /// From there on, second-level cache where it has translations, or the buffer of those that
    /// were prefetched.
    pub(crate) cached_translation: u64,
    /// The first level in which walks look.
    pub(crate) walks_enter: Served,
}

impl Latencies {
    pub(crate) fn new(config: &MachineConfig) -> Self {
        let CachesConfig {
            l1,
            l2,
            llc,
            coherence,
            ..
        } = config.caches;
        let width = u64::from(config.core.width);
        Latencies {
            served: [
                u64::from(l1.cycles) * width,
                u64::from(l2.cycles) * width,
                u64::from(llc.cycles) * width,
                0,
                coherence.map_or(0, |coherence| u64::from(coherence.transfer_cycles) * width),
                0,
            ],
            invalidate: coherence.map_or(0, |coherence| {
                u64::from(coherence.invalidate_cycles) * width
            }),
            second_tlb: u64::from(config.tlb.l2_cycles) * width,
            cached_translation: u64::from(
                (config.tlb_prefetch).map_or(l2.cycles, |prefetch| prefetch.cycles),
            ) * width,
            walks_enter: match config.caches.walks_enter {
                WalksEnter::L1 => Served::L1,
                WalksEnter::L2 => Served::L2,
            },
        }
    }

    /// Time of a reference that goes out at `now`. Of memory's latencies the line and the stretch of the program have
    /// one.
    #[inline(always)]
    pub(super) fn of(
        &self,
        served: Served,
        (line, stretch): (u32, u32),
        memory: &mut MainMemory,
        now: u64,
    ) -> u64 {
        let read = (line & !MODIFY, stretch);
        match served {
            Served::Dram => memory.read(read, now),
            Served::PastCaches => self.past_caches(memory.read(read, now)),
            Served::Llc => {
                memory.of_last_level(line & !MODIFY, now, self.served[Served::Llc as usize])
            }
            cache => self.served[cache as usize],
        }
    }

    /// Time of a reference when memory is idle.
    #[inline(always)]
    pub(super) fn idle(
        &self,
        served: Served,
        (line, stretch): (u32, u32),
        memory: &MainMemory,
    ) -> u64 {
        let read = (line & !MODIFY, stretch);
        match served {
            Served::Dram => memory.latency(read),
            Served::PastCaches => self.past_caches(memory.latency(read)),
            cache => self.served[cache as usize],
        }
    }

    /// Memory's latency where the caches, which it contains, are not waited for.
    #[inline(always)]
    fn past_caches(&self, memory: u64) -> u64 {
        memory.saturating_sub(self.served[Served::Llc as usize])
    }
}
