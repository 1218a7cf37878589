use crate::caches::served::PLACES;

/// Counts of the instruction side.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct FetchCounts {
    /// Look-ups of the first-level TLB: fetches from another page than the one before.
    pub(crate) tlb_lookups: u64,
    pub(crate) tlb_l1_misses: u64,
    pub(crate) tlb_l2_misses: u64,
    /// Walks, those that ended in a fault included.
    pub(crate) walks: u64,
    /// Fetches of another line than the one before by where they were served.
    pub(crate) served: [u64; PLACES],
    /// Lines fetched ahead by where they were served.
    pub(crate) prefetched: [u64; PLACES],
}

impl FetchCounts {
    pub(crate) fn zip(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let each = |a: [u64; PLACES], b: [u64; PLACES]| std::array::from_fn(|i| f(a[i], b[i]));
        FetchCounts {
            tlb_lookups: f(self.tlb_lookups, other.tlb_lookups),
            tlb_l1_misses: f(self.tlb_l1_misses, other.tlb_l1_misses),
            tlb_l2_misses: f(self.tlb_l2_misses, other.tlb_l2_misses),
            walks: f(self.walks, other.walks),
            served: each(self.served, other.served),
            prefetched: each(self.prefetched, other.prefetched),
        }
    }
}
