use super::*;
use crate::PageTable;
use crate::conformance::{self, Bench, FakeFrames};
use pagelab_addr::PAGE_BYTES;

fn with(change: impl Fn(&mut ClusteredConfig)) -> impl Fn(usize) -> Clustered {
    let mut config = ClusteredConfig::default();
    change(&mut config);
    move |cores| Clustered::new(&config, cores).unwrap()
}

/// Every cluster with a page in it is in exactly one line, and no other is in any.
fn promise(table: &Clustered, _: &FakeFrames) {
    let counters = table.counters();
    assert_eq!(
        counters.lines * 64,
        table.table_bytes(),
        "tables are made of lines"
    );
    assert!(counters.lines_used <= counters.clusters_inserted);
}

#[test]
fn the_default_conforms() {
    conformance::run_with(57, with(|_| {}), promise);
}

#[test]
fn conforms_with_tiny_tables_nearly_full() {
    let tiny = |config: &mut ClusteredConfig| {
        config.entries = 64;
        config.occupancy = 0.95;
    };
    conformance::run_with(57, with(tiny), promise);
}

#[test]
fn conforms_without_compaction() {
    let without = |config: &mut ClusteredConfig| {
        config.entries = 64;
        config.compaction = false;
    };
    conformance::run_with(57, with(without), promise);
}

#[test]
fn an_impossible_configuration_is_refused_by_its_key() {
    let refused = |change: fn(&mut ClusteredConfig)| {
        let mut config = ClusteredConfig::default();
        change(&mut config);
        Clustered::new(&config, 1).unwrap_err().key
    };
    assert_eq!(refused(|c| c.entries = 100), "clustered.entries");
    assert_eq!(refused(|c| c.occupancy = 0.0), "clustered.occupancy");
    assert_eq!(refused(|c| c.occupancy = f64::NAN), "clustered.occupancy");
}

fn bench(config: &ClusteredConfig) -> Bench<Clustered> {
    let table = Clustered::new(config, 1).unwrap();
    Bench::new(table, FakeFrames::new(1 << 13, 0, 1))
}

/// One page in each of `clusters` clusters of a table that does not grow.
fn filled(entries: u32, clusters: u64) -> Bench<Clustered> {
    let mut bench = bench(&ClusteredConfig {
        entries,
        occupancy: 0.999,
        ..ClusteredConfig::default()
    });
    for cluster in 0..clusters {
        bench.map(cluster * 8, PageSize::Base4K).unwrap();
    }
    assert_eq!(bench.table.counters().rehashes, 0);
    bench
}

fn mean_reads(bench: &mut Bench<Clustered>, pages: std::ops::Range<u64>) -> f64 {
    let count = (pages.end - pages.start) as f64;
    let reads: usize = pages.map(|n| bench.walk(n * 8).len()).sum();
    reads as f64 / count
}

/// Knuth, volume 3, section 6.4: with a share `a` of the lines in use, linear probing reads
/// (1 + 1/(1-a))/2 lines when it finds the key and (1 + 1/(1-a)^2)/2 when it does not.
#[test]
fn searches_read_as_many_lines_as_theory_says() {
    let entries = 1 << 15;
    for share in [0.25, 0.5, 0.75] {
        let clusters = (f64::from(entries) * share) as u64;
        let mut bench = filled(entries, clusters);
        let free: f64 = 1.0 - share;
        let found = mean_reads(&mut bench, 0..clusters);
        let expected = (1.0 + 1.0 / free) / 2.0;
        assert!((found / expected - 1.0).abs() < 0.05, "{found} {expected}");
        let missed = mean_reads(&mut bench, clusters..2 * clusters);
        let expected = (1.0 + 1.0 / (free * free)) / 2.0;
        assert!((missed / expected - 1.0).abs() < 0.1, "{missed} {expected}");
    }
}

#[test]
fn removal_leaves_a_table_as_if_the_cluster_had_never_been_there() {
    // With linear probing the lines in use do not depend on the order of insertion, nor does the
    // sum of all searches.
    let mut with = filled(1 << 10, 900);
    for cluster in (0..900).step_by(3) {
        with.unmap(cluster * 8, PageSize::Base4K);
    }
    let mut without = bench(&with.table.organisation.config.clone());
    for cluster in (0..900).filter(|n| n % 3 != 0) {
        without.map(cluster * 8, PageSize::Base4K).unwrap();
    }
    let reads = |bench: &mut Bench<Clustered>| -> usize {
        let kept = (0..900).filter(|n| n % 3 != 0);
        kept.map(|n| bench.walk(n * 8).len()).sum()
    };
    assert_eq!(reads(&mut with), reads(&mut without));
    assert!(with.table.counters().moved_by_removal > 0);
}

#[test]
fn eight_neighbours_share_a_line() {
    let mut bench = bench(&ClusteredConfig::default());
    for vpn in 16..24 {
        bench.map(vpn, PageSize::Base4K).unwrap();
    }
    let line = bench.walk(16)[0][0];
    assert_eq!(line % 64, 0);
    for vpn in 16..24 {
        assert_eq!(bench.walk(vpn), [[line + (vpn - 16) * 8]]);
    }
    assert_eq!(bench.table.counters().clusters_inserted, 1);
}

#[test]
fn page_sizes_are_searched_side_by_side() {
    let mut bench = bench(&ClusteredConfig::default());
    bench.map(0, PageSize::Base4K).unwrap();
    assert_eq!(bench.walk(0).concat().len(), 1);
    bench.map(1 << 9, PageSize::Large2M).unwrap();
    assert_eq!(bench.walk(0).len(), 1);
    assert_eq!(bench.walk(0).concat().len(), 2);
    assert_eq!(bench.walk((1 << 9) + 77).concat().len(), 2);
    bench.map(1 << 18, PageSize::Huge1G).unwrap();
    assert_eq!(bench.walk(1 << 18).concat().len(), 3);
}

#[test]
fn a_table_doubles_past_its_occupancy_and_counts_what_moves() {
    let mut bench = bench(&ClusteredConfig {
        entries: 64,
        ..ClusteredConfig::default()
    });
    for cluster in 0..32 {
        bench.map(cluster * 8, PageSize::Base4K).unwrap();
        bench.map(cluster * 8 + 1, PageSize::Base4K).unwrap();
    }
    assert_eq!(bench.table.table_bytes(), PAGE_BYTES);
    assert_eq!(bench.work.entries_migrated, 0);
    bench.map(32 * 8, PageSize::Base4K).unwrap();
    let counters = bench.table.counters();
    assert_eq!((counters.lines, counters.lines_used), (128, 33));
    assert_eq!((counters.moved_by_rehash, counters.ptes_migrated), (32, 64));
    assert_eq!(bench.work.entries_migrated, 32);
    assert_eq!(bench.frames.table_bytes(), 2 * PAGE_BYTES);
}

#[test]
fn a_table_that_cannot_grow_fills_to_the_last_line() {
    let mut bench = bench(&ClusteredConfig {
        entries: 64,
        ..ClusteredConfig::default()
    });
    bench.map(0, PageSize::Base4K).unwrap();
    while bench
        .frames
        .allocate_data(PageSize::Base4K, false)
        .is_some()
    {}
    for cluster in 1..64 {
        bench.map(cluster * 8, PageSize::Base4K).unwrap();
    }
    assert_eq!(
        bench.map(64 * 8, PageSize::Base4K),
        Err(MapError::OutOfFrames)
    );
    let page = bench.page(64 * 8);
    assert_eq!(bench.table.lookup(page), None);
    assert_eq!(bench.walk(64 * 8).len(), 64);
    let counters = bench.table.counters();
    assert!(
        (1..=33).contains(&counters.contiguity.failed),
        "{counters:?}"
    );
    bench.unmap(5 * 8, PageSize::Base4K);
    bench.map(64 * 8, PageSize::Base4K).unwrap();
}
