//! An instruction by what it does with registers and memory.

use serde::Deserialize;

/// Units that a core has few of, and an instruction needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Divides integers.
    Divider,
    /// Divides and takes roots of floating-point numbers.
    VectorDivider,
    /// Adds floating-point numbers.
    VectorAdder,
    /// Multiplies them.
    VectorMultiplier,
}

/// Number of these units.
pub(crate) const UNITS: usize = 4;

/// Use of registers by an instruction: sets of them, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Addresses are made of these.
    pub addresses: u32,
    /// And of these after they were scaled.
    pub scaled: u32,
    /// And what it computes of these.
    pub data: u32,
    /// These have what it computes.
    pub writes: u32,
    /// These have what it computes and what they had before.
    pub merges: u32,
    /// From its operands to what it computes; of one that loads, from its data on.
    pub cycles: u8,
    /// Unit that it needs, and after how many half cycles the next instruction can have that.
    pub unit: Option<(Unit, u8)>,
    /// It loads from memory.
    pub loads: bool,
    /// It stores to memory.
    pub stores: bool,
    /// It asks for memory to be fetched, and neither loads nor stores.
    pub prefetches: bool,
}

impl Step {
    /// True if it has an address, of one that a trace says something of.
    pub fn accesses(&self) -> bool {
        self.loads || self.stores || self.prefetches
    }
}
