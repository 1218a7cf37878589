//! The caches of several cores beside lists of lines and a map of MESI's states, one reference
//! after the other.

use crate::caches::served::Served;
use crate::caches::{PrivateCaches, SharedCache, fetch_coherently, reference};
use crate::config::{CachesConfig, CoherenceConfig, FilledPages, WalksEnter};
use crate::machine::chunk::Chunk;
use crate::machine::requests::request;
use pagelab_memory::simd::{Simd, SimdLevel};
use pagelab_memory::{Access, CacheConfig, Kind, MODIFY, PrefetchConfig, dispatch};
use proptest::prelude::*;
use std::collections::HashMap;

const CORES: usize = 3;

fn config(adjacent: bool) -> CachesConfig {
    let level = |kib, ways| CacheConfig::new(kib, ways, 1);
    CachesConfig {
        l1: level(1, 4),
        l2: level(2, 8),
        llc: level(4, 16),
        walks_enter: WalksEnter::L1,
        prefetch: adjacent.then_some(PrefetchConfig {
            adjacent: true,
            ..PrefetchConfig::NONE
        }),
        coherence: Some(CoherenceConfig {
            transfer_cycles: 2,
            invalidate_cycles: 2,
            turn: 0,
        }),
        filled_pages: FilledPages::Memory,
        others: None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Modified,
    Exclusive,
    Shared,
}

/// A level: lines with whether they are modified, the most recent first.
struct Level {
    ways: usize,
    sets: Vec<Vec<(u32, bool)>>,
}

impl Level {
    fn new(config: &CacheConfig) -> Self {
        let sets = config.kib * 1024 / 64 / config.ways;
        Level {
            ways: config.ways as usize,
            sets: vec![Vec::new(); sets as usize],
        }
    }

    fn set(&mut self, line: u32) -> &mut Vec<(u32, bool)> {
        let sets = self.sets.len();
        &mut self.sets[line as usize % sets]
    }

    fn find(&mut self, line: u32) -> Option<&mut (u32, bool)> {
        self.set(line).iter_mut().find(|entry| entry.0 == line)
    }

    fn take(&mut self, line: u32) -> Option<(u32, bool)> {
        let set = self.set(line);
        let at = set.iter().position(|entry| entry.0 == line)?;
        Some(set.remove(at))
    }

    /// True if the line was there, and the line that left for it.
    fn access(&mut self, line: u32, modify: bool) -> (bool, Option<(u32, bool)>) {
        let ways = self.ways;
        let found = self.take(line);
        let modified = modify || found.is_some_and(|entry| entry.1);
        let set = self.set(line);
        set.insert(0, (line, modified));
        let left = if set.len() > ways { set.pop() } else { None };
        (found.is_some(), left)
    }
}

/// Outcome of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    served: Served,
    invalidates: bool,
}

struct Twin {
    private: Vec<[Level; 2]>,
    llc: Level,
    states: HashMap<(usize, u32), State>,
    adjacent: bool,
    /// Transfers, upgrades, invalidations, lines written back to memory.
    counts: [u64; 4],
}

impl Twin {
    fn new(config: &CachesConfig) -> Self {
        let private = |_| [Level::new(&config.l1), Level::new(&config.l2)];
        Twin {
            private: (0..CORES).map(private).collect(),
            llc: Level::new(&config.llc),
            states: HashMap::new(),
            adjacent: config.prefetch.is_some(),
            counts: [0; 4],
        }
    }

    fn access(&mut self, core: usize, line: u32, store: bool) -> Found {
        let held = self.states.get(&(core, line)).copied();
        let (in_first, left) = self.private[core][0].access(line, store);
        let mut found = Found {
            served: Served::L1,
            invalidates: false,
        };
        if !in_first {
            let (in_second, from_second) = self.private[core][1].access(line, false);
            if in_second {
                found.served = Served::L2;
            } else {
                assert_eq!(held, None);
                found = self.fetch(core, line, store);
            }
            self.left_second(core, from_second);
            if self.adjacent && !in_second {
                self.prefetch(core, line ^ 1);
            }
            if let Some((left, true)) = left {
                let (_, from_second) = self.private[core][1].access(left, true);
                self.left_second(core, from_second);
            }
        }
        if let Some(state) = held
            && store
        {
            if state == State::Shared {
                self.counts[1] += 1;
                self.invalidate(core, line);
                found.invalidates = true;
            }
            self.states.insert((core, line), State::Modified);
        }
        self.drop_what_left(core);
        found
    }

    fn prefetch(&mut self, core: usize, line: u32) -> Served {
        // It does not look in the first level.
        let mut served = Served::L2;
        let held = self.states.get(&(core, line)).copied();
        let (in_second, from_second) = self.private[core][1].access(line, false);
        if !in_second {
            served = self.fetch(core, line, false).served;
            if held == Some(State::Modified) {
                self.states.insert((core, line), State::Modified);
            }
        }
        self.left_second(core, from_second);
        served
    }

    /// An instruction is fetched that its own first level has not.
    fn code(&mut self, core: usize, line: u32) -> Served {
        let served = self.prefetch(core, line);
        self.drop_what_left(core);
        served
    }

    /// Holders of a line among all other cores, with its state.
    fn others(&self, core: usize, line: u32) -> Vec<(usize, State)> {
        let others = (0..CORES).filter(|&other| other != core);
        others
            .filter_map(|other| Some((other, *self.states.get(&(other, line))?)))
            .collect()
    }

    fn invalidate(&mut self, core: usize, line: u32) {
        for (other, _) in self.others(core, line) {
            self.counts[2] += 1;
            self.states.remove(&(other, line));
            for level in &mut self.private[other] {
                level.take(line);
            }
        }
    }

    fn fetch(&mut self, core: usize, line: u32, store: bool) -> Found {
        let others = self.others(core, line);
        let owner = others.iter().find(|other| other.1 != State::Shared);
        let mut found = Found {
            served: Served::OtherCore,
            invalidates: false,
        };
        if let Some(&(owner, state)) = owner {
            assert_eq!(others.len(), 1);
            self.counts[0] += 1;
            if store {
                self.invalidate(core, line);
            } else {
                for level in &mut self.private[owner] {
                    if let Some(entry) = level.find(line) {
                        entry.1 = false;
                    }
                }
                self.states.insert((owner, line), State::Shared);
                if state == State::Modified {
                    self.last_level(line, true);
                }
            }
        } else {
            if store {
                found.invalidates = !others.is_empty();
                self.invalidate(core, line);
            }
            found.served = if self.last_level(line, false) {
                Served::Llc
            } else {
                Served::Dram
            };
        }
        let state = match (store, others.is_empty()) {
            (true, _) => State::Modified,
            (false, true) => State::Exclusive,
            (false, false) => State::Shared,
        };
        self.states.insert((core, line), state);
        found
    }

    fn last_level(&mut self, line: u32, modify: bool) -> bool {
        let (hit, left) = self.llc.access(line, modify);
        self.counts[3] += u64::from(left.is_some_and(|left| left.1));
        hit
    }

    /// A line has left a second level. What is modified goes on to the last, and is owned
    /// unmodified if the first level still has it so.
    fn left_second(&mut self, core: usize, left: Option<(u32, bool)>) {
        let Some((line, true)) = left else { return };
        self.last_level(line, true);
        if let Some(&mut (_, false)) = self.private[core][0].find(line) {
            self.states.insert((core, line), State::Exclusive);
        }
    }

    fn drop_what_left(&mut self, core: usize) {
        let private = &mut self.private[core];
        self.states.retain(|&(of, line), _| {
            of != core || private.iter_mut().any(|level| level.find(line).is_some())
        });
    }
}

/// The caches under test, with a core's chunk of references.
struct Fast {
    caches: Vec<PrivateCaches>,
    shared: SharedCache,
    chunk: Chunk,
}

impl Fast {
    fn new(config: &CachesConfig) -> Self {
        Fast {
            caches: vec![PrivateCaches::new(config, 1).unwrap(); CORES],
            shared: SharedCache::new(config, CORES as u32, 1).unwrap(),
            chunk: Chunk::default(),
        }
    }

    fn take(&mut self, core: usize, references: &[(u32, bool)]) -> Vec<Found> {
        self.chunk.clear();
        for &(line, store) in references {
            self.chunk.enter(if store { request::STORE } else { 0 }, 0);
            let modify = if store { MODIFY } else { 0 };
            self.chunk.references.push(line | modify);
        }
        let Fast {
            caches,
            shared,
            chunk,
        } = self;
        dispatch!(SimdLevel::detect(), <S>(
            caches: &mut [PrivateCaches],
            core: usize,
            shared: &mut SharedCache,
            chunk: &mut Chunk,
        ) -> () {
            go::<S>(caches, core, shared, chunk);
        });
        let served = self.chunk.served.as_slice().iter();
        served
            .zip(self.chunk.requests.as_slice())
            .map(|(&served, &bits)| Found {
                served,
                invalidates: bits & request::INVALIDATES != 0,
            })
            .collect()
    }

    fn code(&mut self, core: usize, line: u32) -> Served {
        let Fast {
            caches,
            shared,
            chunk,
        } = self;
        fetch_coherently(caches, core, shared, Access::new(line, Kind::Fetch), chunk)
    }

    fn counts(&self) -> [u64; 4] {
        let counts = self.shared.coherence();
        [
            counts.transfers,
            counts.upgrades,
            counts.invalidations,
            self.shared.writebacks,
        ]
    }
}

#[inline(always)]
fn go<S: Simd>(
    caches: &mut [PrivateCaches],
    core: usize,
    shared: &mut SharedCache,
    chunk: &mut Chunk,
) {
    reference::<S>(caches, core, shared, chunk, &mut |_, _| None);
}

/// References of a core, and lines of code that it fetches after them.
type Turn = (usize, Vec<(u32, bool)>, Vec<u32>);

/// Turns of the cores: to few lines that all use, and to many.
fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let line = || prop_oneof![3 => 0u32..24, 2 => 0u32..150, 2 => 0u32..4000];
    let references = proptest::collection::vec((line(), proptest::bool::weighted(0.3)), 1..60);
    let code = proptest::collection::vec(line(), 0..10);
    proptest::collection::vec((0..CORES, references, code), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn as_the_states_of_mesi_say(turns in turns(), adjacent in any::<bool>()) {
        let config = config(adjacent);
        let (mut fast, mut twin) = (Fast::new(&config), Twin::new(&config));
        for (core, references, code) in turns {
            let found = fast.take(core, &references);
            let mut expected = Vec::new();
            for &(line, store) in &references {
                expected.push(twin.access(core, line, store));
            }
            prop_assert_eq!(found, expected);
            for line in code {
                prop_assert_eq!(fast.code(core, line), twin.code(core, line));
            }
            prop_assert_eq!(fast.counts(), twin.counts);
        }
    }
}

fn invalidates(found: &[Found]) -> Vec<bool> {
    found.iter().map(|found| found.invalidates).collect()
}

fn served(found: &[Found]) -> Vec<Served> {
    found.iter().map(|found| found.served).collect()
}

#[test]
fn a_line_that_is_only_read_comes_from_its_first_holder_once() {
    let mut fast = Fast::new(&config(false));
    assert_eq!(
        served(&fast.take(0, &[(5, false), (5, false)])),
        [Served::Dram, Served::L1]
    );
    // It may have been written, which only the first core knows.
    assert_eq!(served(&fast.take(1, &[(5, false)])), [Served::OtherCore]);
    assert_eq!(served(&fast.take(2, &[(5, false)])), [Served::Llc]);
    for core in 0..3 {
        assert_eq!(served(&fast.take(core, &[(5, false)])), [Served::L1]);
    }
    assert_eq!(fast.counts(), [1, 0, 0, 0]);
}

#[test]
fn the_first_store_to_a_line_of_ones_own_is_free() {
    let mut fast = Fast::new(&config(false));
    let found = fast.take(0, &[(5, false), (5, true), (5, true)]);
    assert_eq!(served(&found), [Served::Dram, Served::L1, Served::L1]);
    assert!(found.iter().all(|found| !found.invalidates));
    // One that is shared costs, and once.
    fast.take(1, &[(5, false)]);
    let found = fast.take(1, &[(5, true), (5, true)]);
    assert_eq!(invalidates(&found), [true, false]);
    assert_eq!(fast.counts(), [1, 1, 1, 0]);
}

/// The other line of two comes with one that the second level misses, whoever serves that.
#[test]
fn a_line_of_another_core_has_its_neighbour_fetched_into_the_last_level() {
    let mut config = config(true);
    config.prefetch.as_mut().unwrap().busy = Some(0.0);
    let mut fast = Fast::new(&config);
    let far = |core: u32| (0..2000).map(move |n| ((1 + core) * 10_000 + 2 * n, false));
    for core in 0..CORES {
        let lines: Vec<_> = far(core as u32).collect();
        for lines in lines.chunks(200) {
            fast.take(core, lines);
        }
    }
    assert_eq!(served(&fast.take(1, &[(6, true)])), [Served::Dram]);
    // The last level has neither line after this, the second core its own.
    fast.take(
        2,
        &(0..200).map(|n| (90_000 + n, false)).collect::<Vec<_>>(),
    );
    let found = fast.take(0, &[(6, false), (7, false)]);
    assert_eq!(served(&found), [Served::OtherCore, Served::Llc]);
}
