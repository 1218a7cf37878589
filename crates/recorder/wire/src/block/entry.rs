use super::dependence::Source;

/// An access in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which instruction makes it, from 0.
    pub instruction: u16,
    /// Store or load.
    pub store: bool,
    /// Bytes; 0 when the instruction does not say.
    pub size: u16,
    /// Where the address is to be had from.
    pub place: AddressFrom,
    /// The loads that produced the address.
    pub producer: Source,
    /// Of a store, the loads that produced what is stored.
    pub stored: Source,
    /// The instruction makes no other access, or only a store to the place that it has loaded from;
    /// and it is not atomic.
    pub alone: bool,
}

impl Entry {
    /// Whether one callback of QEMU, of any kind, stands for exactly this access: larger ones are
    /// reported in pieces by some versions.
    pub fn is_single(&self) -> bool {
        self.place == AddressFrom::ReportedAlways
            && self.alone
            && matches!(self.size, 1 | 2 | 4 | 8)
    }

    /// Whether the plugin reports it.
    pub fn is_reported(&self) -> bool {
        matches!(
            self.place,
            AddressFrom::Reported | AddressFrom::ReportedAlways
        )
    }
}

/// Where the address of an access is to be had from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressFrom {
    /// The plugin reports it, perhaps in pieces, several times, or not at all.
    Reported,
    /// The plugin reports it each time the block is executed, unless the block is left before.
    ReportedAlways,
    /// So many bytes from another access of the script, always reported and earlier.
    Relative {
        /// The other access.
        entry: u16,
        /// Bytes to add to its address.
        offset: i64,
    },
    /// Always the same.
    Fixed(u64),
}
