use crate::lists::{Values, Words, accesses, first_distant, hits, loads, same, shape, share};
use pagelab_memory::{Access, Replacement};
use proptest::prelude::*;

/// Frequency priority: a hit takes one off.
struct Srrip(Values);

impl Words for Srrip {
    fn hit(&mut self, (set, way): (usize, usize), _: &Access) {
        self.0[set][way] = self.0[set][way].saturating_sub(1);
    }

    fn victim(&mut self, set: usize) -> usize {
        first_distant(&mut self.0[set])
    }

    fn fill(&mut self, (set, way): (usize, usize), _: &Access) {
        self.0[set][way] = 2;
    }
}

proptest! {
    #[test]
    fn equals_its_words((sets, ways) in shape(), accesses in accesses()) {
        let words = Srrip(vec![vec![0; ways]; sets]);
        same(Replacement::Srrip, (sets, ways), &accesses, words);
    }
}

/// A working set that fits stays while lines pass that are used once, as many as the cache has
/// (section 1: "scan-resistant"); under LRU each scan drives it out.
#[test]
fn a_working_set_outlives_a_scan() {
    let (sets, ways) = (64, 8);
    let mut stream = Vec::new();
    for round in 0..20 {
        for _ in 0..3 {
            stream.extend(loads(1, 0..256));
        }
        let first = 10_000 + round * 512;
        stream.extend(loads(2, first..first + 384));
    }
    stream.extend(loads(1, 0..256));
    let kept = |policy| share(&hits(policy, sets, ways, &stream), 256);
    assert!(kept(Replacement::Srrip) > 0.99);
    assert!(kept(Replacement::Lru) < 0.01);
}
