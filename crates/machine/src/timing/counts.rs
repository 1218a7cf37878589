use crate::caches::served::PLACES;
use crate::count::by_code::Tallies;
use crate::count::histogram::Histogram;

/// Counts of the timing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Data references by where they were served.
    pub(crate) data_served: [u64; PLACES],
    /// Prefetches by where they were served.
    pub(crate) prefetch_served: [u64; PLACES],
    /// Lines that were fetched by guess, by where they were served.
    pub(crate) early_served: [u64; PLACES],
    /// Walk references by where they were served.
    pub(crate) walk_served: [u64; PLACES],
    /// The same, of reads of metadata.
    pub(crate) metadata_served: [u64; PLACES],
    /// Latency of each walk in cycles, from a walker's start to its end.
    pub(crate) walk_latency: Histogram,
    /// Cycles that walks waited for a free walker.
    pub(crate) walker_wait: u64,
    /// Translations that a cache or buffer had, and that were still under way.
    pub(crate) late_translations: u64,
    /// Lines that were fetched by a right guess and were still under way when the translation came.
    pub(crate) late_lines: u64,
    /// Tallies of the instructions, where that is counted.
    pub(crate) by_code: Option<Box<Tallies>>,
}
