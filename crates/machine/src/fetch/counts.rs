use crate::caches::served::PLACES;
use crate::count::sums::sums;

sums! {
    /// Counts of the instruction side.
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
}
