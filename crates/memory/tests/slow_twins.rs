//! The packed stores beside lists that do the same slowly, at every SIMD level of this machine.

use pagelab_memory::simd::{Simd, SimdLevel};
use pagelab_memory::{
    Cache, CacheAccess, CacheConfig, LruKeys, LruSets, MODIFY, Outcome, dispatch,
};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Least-recently-used sets as lists of (key, value), most recent first.
struct ListSets {
    ways: usize,
    sets: Vec<VecDeque<(u32, u32)>>,
}

impl ListSets {
    fn new(sets: usize, ways: usize) -> Self {
        ListSets {
            ways,
            sets: vec![VecDeque::new(); sets],
        }
    }

    fn get(&mut self, set: usize, key: u32) -> Option<u32> {
        let list = &mut self.sets[set];
        let at = list.iter().position(|&(k, _)| k == key)?;
        let entry = list.remove(at)?;
        list.push_front(entry);
        Some(entry.1)
    }

    fn insert(&mut self, set: usize, key: u32, value: u32) -> Option<(u32, u32)> {
        self.sets[set].push_front((key, value));
        if self.sets[set].len() > self.ways {
            self.sets[set].pop_back()
        } else {
            None
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Get(u32),
    Remove(u32),
    ForgetMultiplesOf(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        30 => (0u32..90).prop_map(Step::Get),
        2 => (0u32..90).prop_map(Step::Remove),
        1 => (2u32..9).prop_map(Step::ForgetMultiplesOf),
    ];
    proptest::collection::vec(step, 1..400)
}

#[inline(always)]
fn drive<S: Simd>(sets: usize, ways: usize, steps: &[Step]) {
    let mut fast = LruSets::new(sets, ways);
    let mut slow = ListSets::new(sets, ways);
    for (time, step) in steps.iter().enumerate() {
        match *step {
            Step::Get(key) => {
                let set = key as usize % sets;
                let found = fast.get_at::<S>(set, key);
                assert_eq!(found, slow.get(set, key), "step {time}: {step:?}");
                if found.is_none() {
                    let evicted = fast.insert_at::<S>(set, key, time as u32);
                    assert_eq!(evicted, slow.insert(set, key, time as u32), "step {time}");
                }
            }
            Step::Remove(key) => {
                let set = key as usize % sets;
                fast.remove(set, key);
                slow.sets[set].retain(|&(k, _)| k != key);
            }
            Step::ForgetMultiplesOf(n) => {
                fast.forget(|key, _| key % n == 0);
                for list in &mut slow.sets {
                    list.retain(|&(k, _)| k % n != 0);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn lru_sets_equal_lists(sets in 1usize..6, ways in 1usize..40, steps in steps()) {
        for level in SimdLevel::available() {
            let steps: &[Step] = &steps;
            dispatch!(level, <S>(sets: usize, ways: usize, steps: &[Step]) -> () {
                drive::<S>(sets, ways, steps);
            });
        }
    }

    #[test]
    fn lru_keys_equal_lists(sets in 1usize..6, ways in 1usize..40, steps in steps()) {
        let mut keys = LruKeys::new(sets, ways);
        let mut slow = ListSets::new(sets, ways);
        for (time, step) in steps.iter().enumerate() {
            let (Step::Get(key) | Step::Remove(key) | Step::ForgetMultiplesOf(key)) = *step;
            let set = key as usize % sets;
            if let Step::Remove(_) = step {
                keys.remove(set, key);
                slow.sets[set].retain(|&(k, _)| k != key);
                continue;
            }
            let found = slow.get(set, key).is_some();
            assert_eq!(keys.get(set, key), found, "step {time}: {step:?}");
            if !found {
                keys.insert(set, key);
                slow.insert(set, key, 0);
            }
        }
    }

    #[test]
    fn a_cache_equals_lists_of_lines(
        sets in 1u32..6,
        ways in 1u32..24,
        accesses in proptest::collection::vec((0u32..150, any::<bool>()), 1..600),
    ) {
        // A line is 64 bytes: `sets * ways` lines are a whole number of KiB times 16.
        let config = CacheConfig::new(sets * ways, ways, 1);
        for level in SimdLevel::available() {
            let accesses: &[(u32, bool)] = &accesses;
            let config = &config;
            dispatch!(level, <S>(config: &CacheConfig, accesses: &[(u32, bool)]) -> () {
                drive_cache::<S>(config, accesses);
            });
        }
    }
}

/// Lists of lines, most recent first, beside a cache.
struct Twin<'a> {
    accesses: &'a [(u32, bool)],
    slow: ListSets,
    sets: usize,
}

impl Outcome for Twin<'_> {
    #[inline(always)]
    fn of(&mut self, place: usize, access: CacheAccess) {
        let (line, modify) = self.accesses[place];
        let set = line as usize % self.sets;
        let found = self.slow.get(set, line);
        let written_back = match found {
            Some(modified) => {
                self.slow.sets[set][0].1 = modified | u32::from(modify);
                None
            }
            None => self
                .slow
                .insert(set, line, u32::from(modify))
                .and_then(|(old, modified)| (modified != 0).then_some(old)),
        };
        assert_eq!(access.hit, found.is_some());
        let evicted = access.evicts_modified.then_some(access.evicted);
        assert_eq!(evicted, written_back);
    }
}

#[inline(always)]
fn drive_cache<S: Simd>(config: &CacheConfig, accesses: &[(u32, bool)]) {
    let mut fast = Cache::new(config).unwrap();
    let sets = config.kib as usize * 16 / config.ways as usize;
    let mut twin = Twin {
        accesses,
        slow: ListSets::new(sets, config.ways as usize),
        sets,
    };
    let references = accesses
        .iter()
        .map(|&(line, modify)| if modify { line | MODIFY } else { line });
    fast.access_all::<S>(references, &mut twin);
}

#[test]
fn a_geometry_without_whole_sets_is_refused() {
    for (kib, ways) in [(0, 1), (32, 0), (1, 3), (33, 7)] {
        let config = CacheConfig::new(kib, ways, 4);
        assert!(Cache::new(&config).is_err(), "{kib} KiB, {ways} ways");
    }
}
