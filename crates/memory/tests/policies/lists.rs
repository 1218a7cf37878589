//! A cache as lists, and references to drive it with.

use pagelab_memory::simd::Baseline;
use pagelab_memory::{Access, Cache, CacheAccess, CacheConfig, Kind, MODIFY, Outcome, Replacement};
use proptest::prelude::*;

/// A policy by its paper's words. Values of entries are by set and way.
pub trait Words {
    fn hit(&mut self, at: (usize, usize), access: &Access);
    fn victim(&mut self, set: usize) -> usize;
    fn fill(&mut self, at: (usize, usize), access: &Access);
}

/// Values of entries by set and way: the intervals of Jaleel et al.
pub type Values = Vec<Vec<u32>>;

/// The first entry with a value of 3; without one, all have one more.
pub fn first_distant(values: &mut [u32]) -> usize {
    loop {
        if let Some(way) = values.iter().position(|&value| value == 3) {
            return way;
        }
        values.iter_mut().for_each(|value| *value += 1);
    }
}

/// References after which the first line of these is removed, as by coherence: a policy is not told.
const REMOVED: usize = 37;

/// Hits of references to a cache that is lists of lines.
fn slow_hits(sets: usize, ways: usize, accesses: &[Access], words: &mut impl Words) -> Vec<bool> {
    let mut lines = vec![vec![None; ways]; sets];
    let mut hits = Vec::new();
    for (at, access) in accesses.iter().enumerate() {
        if at > 0 && at % REMOVED == 0 {
            let line = Some(accesses[at - REMOVED].line);
            let ways = lines.iter_mut().flatten();
            ways.filter(|way| **way == line).for_each(|way| *way = None);
        }
        let set = access.line as usize % sets;
        let found = lines[set]
            .iter()
            .position(|&line| line == Some(access.line));
        hits.push(found.is_some());
        if let Some(way) = found {
            words.hit((set, way), access);
            continue;
        }
        let free = lines[set].iter().position(Option::is_none);
        let way = free.unwrap_or_else(|| words.victim(set));
        lines[set][way] = Some(access.line);
        words.fill((set, way), access);
    }
    hits
}

struct Told<'a> {
    accesses: &'a [Access],
    hits: Vec<bool>,
}

impl Outcome for Told<'_> {
    fn of(&mut self, _: usize, found: CacheAccess) {
        self.hits.push(found.hit);
    }

    fn describe(&self, place: usize, _: u32) -> Access {
        self.accesses[place]
    }
}

/// Hits of references to a cache, of whole KiB: sixteen lines each.
pub fn hits(policy: Replacement, sets: usize, ways: usize, accesses: &[Access]) -> Vec<bool> {
    fast_hits(policy, sets, ways, accesses, accesses.len().max(1))
}

/// Hits where the first of so many lines is removed after them.
fn fast_hits(
    policy: Replacement,
    sets: usize,
    ways: usize,
    accesses: &[Access],
    removed: usize,
) -> Vec<bool> {
    assert_eq!(sets * ways % 16, 0, "lines of whole KiB");
    let config = CacheConfig {
        replacement: policy,
        ..CacheConfig::new((sets * ways / 16) as u32, ways as u32, 1)
    };
    let mut cache = Cache::new(&config).unwrap();
    let mut hits = Vec::new();
    let reference = |access: &Access| match access.kind {
        Kind::Store | Kind::WriteBack => access.line | MODIFY,
        _ => access.line,
    };
    for accesses in accesses.chunks(removed) {
        let mut told = Told { accesses, hits };
        cache.access_all::<Baseline>(accesses.iter().map(reference), &mut told);
        hits = told.hits;
        cache.remove(accesses[0].line);
    }
    hits
}

/// Compares a policy with its words, to the last hit.
pub fn same(
    policy: Replacement,
    (sets, ways): (usize, usize),
    accesses: &[Access],
    mut words: impl Words,
) {
    let fast = fast_hits(policy, sets, ways, accesses, REMOVED);
    assert_eq!(fast, slow_hits(sets, ways, accesses, &mut words));
}

/// Sets and ways: lines of whole KiB.
pub fn shape() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        Just((16, 1)),
        Just((4, 4)),
        Just((16, 3)),
        Just((128, 4)),
        Just((1, 16)),
        Just((80, 5)),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => Just(Kind::Load),
        3 => Just(Kind::Store),
        1 => Just(Kind::Fetch),
        3 => (1u8..4).prop_map(|level| Kind::Walk { level }),
        1 => Just(Kind::Prefetch),
        1 => Just(Kind::WriteBack),
    ]
}

/// Loops over few lines, scans of many and lines at random, by several instructions and cores.
pub fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let of = (
        kind(),
        proptest::option::weighted(0.8, 0u32..7),
        0u32..3,
        any::<bool>(),
    );
    let run = (0u32..4000, 1u32..300, 1u32..4, 1u32..20, of);
    let runs = run.prop_map(|(first, lines, times, apart, of)| {
        let (kind, instruction, core, walked) = of;
        let line = move |number: u32| Access {
            line: first + number % lines * apart,
            core,
            instruction,
            kind,
            walked,
        };
        (0..lines * times).map(line).collect::<Vec<_>>()
    });
    let random = proptest::collection::vec((0u32..3000, kind(), 0u32..7), 1..200);
    let random = random.prop_map(|all| {
        let line = |(line, kind, instruction)| Access {
            instruction: Some(instruction),
            ..Access::new(line, kind)
        };
        all.into_iter().map(line).collect::<Vec<_>>()
    });
    let part = prop_oneof![3 => runs, 1 => random];
    proptest::collection::vec(part, 1..30).prop_map(|parts| parts.concat())
}

/// Loads of lines by an instruction.
pub fn loads(instruction: u32, lines: impl Iterator<Item = u32>) -> Vec<Access> {
    let load = |line| Access {
        instruction: Some(instruction),
        ..Access::new(line, Kind::Load)
    };
    lines.map(load).collect()
}

/// Share of the last references that hit.
pub fn share(hits: &[bool], last: usize) -> f64 {
    let last = &hits[hits.len() - last..];
    last.iter().filter(|&&hit| hit).count() as f64 / last.len() as f64
}
