use super::hash::hashed;
use super::intervals::{DISTANT, Intervals, LONG, MAX_WAYS, NEAR};
use super::policy::Policy;
use super::{Access, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of SHiP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShipKeys {
    /// Signature by which entries are told apart.
    pub signature: Signature,
    /// Counters of signatures.
    pub counters: u32,
    /// Bits of a counter.
    pub counter_bits: u32,
}

/// Signature of a reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Signature {
    /// The instruction and its core; the region where the source names no instructions.
    #[default]
    Instruction,
    /// The 256 lines around it, or in a TLB pages.
    Region,
}

impl Default for ShipKeys {
    fn default() -> Self {
        // Section 4 of the paper.
        ShipKeys {
            signature: Signature::Instruction,
            counters: 16384,
            counter_bits: 3,
        }
    }
}

/// A counter begins with the least value that predicts use.
const FIRST: u8 = 1;
const REGION_SHIFT: u32 = 8;

/// See [`super::Replacement::Ship`].
#[derive(Clone, Debug)]
pub(crate) struct Ship {
    intervals: Intervals,
    keys: ShipKeys,
    ways: usize,
    /// By signature: use of what it brought.
    counters: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Counter of the signature that brought it; `None` for a write-back.
    counter: Option<u32>,
    used: bool,
}

impl Policy for Ship {
    type Keys = ShipKeys;

    fn new(keys: &ShipKeys, sets: usize, ways: usize) -> Self {
        Ship {
            intervals: Intervals::new(sets, ways),
            keys: *keys,
            ways,
            counters: vec![FIRST; keys.counters as usize],
            entries: vec![Entry::default(); sets * ways],
        }
    }

    fn has(ways: u32) -> bool {
        ways <= MAX_WAYS
    }

    fn check(keys: &ShipKeys) -> Result<(), &'static str> {
        let possible = (1..=1 << 20).contains(&keys.counters);
        (possible && (1..=8).contains(&keys.counter_bits))
            .then_some(())
            .ok_or("counters are 1 to 1048576, counter_bits 1 to 8")
    }

    fn hit(&mut self, set: usize, way: usize, access: &Access) {
        if access.kind == Kind::WriteBack {
            return;
        }
        self.intervals.set(set, way, NEAR);
        let entry = &mut self.entries[set * self.ways + way];
        entry.used = true;
        if let Some(counter) = entry.counter {
            let most = u8::MAX >> (8 - self.keys.counter_bits);
            let counter = &mut self.counters[counter as usize];
            *counter = most.min(counter.saturating_add(1));
        }
    }

    fn victim(&mut self, set: usize, _: &[u32], _: &Access) -> usize {
        let way = self.intervals.victim(set);
        let entry = self.entries[set * self.ways + way];
        if let Some(counter) = entry.counter.filter(|_| !entry.used) {
            let counter = &mut self.counters[counter as usize];
            *counter = counter.saturating_sub(1);
        }
        way
    }

    fn fill(&mut self, set: usize, way: usize, access: &Access) {
        let counter = self.counter(access);
        let dead = counter.is_some_and(|counter| self.counters[counter as usize] == 0);
        let interval = if dead { DISTANT } else { LONG };
        self.intervals.set(set, way, interval);
        self.entries[set * self.ways + way] = Entry {
            counter,
            used: false,
        };
    }
}

impl Ship {
    /// The counter of a reference's signature.
    fn counter(&self, access: &Access) -> Option<u32> {
        if access.kind == Kind::WriteBack {
            return None;
        }
        let by_instruction = self.keys.signature == Signature::Instruction;
        let signature = match access.instruction.filter(|_| by_instruction) {
            Some(instruction) => u64::from(access.core) << 32 | u64::from(instruction),
            None => 1 << 63 | u64::from(access.line >> REGION_SHIFT),
        };
        Some(hashed(signature, self.keys.counters))
    }
}
