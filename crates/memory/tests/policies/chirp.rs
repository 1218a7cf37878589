use crate::lists::{Words, accesses, hits, loads, same, shape, share};
use pagelab_memory::{Access, ChirpKeys, Replacement};
use proptest::prelude::*;
use std::collections::HashMap;

/// An instruction, and the last bits of those before it, the latest last.
type Signed = (Option<u32>, Vec<u32>);

struct Chirp {
    keys: ChirpKeys,
    /// Instructions of all references so far.
    path: Vec<u32>,
    dead: HashMap<Signed, u32>,
    /// By set: ways in the order of their last uses, with the signature of that use, the prediction
    /// then, and whether it was a hit.
    sets: Vec<Vec<(usize, Signed, bool, bool)>>,
}

impl Chirp {
    fn place(&mut self, (set, way): (usize, usize), access: &Access, hit: bool) {
        let instruction = access.instruction;
        let before = self.path.len().saturating_sub(self.keys.history as usize);
        // Before the first reference all are alike.
        let mut history = vec![0; self.keys.history as usize];
        history.extend(self.path[before..].iter().map(|site| site % 4));
        let history = history.split_off(history.len() - self.keys.history as usize);
        let signed = (instruction, history);
        let half = 1 << (self.keys.counter_bits - 1);
        let dead = self.dead.get(&signed).is_some_and(|&count| count >= half);
        self.sets[set].retain(|entry| entry.0 != way);
        self.sets[set].push((way, signed, dead, hit));
        self.path.push(instruction.unwrap_or(u32::MAX));
    }
}

impl Words for Chirp {
    fn hit(&mut self, (set, way): (usize, usize), access: &Access) {
        let entry = self.sets[set].iter().find(|entry| entry.0 == way);
        let (_, signed, _, hit) = entry.unwrap().clone();
        if !hit {
            let count = self.dead.entry(signed).or_default();
            *count = count.saturating_sub(1);
        }
        self.place((set, way), access, true);
    }

    fn victim(&mut self, set: usize) -> usize {
        let oldest_dead = self.sets[set].iter().position(|entry| entry.2);
        let (way, signed, _, hit) = self.sets[set].remove(oldest_dead.unwrap_or(0));
        if !hit {
            let count = self.dead.entry(signed).or_default();
            *count = (*count + 1).min((1 << self.keys.counter_bits) - 1);
        }
        way
    }

    fn fill(&mut self, at: (usize, usize), access: &Access) {
        self.place(at, access, false);
    }
}

proptest! {
    #[test]
    fn equals_its_words(
        (sets, ways) in shape(),
        history in 0u32..3,
        counter_bits in 1u32..4,
        accesses in accesses(),
    ) {
        // Counters enough for each of the few signatures to have its own.
        let keys = ChirpKeys { history, counters: 1 << 20, counter_bits };
        let words = Chirp {
            keys,
            path: Vec::new(),
            dead: HashMap::new(),
            sets: vec![Vec::new(); sets],
        };
        same(Replacement::Chirp(keys), (sets, ways), &accesses, words);
    }
}

/// Pages that an instruction goes through once leave before those that another comes back to: the
/// paper's case for dead entries in a TLB.
#[test]
fn pages_of_a_scan_leave_first() {
    let (sets, ways) = (64, 8);
    let mut stream = Vec::new();
    for round in 0..60 {
        for _ in 0..2 {
            stream.extend(loads(4, 0..256));
        }
        let first = 10_000 + round * 2048;
        stream.extend(loads(9, first..first + 2048));
    }
    stream.extend(loads(4, 0..256));
    let kept = |name: &str| {
        let policy = Replacement::named(name).unwrap();
        share(&hits(policy, sets, ways, &stream), 256)
    };
    assert!(kept("lru") < 0.01);
    assert!(kept("chirp") > 0.9, "{}", kept("chirp"));
}

#[test]
fn keys_have_bounds() {
    let of = |history, counters, counter_bits| {
        let keys = ChirpKeys {
            history,
            counters,
            counter_bits,
        };
        Replacement::Chirp(keys).check(12).is_ok()
    };
    assert!(of(16, 4096, 2) && of(0, 1, 1) && of(16, 1 << 20, 8));
    assert!(!of(17, 4096, 2) && !of(16, 0, 2) && !of(16, 4096, 0) && !of(16, 4096, 9));
}
