/// Computed values that an access waits for, in slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Computed {
    /// When it has its address, as far as registers make it.
    pub address: u64,
    /// When the arithmetic of the instructions since the access before it, and its own, is done: it retires no
    /// earlier.
    pub done: u64,
}

/// Conditions that an access waits for before it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Distances of the loads that made its address, in accesses; 0 for none.
    pub loads: [u32; 2],
    /// Slots that arithmetic takes from the data of each to the address.
    pub arithmetic: [u16; 2],
    /// Values that registers make of it.
    pub computed: Computed,
}

impl From<[u32; 2]> for Waits {
    /// For addresses that are what was loaded.
    #[inline(always)]
    fn from(loads: [u32; 2]) -> Self {
        Waits {
            loads,
            arithmetic: [0; 2],
            computed: Computed::default(),
        }
    }
}
