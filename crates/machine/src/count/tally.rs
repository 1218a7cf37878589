//! Totals of misses.

/// Totals of the accesses of an instruction, or to a kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Accesses.
    pub accesses: u64,
    /// First-level TLB misses.
    pub l1_tlb_misses: u64,
    /// Second-level TLB misses.
    pub l2_tlb_misses: u64,
    /// Page walks.
    pub walks: u64,
    /// Cycles from a walker's start on each of them to its end.
    pub walk_cycles: u64,
    /// Page faults.
    pub faults: u64,
    /// Slots in these faults.
    pub(crate) fault_slots: u64,
    /// Cycles in these faults.
    pub fault_cycles: u64,
}

impl Tally {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Tally) {
        self.accesses += other.accesses;
        self.l1_tlb_misses += other.l1_tlb_misses;
        self.l2_tlb_misses += other.l2_tlb_misses;
        self.walks += other.walks;
        self.walk_cycles += other.walk_cycles;
        self.faults += other.faults;
        self.fault_slots += other.fault_slots;
        self.fault_cycles += other.fault_cycles;
    }

    /// True if translation cost anything.
    pub fn missed(&self) -> bool {
        self.l1_tlb_misses + self.walks + self.faults > 0
    }
}
