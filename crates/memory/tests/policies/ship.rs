use crate::lists::{Values, Words, accesses, first_distant, hits, loads, same, shape, share};
use pagelab_memory::{Access, Kind, Replacement, ShipKeys, Signature};
use proptest::prelude::*;
use std::collections::HashMap;

/// True with a core and an instruction, false with 0 and a region.
type Signed = (bool, u32, u32);

/// Counters by signature itself, of which there are as many as are asked for.
struct Ship {
    values: Values,
    keys: ShipKeys,
    counters: HashMap<Signed, u32>,
    /// By set and way: the signature that brought it, and whether it was used.
    brought: HashMap<(usize, usize), (Option<Signed>, bool)>,
}

fn signature(keys: &ShipKeys, access: &Access) -> Option<Signed> {
    if access.kind == Kind::WriteBack {
        return None;
    }
    Some(match access.instruction {
        Some(site) if keys.signature == Signature::Instruction => (true, access.core, site),
        _ => (false, 0, access.line / 256),
    })
}

impl Words for Ship {
    fn hit(&mut self, at: (usize, usize), access: &Access) {
        if access.kind == Kind::WriteBack {
            return;
        }
        self.values[at.0][at.1] = 0;
        let (signature, used) = self.brought.get_mut(&at).unwrap();
        *used = true;
        if let Some(signature) = signature {
            let counter = self.counters.entry(*signature).or_insert(1);
            *counter = (*counter + 1).min((1 << self.keys.counter_bits) - 1);
        }
    }

    fn victim(&mut self, set: usize) -> usize {
        let way = first_distant(&mut self.values[set]);
        if let (Some(signature), false) = self.brought[&(set, way)] {
            let counter = self.counters.entry(signature).or_insert(1);
            *counter = counter.saturating_sub(1);
        }
        way
    }

    fn fill(&mut self, at: (usize, usize), access: &Access) {
        let signature = signature(&self.keys, access);
        let dead = signature.is_some_and(|of| self.counters.get(&of) == Some(&0));
        self.values[at.0][at.1] = if dead { 3 } else { 2 };
        self.brought.insert(at, (signature, false));
    }
}

proptest! {
    #[test]
    fn equals_its_words(
        (sets, ways) in shape(),
        by_region in any::<bool>(),
        counter_bits in 1u32..5,
        accesses in accesses(),
    ) {
        let signature = if by_region { Signature::Region } else { Signature::Instruction };
        // Counters enough for each of the few signatures to have its own.
        let keys = ShipKeys { signature, counters: 1 << 20, counter_bits };
        let words = Ship {
            values: vec![vec![0; ways]; sets],
            keys,
            counters: HashMap::new(),
            brought: HashMap::new(),
        };
        same(Replacement::Ship(keys), (sets, ways), &accesses, words);
    }
}

/// A working set, used twice between scans that are far larger than the cache: SHiP learns that what
/// the scanning instruction brings is dead (section 3 of the paper); under SRRIP the scan, which is
/// too long for it, drives the set out.
#[test]
fn what_a_scanning_instruction_brings_is_dead() {
    let (sets, ways) = (64, 8);
    let mut stream = Vec::new();
    let mut used_last = Vec::new();
    for round in 0..40 {
        let first = stream.len();
        stream.extend(loads(1, 0..256));
        used_last = (first..stream.len()).collect();
        stream.extend(loads(3, 0..256));
        let first = 10_000 + round * 4096;
        stream.extend(loads(2, first..first + 4096));
    }
    let kept = |name: &str| {
        let hits = hits(Replacement::named(name).unwrap(), sets, ways, &stream);
        let of: Vec<bool> = used_last.iter().map(|&place| hits[place]).collect();
        share(&of, of.len())
    };
    assert!(kept("srrip") < 0.1, "{}", kept("srrip"));
    assert!(kept("ship") > 0.9, "{}", kept("ship"));
}

#[test]
fn keys_have_bounds() {
    let of = |counters, counter_bits| {
        let keys = ShipKeys {
            counters,
            counter_bits,
            ..ShipKeys::default()
        };
        Replacement::Ship(keys).check(16).is_ok()
    };
    assert!(of(16384, 3) && of(1, 1) && of(1 << 20, 8));
    assert!(!of(0, 3) && !of((1 << 20) + 1, 3) && !of(1, 0) && !of(1, 9));
}
