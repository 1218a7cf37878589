//! Bound on the changes by cutting a stream.

use super::piece::Empty;
use crate::config::MachineConfig;
use crate::count::result::PiecesBound;
use crate::memory::spread::Spread;

/// Counts what pieces did not know of the past: the places that they filled which nothing had been
/// in.
///
/// In a set with LRU replacement, what is there is the beginning of the list, by last use, that all
/// of the past makes, and the rest is empty. So what is there is decided rightly; and what is not
/// there and comes into an empty place may have been there. Such are the "unknown references" of
/// Wood, Hill and Kessler ("A Model for Estimating Trace-Sample Miss Ratios", SIGMETRICS 1991).
pub(super) struct Bound {
    tlb: Option<u64>,
    caches: [u64; 3],
    /// Cycles of a miss of each level of cache beyond a hit.
    latencies: [u64; 3],
    /// From the core to memory, in cycles.
    memory: u64,
    is_lru: bool,
}

impl Bound {
    pub(super) fn new(config: &MachineConfig) -> Self {
        let caches = &config.caches;
        let dram = config.memory.nodes.iter().map(|node| node.latency_ns);
        let slowest = dram.fold(config.dram.latency_ns, f64::max)
            * (config.dram.spread.as_ref()).map_or(1.0, Spread::slowest);
        let dram = (slowest * config.core.ghz).ceil() as u64;
        let [l1, l2, llc] = [caches.l1, caches.l2, caches.llc].map(|level| u64::from(level.cycles));
        let tlb = &config.tlb;
        let arrays = [
            Some(tlb.l1_4k),
            tlb.l1_2m,
            tlb.l1_1g,
            Some(tlb.l2_4k),
            tlb.l2_2m,
            tlb.l2_1g,
        ];
        let levels = [caches.l1, caches.l2, caches.llc];
        Bound {
            tlb: Some(0),
            caches: [0; 3],
            latencies: [l2.saturating_sub(l1), llc.saturating_sub(l2), dram],
            memory: llc + dram,
            is_lru: config.tlb_prefetch.is_none()
                && config.caches.others.is_none()
                && levels.iter().all(|level| level.replacement.is_lru())
                && (arrays.iter().flatten()).all(|array| array.replacement.is_lru()),
        }
    }

    /// Adds a piece that does not begin with the stream.
    pub(super) fn add(&mut self, begun: &Empty, ended: &Empty) {
        let filled = |begun: u64, ended: u64| begun.saturating_sub(ended);
        self.tlb = (self.tlb)
            .zip(begun.tlb.zip(ended.tlb))
            .map(|(sum, (begun, ended))| sum + filled(begun, ended));
        for (number, sum) in self.caches.iter_mut().enumerate() {
            *sum += filled(begun.caches[number], ended.caches[number]);
        }
    }

    /// The bound of so many pieces whose longest walk took so many cycles.
    pub(super) fn finish(&self, walk: u64, pieces: u64) -> Option<PiecesBound> {
        let tlb = self.tlb.filter(|_| self.is_lru)?;
        let misses = self.caches.iter().zip(self.latencies);
        let caches: u64 = misses.map(|(misses, cycles)| misses * cycles).sum();
        let [l1_misses, l2_misses, llc_misses] = self.caches;
        Some(PiecesBound {
            l2_tlb_misses: tlb,
            l1_misses,
            l2_misses,
            llc_misses,
            // On either side of a cut, what is under way is as if nothing were on the other: an
            // access with its walk.
            cycles: caches + tlb * walk + (pieces - 1) * 2 * (self.memory + walk),
        })
    }
}
