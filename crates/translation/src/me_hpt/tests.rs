use super::*;
use crate::PageTable;
use crate::conformance::{self, Bench, FakeFrames};
use pagelab_addr::PageSize;

fn with(change: impl Fn(&mut MeHptConfig)) -> impl Fn(usize) -> MeHpt {
    let mut config = MeHptConfig::default();
    change(&mut config);
    move |cores| MeHpt::new(&config, cores).unwrap()
}

#[test]
fn the_default_conforms() {
    conformance::run(57, with(|_| {}));
}

#[test]
fn conforms_with_tiny_tables_that_grow_at_once() {
    let tiny = |config: &mut MeHptConfig| {
        config.entries = 64;
        config.cwt.entries = 64;
        config.chunk_kib = vec![4, 16, 64];
        config.l2p_entries = 2;
        config.occupancy = 0.05;
    };
    conformance::run(57, with(tiny));
}

#[test]
fn an_impossible_configuration_is_refused_by_its_key() {
    let refused = |change: fn(&mut MeHptConfig)| {
        let mut config = MeHptConfig::default();
        change(&mut config);
        MeHpt::new(&config, 1).unwrap_err().key
    };
    assert_eq!(refused(|c| c.ways = 0), "me_hpt.ways");
    assert_eq!(refused(|c| c.entries = 32), "me_hpt.entries");
    assert_eq!(refused(|c| c.occupancy = 0.0), "me_hpt.occupancy");
    assert_eq!(refused(|c| c.chunk_kib = vec![]), "me_hpt.chunk_kib");
    assert_eq!(refused(|c| c.chunk_kib = vec![8, 4]), "me_hpt.chunk_kib");
    assert_eq!(refused(|c| c.chunk_kib = vec![8, 24]), "me_hpt.chunk_kib");
    assert_eq!(refused(|c| c.l2p_entries = 0), "me_hpt.l2p_entries");
    assert_eq!(refused(|c| c.cwc.base.ways = 3), "me_hpt.cwc.4K");
}

fn bench() -> Bench<MeHpt> {
    let table = MeHpt::new(&MeHptConfig::default(), 1).unwrap();
    Bench::new(table, FakeFrames::new(1 << 14, 0, 1))
}

fn map(bench: &mut Bench<MeHpt>, vpn: u64) {
    bench.map(vpn, PageSize::Base4K).unwrap();
}

/// Section III-B of the DPT paper: what a walk cache says leads to one line. When the entry is not
/// there any more, the walk finds it elsewhere with a second access, and the cache is put right.
#[test]
fn a_stale_walk_cache_costs_a_second_step_once() {
    let mut bench = bench();
    map(&mut bench, 0);
    // Two ways each of the walk tables for 4 KiB and 2 MiB, and four ways.
    assert_eq!(bench.reads(0), [2 + 2 + 4]);
    assert_eq!(bench.reads(0), [1]);
    let mut repaired = 0;
    // Other regions, far enough apart to leave the walk cache's set of region 0 alone.
    for cluster in 1..2000 {
        map(&mut bench, cluster * 64 * 8 + 8);
        let stale = bench.table.counters().stale;
        let steps = bench.reads(0);
        if steps.len() == 2 {
            repaired += 1;
            assert_eq!(steps[0], 1);
            assert_eq!(steps[1], 2 + 2 + 4);
            assert_eq!(bench.table.counters().stale, stale + 1);
            assert_eq!(bench.reads(0), [1]);
        } else {
            assert_eq!(steps, [1]);
        }
    }
    assert!(repaired > 0);
    assert_eq!(bench.table.counters().stale, repaired);
}

/// Table I of the DPT paper: ways of 128 entries at first, 32 chunks of 8 KiB, then of 1 MiB.
#[test]
fn a_way_that_needs_more_chunks_than_the_l2p_table_has_gets_larger_ones() {
    let mut bench = bench();
    map(&mut bench, 0);
    let counters = bench.table.counters();
    assert_eq!(counters.entries, [4 * 128, 0, 0]);
    assert_eq!(counters.contiguity.largest_block_bytes, 8 << 10);
    // 32 chunks of 8 KiB have 4,096 lines; four ways are full to 0.6 with 9,830 clusters.
    let clusters = |bench: &mut Bench<MeHpt>, range: std::ops::Range<u64>| {
        for cluster in range {
            map(bench, cluster * 8);
        }
    };
    clusters(&mut bench, 1..9_000);
    let counters = bench.table.counters();
    assert_eq!(counters.entries, [4 * 4096, 0, 0]);
    assert_eq!(counters.moves.chunk_size_changes, 0);
    assert_eq!(counters.contiguity.largest_block_bytes, 8 << 10);
    clusters(&mut bench, 9_000..18_000);
    let counters = bench.table.counters();
    assert_eq!(counters.entries, [4 * 8192, 0, 0]);
    assert_eq!(counters.moves.chunk_size_changes, 4);
    assert_eq!(counters.contiguity.largest_block_bytes, 1 << 20);
    // Half of each chunk is not in use, but taken.
    assert_eq!(
        bench.table.table_bytes(),
        (4 << 20) + counters.walk_table_bytes
    );
    // The next doubling needs no more memory.
    clusters(&mut bench, 18_000..25_000);
    assert_eq!(bench.table.counters().entries, [4 * 16384, 0, 0]);
    assert_eq!(
        bench.table.table_bytes(),
        (4 << 20) + bench.table.counters().walk_table_bytes
    );
}

/// A moved line moves the PTEs in it.
#[test]
fn migrations_are_counted_in_lines_and_in_ptes() {
    let mut bench = bench();
    for page in 0..80_000 {
        map(&mut bench, page);
    }
    let counters = bench.table.counters();
    assert_eq!(counters.pages_mapped, 80_000);
    assert_eq!(counters.entries_inserted, 10_000);
    let moved = counters.moves.displaced + counters.moves.rehashed;
    assert_eq!(
        bench.work.entries_migrated,
        moved + counters.walk_table_moves.displaced + counters.walk_table_moves.rehashed
    );
    // Pages are mapped in order: all lines are full, but for the one that is being entered.
    assert!(counters.ptes_migrated <= 8 * moved);
    assert!(counters.ptes_migrated > 8 * moved * 95 / 100);
}
