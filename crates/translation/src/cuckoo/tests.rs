//! The elastic table against a set of keys, and against what is known of cuckoo hashing.

use super::elastic::{Elastic, ElasticConfig, Keys};
use super::growth::{Growth, Memory};
use super::*;
use crate::Work;
use crate::city::Unseeded;
use crate::conformance::FakeFrames;
use crate::hashed::ContiguityCounters;
use pagelab_addr::{LINE_BYTES, PAGE_BYTES};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Keys that are their own tags, and the way of each.
#[derive(Default)]
struct Plain {
    ways: BTreeMap<u32, usize>,
    moved: u64,
}

impl Keys for Plain {
    fn tag(&self, key: u32) -> u64 {
        u64::from(key)
    }

    fn placed(&mut self, key: u32, way: usize) {
        self.ways.insert(key, way);
    }

    fn moved(&mut self, _: u32) {
        self.moved += 1;
    }
}

struct Bench {
    config: ElasticConfig,
    table: Elastic,
    keys: Plain,
    frames: FakeFrames,
    contiguity: ContiguityCounters,
    moves: Moves,
    work: Work,
}

impl Bench {
    fn new(config: ElasticConfig, mut frames: FakeFrames) -> Bench {
        let (mut contiguity, mut work) = (ContiguityCounters::default(), Work::default());
        let mut memory = Memory {
            frames: &mut frames,
            compaction: false,
            contiguity: &mut contiguity,
            work: &mut work,
        };
        let table = Elastic::new(&config, &mut memory).unwrap();
        Bench {
            config,
            table,
            keys: Plain::default(),
            frames,
            contiguity,
            moves: Moves::default(),
            work,
        }
    }

    fn insert(&mut self, key: u32) -> bool {
        let mut memory = Memory {
            frames: &mut self.frames,
            compaction: false,
            contiguity: &mut self.contiguity,
            work: &mut self.work,
        };
        let (config, moves) = (&self.config, &mut self.moves);
        let inserted = self
            .table
            .insert(config, key, &mut self.keys, &mut memory, moves);
        if inserted.is_err() {
            self.keys.ways.remove(&key);
        }
        inserted.is_ok()
    }

    fn remove(&mut self, key: u32) {
        self.table.remove(key, &self.keys);
        self.keys.ways.remove(&key);
    }

    /// Each key is where its way was last said to be, and nowhere else.
    fn check(&self, present: &[u32]) {
        assert_eq!(self.table.used, present.len());
        assert!(self.keys.ways.keys().eq(present.iter()));
        for (&key, &way) in &self.keys.ways {
            for (number, candidate) in self.table.ways.iter().enumerate() {
                let hash = Unseeded::new(u64::from(key));
                let there = candidate.get(candidate.place(hash)) == key;
                assert_eq!(there, number == way, "key {key}, way {number}");
                assert!(self.frames.is_table(candidate.address(hash)));
            }
        }
        let used: usize = self.table.ways.iter().map(|way| way.used).sum();
        assert_eq!(used, present.len());
        assert_eq!(self.table.bytes(), self.frames.table_bytes());
        assert_eq!(self.keys.moved, self.moves.total());
    }
}

fn together(ways: usize, entries: usize, factor: usize) -> ElasticConfig {
    ElasticConfig {
        ways,
        entries,
        occupancy: 0.6,
        max_displacements: 32,
        rehash_per_insertion: 1,
        growth: Growth::Together { factor },
    }
}

fn per_way(ways: usize, entries: usize) -> ElasticConfig {
    ElasticConfig {
        growth: Growth::PerWay {
            chunk_bytes: vec![PAGE_BYTES, 4 * PAGE_BYTES],
            max_chunks: 4,
        },
        ..together(ways, entries, 2)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_key_is_lost_while_tables_grow_or_cannot(
        (config, ways) in (0usize..4, 2usize..5),
        frames in prop_oneof![Just(8u32), Just(24), Just(1 << 10)],
        operations in proptest::collection::vec((0u32..1500, 0u32..10), 1..1500),
    ) {
        let mut config = match config {
            0 => together(ways, 64, 2),
            1 => together(ways, 64, 4),
            2 => per_way(ways, 64),
            _ => per_way(ways, 128),
        };
        config.max_displacements = 8;
        let frames = frames.max(ways as u32 * 2);
        let mut bench = Bench::new(config, FakeFrames::new(frames, 0, 1));
        let mut present = Vec::new();
        for (number, (key, what)) in operations.into_iter().enumerate() {
            match present.binary_search(&key) {
                Err(at) => if bench.insert(key) {
                    present.insert(at, key);
                },
                Ok(at) if what == 0 => {
                    bench.remove(key);
                    present.remove(at);
                }
                Ok(_) => {}
            }
            if number % 16 == 0 {
                bench.check(&present);
            }
        }
        bench.check(&present);
        bench.table.free(&mut bench.frames);
        assert_eq!(bench.frames.table_bytes(), 0);
    }
}

/// A table that may not grow, filled up to a share of its entries or until a key finds no place;
/// the share reached.
fn fill(config: ElasticConfig, up_to: f64) -> (Bench, f64) {
    let config = ElasticConfig {
        occupancy: 0.9999,
        ..config
    };
    let frames = (config.ways * config.entries * LINE_BYTES as usize) as u64 / PAGE_BYTES;
    let mut bench = Bench::new(config, FakeFrames::new(frames as u32, 0, 1));
    let entries = bench.table.entries() as f64;
    let mut key = 0;
    while (bench.table.used as f64) < up_to * entries && bench.insert(key) {
        key += 1;
    }
    let share = bench.table.used as f64 / entries;
    (bench, share)
}

/// Cuckoo hashing fills tables of 2, 3 and 4 ways of one entry to 50 %, 91.8 % and 97.7 % and not
/// further, if the hashes are independent (Fountoulakis and Panagiotou, "Sharp load thresholds for
/// cuckoo hashing", 2012).
#[test]
fn tables_fill_to_the_thresholds_of_cuckoo_hashing() {
    for (ways, threshold) in [(2, 0.5), (3, 0.918), (4, 0.977)] {
        let mut config = together(ways, 8192, 2);
        config.max_displacements = 2000;
        let (_, share) = fill(config, 1.0);
        // Tables of some thousand entries stop a little before or after.
        assert!((share - threshold).abs() < 0.04, "{ways}: {share}");
    }
}

/// Keys driven out per key entered into ways whose lines are drawn by a random number generator,
/// once for each key: cuckoo hashing with perfect hashes.
fn driven_out_with_perfect_hashes(ways: usize, entries: usize, keys: usize) -> f64 {
    let mut random = 88_172_645_463_325_252u64;
    let mut below = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 33) as usize % bound
    };
    let lines: Vec<Vec<usize>> = (0..keys)
        .map(|_| (0..ways).map(|_| below(entries)).collect())
        .collect();
    let mut table = vec![vec![None; entries]; ways];
    let mut driven_out = 0;
    for key in 0..keys {
        let (mut key, mut way) = (key, below(ways));
        while let Some(other) = table[way][lines[key][way]].replace(key) {
            driven_out += 1;
            key = other;
            way = (way + 1 + below(ways - 1)) % ways;
        }
    }
    driven_out as f64 / keys as f64
}

#[test]
fn insertions_drive_out_as_many_keys_as_with_perfect_hashes() {
    for (ways, load) in [(3, 0.4), (3, 0.6), (4, 0.4), (4, 0.6)] {
        let (bench, share) = fill(together(ways, 8192, 2), load);
        assert!(share >= load);
        let driven_out = bench.moves.displaced as f64 / bench.table.used as f64;
        let perfect = driven_out_with_perfect_hashes(ways, 8192, bench.table.used);
        let ratio = driven_out / perfect;
        assert!((ratio - 1.0).abs() < 0.05, "{driven_out} {perfect}");
        // No fewer than random probing meets: from an empty table to a load of a,
        // (-ln(1-a) - a)/a on average. More, since a key may go back to whence it was driven.
        let met = (-(1.0 - load).ln() - load) / load;
        assert!(
            (1.0..1.5).contains(&(driven_out / met)),
            "{driven_out} {met}"
        );
    }
}

#[test]
fn doubling_in_place_moves_half_of_the_keys() {
    let mut bench = Bench::new(
        ElasticConfig {
            growth: Growth::PerWay {
                chunk_bytes: vec![PAGE_BYTES],
                max_chunks: 1 << 10,
            },
            ..together(4, 64, 2)
        },
        FakeFrames::new(1 << 12, 0, 1),
    );
    for key in 0..20_000 {
        assert!(bench.insert(key));
    }
    let Moves {
        rehashed,
        kept_in_place,
        ..
    } = bench.moves;
    let share = rehashed as f64 / (rehashed + kept_in_place) as f64;
    assert!((share - 0.5).abs() < 0.01, "{share}");
    assert_eq!(bench.contiguity.largest_block_bytes, PAGE_BYTES);
    // Ways fill evenly, and none gets more than twice as large as another.
    let entries = bench.table.ways.iter().map(|way| way.entries());
    assert!(entries.clone().max() <= entries.min().map(|least| 2 * least));
}

#[test]
fn resizes_are_over_before_the_next_is_due() {
    let mut bench = Bench::new(together(3, 64, 4), FakeFrames::new(1 << 14, 0, 1));
    for key in 0..30_000 {
        assert!(bench.insert(key));
    }
    assert!(bench.moves.resizes >= 4);
    assert_eq!(bench.moves.resizes_rushed, 0);
    assert_eq!(bench.moves.insertions_failed, 0);
}
