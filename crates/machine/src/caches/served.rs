/// Place that served a reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Served {
    /// First-level data cache.
    #[default]
    L1,
    /// Second-level cache.
    L2,
    /// Last-level cache.
    Llc,
    /// Memory.
    Dram,
    /// Another core's first or second level.
    OtherCore,
    /// Memory, asked at once and not after the caches.
    PastCaches,
}

/// Number of places.
pub(crate) const PLACES: usize = 6;
