use super::*;
use crate::PageTable;
use crate::WalkCacheConfig;
use crate::conformance::{self, Bench, FakeFrames};
use pagelab_addr::PAGE_BYTES;

const GIB: u64 = 1 << 18;
const REGION: u64 = 1 << 9;

fn with(upper: bool, lower: bool) -> impl Fn(usize) -> Flattened {
    move |cores| {
        let config = FlattenedConfig {
            upper,
            lower,
            ..FlattenedConfig::default()
        };
        Flattened::new(&config, cores).unwrap()
    }
}

/// The bytes are those of the nodes counted.
fn promise(table: &Flattened, frames: &FakeFrames) {
    let FlattenedCounters {
        flat_nodes,
        small_nodes,
        ..
    } = table.counters();
    assert_eq!(
        (flat_nodes * 512 + small_nodes) * PAGE_BYTES,
        frames.table_bytes()
    );
}

#[test]
fn conforms_with_each_pair_of_levels_flattened_or_not() {
    for (upper, lower) in [(true, true), (true, false), (false, true), (false, false)] {
        conformance::run_with(48, with(upper, lower), promise);
    }
}

/// Addresses that a walk reads, one after the other.
fn walk(bench: &mut Bench<Flattened>, vpn: u64) -> Vec<u64> {
    let steps = bench.walk(vpn);
    assert!(steps.iter().all(|reads| reads.len() == 1));
    steps.concat()
}

#[test]
fn a_walk_takes_two_reads_and_one_when_the_upper_entry_is_cached() {
    let mut bench = Bench::new(with(true, true)(1), FakeFrames::new(1 << 13, 0, 1));
    let vpn = (5 << 27) | (6 << 18) | (7 << 9) | 8;
    bench.map(vpn, PageSize::Base4K).unwrap();
    bench.map(vpn + GIB, PageSize::Base4K).unwrap();
    let reads = walk(&mut bench, vpn);
    let flat = 2 << 20;
    let offsets: Vec<u64> = reads.iter().map(|addr| addr % flat).collect();
    assert_eq!(offsets, [(5 * 512 + 6) * 8, (7 * 512 + 8) * 8]);
    assert_eq!(walk(&mut bench, vpn), reads[1..]);
    // Any page of the same 1 GiB, mapped or not, is one read away.
    assert_eq!(
        walk(&mut bench, vpn + 100 * REGION),
        [reads[1] + 100 * 512 * 8]
    );
    let other = walk(&mut bench, vpn + GIB);
    assert_eq!(other[0], reads[0] + 8);
    assert_eq!(bench.table.table_bytes(), 3 * flat);
}

#[test]
fn without_2_mib_blocks_it_is_the_tree_of_four_levels() {
    let mut frames = FakeFrames::new(1 << 12, 0, 1);
    for block in 0..8 {
        frames.occupy(Pfn(block * 512 + 100), PageSize::Base4K, true);
    }
    let mut bench = Bench::new(with(true, true)(1), frames);
    bench.map(0, PageSize::Base4K).unwrap();
    bench.map(REGION, PageSize::Base4K).unwrap();
    bench.map(GIB, PageSize::Base4K).unwrap();
    bench.map(512 * GIB, PageSize::Base4K).unwrap();
    assert_eq!(walk(&mut bench, 0).len(), 4);
    assert_eq!(walk(&mut bench, 0).len(), 1);
    assert_eq!(walk(&mut bench, REGION).len(), 2);
    assert_eq!(walk(&mut bench, GIB).len(), 3);
    assert_eq!(walk(&mut bench, 512 * GIB).len(), 4);
    let counters = bench.table.counters();
    assert_eq!((counters.upper_fallbacks, counters.lower_fallbacks), (1, 3));
    // PGD, two PUDs, three PMDs, four pages of PTEs.
    assert_eq!((counters.flat_nodes, counters.small_nodes), (0, 10));
}

#[test]
fn a_2_mib_page_in_a_flat_node_has_an_entry_for_each_of_its_4_kib() {
    let mut bench = Bench::new(with(true, true)(1), FakeFrames::new(1 << 13, 0, 1));
    bench.map(REGION, PageSize::Large2M).unwrap();
    // 512 entries of the lower node, and the one of the upper node that points to it.
    assert_eq!(bench.work.entries_written, 513);
    let first = walk(&mut bench, REGION)[1];
    assert_eq!(walk(&mut bench, REGION + 77), [first + 77 * 8]);
    let mut split = Bench::new(with(true, false)(1), FakeFrames::new(1 << 13, 0, 1));
    split.map(REGION, PageSize::Large2M).unwrap();
    let first = walk(&mut split, REGION)[1];
    assert_eq!(walk(&mut split, REGION + 77), [first]);
}

#[test]
fn a_1_gib_page_is_an_entry_of_the_upper_node() {
    let mut bench = Bench::new(with(true, true)(1), FakeFrames::new(1 << 13, 0, 1));
    bench.map(3 * GIB, PageSize::Huge1G).unwrap();
    assert_eq!(walk(&mut bench, 3 * GIB + 12345).len(), 1);
    assert_eq!(bench.table.table_bytes(), 2 << 20);
}

#[test]
fn caches_of_any_size_only_save_reads() {
    let none = WalkCacheConfig::NONE;
    let config = FlattenedConfig {
        pwc: FlattenedPwcConfig {
            pgd: none,
            pud: none,
            pmd: none,
        },
        ..FlattenedConfig::default()
    };
    let table = Flattened::new(&config, 1).unwrap();
    let mut bench = Bench::new(table, FakeFrames::new(1 << 13, 0, 1));
    bench.map(0, PageSize::Base4K).unwrap();
    assert_eq!(walk(&mut bench, 0).len(), 2);
    assert_eq!(walk(&mut bench, 0).len(), 2);
    let mut config = FlattenedConfig::default();
    config.pwc.pud.ways = 3;
    assert_eq!(
        Flattened::new(&config, 1).unwrap_err().key,
        "flattened.pwc.pud"
    );
}
