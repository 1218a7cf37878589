/// Reason for which a geometry cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// Capacity, associativity and line size leave no whole number of sets.
    #[error("{kib} KiB in {ways} ways is not a whole number of sets of 64-byte lines")]
    Sets {
        /// As configured.
        kib: u32,
        /// As configured.
        ways: u32,
    },
    /// A policy that sets of so many ways cannot have.
    #[error(
        "sets of {ways} ways: tree-plru has a power of two up to 128, nru, random and chirp up to \
         128, others but lru up to 64"
    )]
    Replacement {
        /// As configured.
        ways: u32,
    },
    /// Keys that a policy cannot have.
    #[error("{name}: {what}")]
    Policy {
        /// Name of the policy.
        name: &'static str,
        /// Values that it can have.
        what: &'static str,
    },
    /// More than prefetchers can have.
    #[error(
        "caches.prefetch: streams are at most 1024, ahead is at most 63, within 1 to 63, at_once 1 to 8"
    )]
    Prefetch,
    /// Keys that a prefetcher cannot have.
    #[error("caches.prefetch.{0}")]
    Prefetcher(&'static str),
    /// The value that makes a second level busy is no share.
    #[error("caches.prefetch.busy is not between 0 and 1")]
    Busy,
}
