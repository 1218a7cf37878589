use crate::lists::{Values, Words, accesses, first_distant, hits, loads, same, shape, share};
use pagelab_memory::{Access, DrripKeys, Kind, Replacement};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Set dueling of SRRIP with hit priority and BRRIP, for each core by itself.
pub struct Drrip {
    pub values: Values,
    keys: DrripKeys,
    /// By core: misses of SRRIP's leaders over those of BRRIP's, within the counter's bounds.
    ahead: BTreeMap<u32, i64>,
    bimodal: u32,
}

impl Drrip {
    pub fn new(keys: DrripKeys, sets: usize, ways: usize) -> Self {
        Drrip {
            values: vec![vec![0; ways]; sets],
            keys,
            ahead: BTreeMap::new(),
            bimodal: 0,
        }
    }
}

impl Words for Drrip {
    fn hit(&mut self, (set, way): (usize, usize), access: &Access) {
        if access.kind != Kind::WriteBack {
            self.values[set][way] = 0;
        }
    }

    fn victim(&mut self, set: usize) -> usize {
        first_distant(&mut self.values[set])
    }

    fn fill(&mut self, (set, way): (usize, usize), access: &Access) {
        self.values[set][way] = 2;
        if access.kind == Kind::WriteBack {
            return;
        }
        let groups = i64::max(2, self.values.len() as i64 / i64::from(self.keys.leaders));
        let (set_, core) = (set as i64, i64::from(access.core));
        let half = 1i64 << (self.keys.selector_bits - 1);
        let ahead = self.ahead.entry(access.core).or_insert(-1);
        let leads = |number: i64| (set_ - 2 * core - number).rem_euclid(groups) == 0;
        let bimodal = if leads(0) {
            *ahead = (*ahead + 1).min(half - 1);
            false
        } else if leads(1) {
            *ahead = (*ahead - 1).max(-half);
            true
        } else {
            *ahead >= 0
        };
        if bimodal {
            self.bimodal += 1;
            if !self.bimodal.is_multiple_of(self.keys.one_in) {
                self.values[set][way] = 3;
            }
        }
    }
}

fn keys() -> impl Strategy<Value = DrripKeys> {
    (1u32..40, 1u32..11, 1u32..40).prop_map(|(leaders, selector_bits, one_in)| DrripKeys {
        leaders,
        selector_bits,
        one_in,
    })
}

proptest! {
    #[test]
    fn equals_its_words((sets, ways) in shape(), keys in keys(), accesses in accesses()) {
        let words = Drrip::new(keys, sets, ways);
        same(Replacement::Drrip(keys), (sets, ways), &accesses, words);
    }
}

/// A loop over twice what fits has no hits under LRU and SRRIP; BRRIP keeps half of it, and the duel
/// finds that out (section 4.2: "thrash-resistant").
#[test]
fn a_loop_that_thrashes_is_held_in_part() {
    let (sets, ways) = (1024, 16);
    let lines = 2 * (sets * ways) as u32;
    let stream = loads(1, (0..30 * lines).map(|number| number % lines));
    let kept = |name: &str| {
        let policy = Replacement::named(name).unwrap();
        share(&hits(policy, sets, ways, &stream), lines as usize)
    };
    assert!(kept("lru") < 0.01);
    assert!(kept("srrip") < 0.01);
    assert!(kept("drrip") > 0.35, "{}", kept("drrip"));
}

/// A scan passes a working set as it does under SRRIP.
#[test]
fn a_working_set_outlives_a_scan() {
    let (sets, ways) = (1024, 16);
    let half = (sets * ways / 2) as u32;
    let mut stream = Vec::new();
    for round in 0..10 {
        for _ in 0..3 {
            stream.extend(loads(1, 0..half));
        }
        let first = 1_000_000 + round * half;
        stream.extend(loads(2, first..first + half));
    }
    stream.extend(loads(1, 0..half));
    let policy = Replacement::named("drrip").unwrap();
    let kept = share(&hits(policy, sets, ways, &stream), half as usize);
    assert!(kept > 0.95, "{kept}");
}

#[test]
fn keys_have_bounds() {
    let of = |leaders, selector_bits, one_in| {
        let keys = DrripKeys {
            leaders,
            selector_bits,
            one_in,
        };
        Replacement::Drrip(keys).check(16).is_ok()
    };
    assert!(of(32, 10, 32) && of(1, 1, 1) && of(1, 16, 1));
    assert!(!of(0, 10, 32) && !of(32, 0, 32) && !of(32, 17, 32) && !of(32, 10, 0));
    assert!(Replacement::named("drrip").unwrap().check(65).is_err());
}
