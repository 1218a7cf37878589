use super::Access;
use super::hash::hashed;
use super::policy::{MAX_WAYS, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of CHiRP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChirpKeys {
    /// Number of the last references whose instructions are a signature's history.
    pub history: u32,
    /// Counters of signatures.
    pub counters: u32,
    /// Bits of a counter.
    pub counter_bits: u32,
}

impl Default for ChirpKeys {
    fn default() -> Self {
        ChirpKeys {
            history: 16,
            counters: 4096,
            counter_bits: 2,
        }
    }
}

/// Bits of the history for a reference, of which the instruction gives the lower half.
const STEP: u32 = 4;
const FROM_INSTRUCTION: u32 = 3;

/// See [`super::Replacement::Chirp`].
#[derive(Clone, Debug)]
pub(crate) struct Chirp {
    keys: ChirpKeys,
    ways: usize,
    history: u64,
    /// By signature: how surely what it brings or uses last is not used again.
    counters: Vec<u8>,
    entries: Vec<Entry>,
    references: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Counter of the signature that used it last.
    counter: u32,
    dead: bool,
    hit: bool,
    last_use: u64,
}

impl Policy for Chirp {
    type Keys = ChirpKeys;

    fn new(keys: &ChirpKeys, sets: usize, ways: usize) -> Self {
        Chirp {
            keys: *keys,
            ways,
            history: 0,
            counters: vec![0; keys.counters as usize],
            entries: vec![Entry::default(); sets * ways],
            references: 0,
        }
    }

    fn has(ways: u32) -> bool {
        ways <= MAX_WAYS
    }

    fn check(keys: &ChirpKeys) -> Result<(), &'static str> {
        let possible = (1..=1 << 20).contains(&keys.counters) && keys.history <= u64::BITS / STEP;
        (possible && (1..=8).contains(&keys.counter_bits))
            .then_some(())
            .ok_or("history is at most 16, counters are 1 to 1048576, counter_bits 1 to 8")
    }

    fn hit(&mut self, set: usize, way: usize, access: &Access) {
        let at = set * self.ways + way;
        let entry = self.entries[at];
        if !entry.hit {
            let counter = &mut self.counters[entry.counter as usize];
            *counter = counter.saturating_sub(1);
        }
        self.use_entry(at, access, true);
    }

    fn victim(&mut self, set: usize, _: &[u32], _: &Access) -> usize {
        let entries = &self.entries[set * self.ways..][..self.ways];
        let oldest = (0..self.ways).min_by_key(|&way| (!entries[way].dead, entries[way].last_use));
        let way = oldest.unwrap_or_default();
        if !entries[way].hit {
            let most = u8::MAX >> (8 - self.keys.counter_bits);
            let counter = &mut self.counters[entries[way].counter as usize];
            *counter = most.min(counter.saturating_add(1));
        }
        way
    }

    fn fill(&mut self, set: usize, way: usize, access: &Access) {
        self.use_entry(set * self.ways + way, access, false);
    }
}

impl Chirp {
    /// A reference uses an entry: predicts by its signature whether it is the last.
    fn use_entry(&mut self, at: usize, access: &Access, hit: bool) {
        let instruction = access.instruction.unwrap_or(u32::MAX);
        let signature = self.history.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(instruction);
        let counter = hashed(signature, self.keys.counters);
        self.references += 1;
        self.entries[at] = Entry {
            counter,
            dead: self.counters[counter as usize] >> (self.keys.counter_bits - 1) != 0,
            hit,
            last_use: self.references,
        };
        let kept = u64::MAX.checked_shr(u64::BITS - STEP * self.keys.history);
        let step = u64::from(instruction & FROM_INSTRUCTION);
        self.history = (self.history << STEP | step) & kept.unwrap_or(0);
    }
}
