//! Policies other than LRU beside trees of boxes and lists of marks.

use pagelab_memory::simd::{Simd, SimdLevel};
use pagelab_memory::{
    Cache, CacheAccess, CacheConfig, LruSets, MODIFY, Outcome, Replacement, dispatch,
};
use proptest::prelude::*;
use std::collections::HashSet;

/// A tree whose leaves are places, in order; each node knows which child was not used last.
enum Tree {
    Leaf(usize),
    Node {
        low: Box<Tree>,
        high: Box<Tree>,
        middle: usize,
        high_is_next: bool,
    },
}

impl Tree {
    fn over(from: usize, to: usize) -> Tree {
        if to - from == 1 {
            return Tree::Leaf(from);
        }
        let middle = usize::midpoint(from, to);
        Tree::Node {
            low: Box::new(Tree::over(from, middle)),
            high: Box::new(Tree::over(middle, to)),
            middle,
            high_is_next: false,
        }
    }

    fn used(&mut self, place: usize) {
        if let Tree::Node {
            low,
            high,
            middle,
            high_is_next,
        } = self
        {
            *high_is_next = place < *middle;
            if place < *middle { low } else { high }.used(place);
        }
    }

    fn next(&self) -> usize {
        match self {
            Tree::Leaf(place) => *place,
            Tree::Node {
                low,
                high,
                high_is_next,
                ..
            } => if *high_is_next { high } else { low }.next(),
        }
    }
}

enum Memory {
    Tree(Tree),
    Marks(Vec<bool>),
    /// Time for which each is predicted not to be used.
    Ages(Vec<u32>),
}

struct SlowSet {
    places: Vec<Option<(u32, u32)>>,
    memory: Memory,
}

impl SlowSet {
    fn new(policy: Replacement, ways: usize) -> Self {
        SlowSet {
            places: vec![None; ways],
            memory: match policy {
                Replacement::TreePlru => Memory::Tree(Tree::over(0, ways)),
                Replacement::Srrip => Memory::Ages(vec![0; ways]),
                _ => Memory::Marks(vec![false; ways]),
            },
        }
    }

    fn used(&mut self, place: usize) {
        match &mut self.memory {
            Memory::Tree(tree) => tree.used(place),
            Memory::Marks(marks) => marks[place] = true,
            Memory::Ages(ages) => ages[place] = ages[place].saturating_sub(1),
        }
    }

    fn new_at(&mut self, place: usize) {
        match &mut self.memory {
            Memory::Ages(ages) => ages[place] = 2,
            _ => self.used(place),
        }
    }

    fn find(&self, key: u32) -> Option<usize> {
        self.places
            .iter()
            .position(|p| p.is_some_and(|p| p.0 == key))
    }

    fn get(&mut self, key: u32) -> Option<u32> {
        let place = self.find(key)?;
        self.used(place);
        Some(self.places[place]?.1)
    }

    fn put(&mut self, key: u32, value: u32) -> Option<(u32, u32)> {
        let free = self.places.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| match &mut self.memory {
            Memory::Tree(tree) => tree.next(),
            Memory::Marks(marks) => {
                if marks.iter().all(|&mark| mark) {
                    marks.fill(false);
                }
                marks.iter().position(|&mark| !mark).unwrap()
            }
            Memory::Ages(ages) => {
                let more = 3 - *ages.iter().max().unwrap();
                ages.iter_mut().for_each(|age| *age += more);
                ages.iter().position(|&age| age == 3).unwrap()
            }
        });
        self.new_at(place);
        self.places[place].replace((key, value))
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
        30 => (0u32..120).prop_map(Step::Get),
        2 => (0u32..120).prop_map(Step::Remove),
        1 => (2u32..9).prop_map(Step::ForgetMultiplesOf),
    ];
    proptest::collection::vec(step, 1..500)
}

fn policy() -> impl Strategy<Value = (Replacement, usize)> {
    prop_oneof![
        (0u32..6).prop_map(|log| (Replacement::TreePlru, 1 << log)),
        (1usize..40).prop_map(|ways| (Replacement::Nru, ways)),
        (1usize..40).prop_map(|ways| (Replacement::Srrip, ways)),
    ]
}

#[inline(always)]
fn drive<S: Simd>(sets: usize, policy: Replacement, ways: usize, steps: &[Step]) {
    let mut fast = LruSets::replaced_by(sets, ways, policy);
    let mut slow: Vec<_> = (0..sets).map(|_| SlowSet::new(policy, ways)).collect();
    for (time, step) in steps.iter().enumerate() {
        match *step {
            Step::Get(key) => {
                let set = key as usize % sets;
                let found = fast.get_at::<S>(set, key);
                assert_eq!(found, slow[set].get(key), "step {time}: {step:?}");
                if found.is_none() {
                    let evicted = fast.insert_at::<S>(set, key, time as u32);
                    assert_eq!(evicted, slow[set].put(key, time as u32), "step {time}");
                }
            }
            Step::Remove(key) => {
                let set = key as usize % sets;
                fast.remove(set, key);
                if let Some(place) = slow[set].find(key) {
                    slow[set].places[place] = None;
                }
            }
            Step::ForgetMultiplesOf(n) => {
                fast.forget(|key, _| key % n == 0);
                for place in slow.iter_mut().flat_map(|set| &mut set.places) {
                    *place = place.filter(|(key, _)| key % n != 0);
                }
            }
        }
    }
}

/// Answers of a cache.
#[derive(Default)]
struct Said(Vec<CacheAccess>);

impl Outcome for Said {
    fn of(&mut self, _: usize, access: CacheAccess) {
        self.0.push(access);
    }
}

#[inline(always)]
fn drive_cache<S: Simd>(config: &CacheConfig, accesses: &[(u32, bool)]) {
    let sets = (config.kib * 16 / config.ways) as usize;
    let ways = config.ways as usize;
    let mut cache = Cache::new(config).unwrap();
    let mut slow: Vec<_> = (0..sets)
        .map(|_| SlowSet::new(config.replacement, ways))
        .collect();
    let mut said = Said::default();
    let reference = |&(line, store): &(u32, bool)| line | if store { MODIFY } else { 0 };
    cache.access_all::<S>(accesses.iter().map(reference), &mut said);
    for (&(line, store), access) in accesses.iter().zip(said.0) {
        let set = &mut slow[line as usize % sets];
        let hit = set.get(line).is_some();
        assert_eq!(access.hit, hit);
        if hit {
            let place = set.find(line).unwrap();
            let modified = &mut set.places[place].as_mut().unwrap().1;
            *modified |= u32::from(store);
        } else {
            let evicted = set.put(line, u32::from(store));
            let modified = evicted.filter(|&(_, modified)| modified != 0);
            assert_eq!(access.evicts_modified, modified.is_some());
            if let Some((line, _)) = modified {
                assert_eq!(access.evicted, line);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn sets_equal_trees_and_marks(
        sets in 1usize..5,
        (policy, ways) in policy(),
        steps in steps(),
    ) {
        for level in SimdLevel::available() {
            let steps: &[Step] = &steps;
            dispatch!(level, <S>(sets: usize, policy: Replacement, ways: usize, steps: &[Step]) -> () {
                drive::<S>(sets, policy, ways, steps);
            });
        }
    }

    #[test]
    fn a_cache_equals_trees_and_marks(
        sets in 1u32..6,
        (replacement, ways) in policy(),
        accesses in proptest::collection::vec((0u32..400, any::<bool>()), 1..900),
    ) {
        let config = CacheConfig {
            replacement,
            ..CacheConfig::new(sets * ways as u32, ways as u32, 1)
        };
        for level in SimdLevel::available() {
            let accesses: &[(u32, bool)] = &accesses;
            let config = &config;
            dispatch!(level, <S>(config: &CacheConfig, accesses: &[(u32, bool)]) -> () {
                drive_cache::<S>(config, accesses);
            });
        }
    }
}

/// Keys that leave one set of 8 in turn, when 1,000 go through it.
fn leaving(seed: u64) -> Vec<u32> {
    let mut sets = LruSets::replaced_by(1, 8, Replacement::Random);
    sets.seed(seed);
    let evicted = (0..1000).map(|key| sets.insert(0, key, key));
    let gone: Vec<u32> = evicted.flatten().map(|(key, _)| key).collect();
    let left = (0..1000).filter(|&key| sets.get(0, key).is_some());
    let all: HashSet<u32> = gone.iter().copied().chain(left).collect();
    assert_eq!(
        (gone.len(), all.len()),
        (992, 1000),
        "each leaves once or stays"
    );
    gone
}

#[test]
fn chance_takes_any_place_and_is_the_same_for_a_seed() {
    let gone = leaving(7);
    assert_eq!(gone, leaving(7));
    assert_ne!(gone, leaving(8));
    // The number of keys that come until a key leaves is geometric with mean 8 if all places are as
    // likely; of 992 the mean is within four standard errors, 4 * 7.5 / sqrt(992), of that.
    let ages = gone
        .iter()
        .enumerate()
        .map(|(at, &key)| at as f64 + 8.0 - f64::from(key));
    let mean = ages.sum::<f64>() / gone.len() as f64;
    assert!((mean - 8.0).abs() < 1.0, "{mean}");
}

#[test]
fn policies_need_ways_that_they_can_have() {
    for (replacement, ways, good) in [
        (Replacement::TreePlru, 8, true),
        (Replacement::TreePlru, 12, false),
        (Replacement::TreePlru, 256, false),
        (Replacement::Nru, 12, true),
        (Replacement::Random, 130, false),
        (Replacement::Lru, 130, true),
    ] {
        let config = CacheConfig {
            replacement,
            ..CacheConfig::new(ways, ways, 1)
        };
        assert_eq!(Cache::new(&config).is_ok(), good, "{replacement:?}, {ways}");
    }
}
