use super::dependence::Source;

/// An access in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the instruction that makes it, from 0.
    pub instruction: u16,
    /// Store or load.
    pub store: bool,
    /// It only asks for a line to be fetched, and QEMU makes no access of it: the plugin works its address out.
    pub prefetch: bool,
    /// Bytes; 0 when the instruction does not say.
    pub size: u16,
    /// Source of the address.
    pub place: AddressFrom,
    /// The loads that produced the address.
    pub producer: Source,
    /// Loads that produced the stored value of a store.
    pub stored: Source,
    /// The instruction makes no other access, or only a store to the place that it has loaded from;
    /// and it is not atomic.
    pub alone: bool,
}

impl Entry {
    /// True if one callback of QEMU, of any kind, stands for exactly this access: larger ones are
    /// reported in pieces by some versions.
    pub fn is_single(&self) -> bool {
        self.place == AddressFrom::ReportedAlways
            && self.alone
            && !self.prefetch
            && matches!(self.size, 1 | 2 | 4 | 8)
    }

    /// True if the plugin reports it.
    pub fn is_reported(&self) -> bool {
        matches!(
            self.place,
            AddressFrom::Reported | AddressFrom::ReportedAlways
        )
    }
}

/// Line that a prefetch asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// Its entry in the script.
    pub entry: u16,
    /// The register that is added, by its number.
    pub base: Option<u8>,
    /// The one that is multiplied before.
    pub index: Option<u8>,
    /// By so much.
    pub scale: u8,
    /// The segment whose base is added.
    pub segment: Option<Segment>,
    /// Constant that is added besides; the address itself, of one relative to the instruction.
    pub displacement: u64,
    /// Only the lower 32 bits of the sum count, but for the segment's base.
    pub narrow: bool,
}

/// A segment that has a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// `fs`, of threads.
    Fs,
    /// `gs`.
    Gs,
}

impl Prefetch {
    /// Address at which a prefetch is reported that asks for no program's memory: nothing can be mapped in this page,
    /// the last below the kernel's half.
    pub const NOWHERE: u64 = (1 << 47) - 4096;

    /// The address, given the bases of segments and the values of registers; [`Prefetch::NOWHERE`] and so far into
    /// its page, if a program can have no memory there.
    pub fn address(&self, segment: u64, base: u64, index: u64) -> u64 {
        let sum = (base.wrapping_add(index.wrapping_mul(self.scale.into())))
            .wrapping_add(self.displacement);
        let offset = if self.narrow {
            u64::from(sum as u32)
        } else {
            sum
        };
        let address = segment.wrapping_add(offset);
        if address < Self::NOWHERE {
            address
        } else {
            Self::NOWHERE | (address % 4096)
        }
    }
}

/// Source of the address of an access.
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
