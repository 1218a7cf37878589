//! Place of a block in a recording.

/// A block's place in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    /// Its number.
    pub(crate) block: u32,
    /// The site of its first instruction.
    pub(crate) first_site: u32,
    /// The site of its last instruction.
    pub(crate) last_site: u32,
}
