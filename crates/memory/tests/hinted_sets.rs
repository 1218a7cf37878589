//! Beside the sets that keep their keys in the order of their last uses.

use pagelab_memory::{HintedSets, LruSets, Replacement};
use proptest::prelude::*;

const POLICIES: [Replacement; 4] = [
    Replacement::Lru,
    Replacement::Random,
    Replacement::Nru,
    Replacement::TreePlru,
];

proptest! {
    #[test]
    fn does_what_lru_sets_do(
        shape in prop_oneof![Just((1u32, 4u32)), Just((3, 2)), Just((8, 8)), Just((1, 64)), Just((5, 1))],
        policy in 0usize..4,
        // Some that share a hint.
        keys in prop::collection::vec((0u32..40, 0u32..3), 1..60),
        steps in prop::collection::vec((any::<prop::sample::Index>(), 0u32..40), 1..600),
    ) {
        let (sets, ways) = shape;
        let policy = POLICIES[policy];
        prop_assume!(policy.check(ways).is_ok());
        let mut hinted = HintedSets::new(sets, ways, policy, 5);
        let mut moved = LruSets::replaced_by(sets as usize, ways as usize, policy);
        moved.seed(5);
        for (which, what) in steps {
            let (low, high) = keys[which.index(keys.len())];
            let key = low + high * 1024;
            let set = (key % sets) as usize;
            match what {
                0 => {
                    hinted.remove(key);
                    moved.remove(set, key);
                }
                1 => {
                    hinted.set_value(key, 9);
                    moved.set_value(set, key, 9);
                }
                2 => {
                    hinted.forget(|key| key % 7 == low % 7);
                    moved.forget(|key, _| key % 7 == low % 7);
                }
                3..10 => prop_assert_eq!(hinted.peek(key), moved.peek(set, key)),
                _ => {
                    let found = hinted.get(key);
                    prop_assert_eq!(found, moved.get(set, key));
                    if found.is_none() {
                        hinted.insert(key, what);
                        moved.insert(set, key, what);
                    }
                }
            }
        }
    }
}
