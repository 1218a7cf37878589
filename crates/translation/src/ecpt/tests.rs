use super::*;
use crate::conformance::{self, Bench, FakeFrames};
use crate::{MapError, PageTable};
use pagelab_addr::{PageSize, Pfn};

fn with(change: impl Fn(&mut EcptConfig)) -> impl Fn(usize) -> Ecpt {
    let mut config = EcptConfig::default();
    change(&mut config);
    move |cores| Ecpt::new(&config, cores).unwrap()
}

fn tiny(config: &mut EcptConfig) {
    config.entries = 64;
    config.cwt.entries = 64;
    config.growth = 2;
    config.occupancy = 0.1;
}

#[test]
fn the_default_conforms() {
    conformance::run(57, with(|_| {}));
}

#[test]
fn conforms_with_tiny_tables() {
    conformance::run(57, with(tiny));
}

#[test]
fn conforms_without_compaction_and_with_headers_of_all_sizes() {
    conformance::run(
        57,
        with(|config| {
            tiny(config);
            config.compaction = false;
            config.cwc.base = config.cwc.large;
        }),
    );
}

#[test]
fn conforms_without_walk_caches() {
    conformance::run(
        57,
        with(|config| {
            config.cwc.large.entries = 0;
            config.cwc.huge.entries = 0;
        }),
    );
}

#[test]
fn an_impossible_configuration_is_refused_by_its_key() {
    let refused = |change: fn(&mut EcptConfig)| {
        let mut config = EcptConfig::default();
        change(&mut config);
        Ecpt::new(&config, 1).unwrap_err().key
    };
    assert_eq!(refused(|c| c.ways = 1), "ecpt.ways");
    assert_eq!(refused(|c| c.ways = 9), "ecpt.ways");
    assert_eq!(refused(|c| c.entries = 65), "ecpt.entries");
    assert_eq!(refused(|c| c.occupancy = 1.0), "ecpt.occupancy");
    assert_eq!(refused(|c| c.growth = 3), "ecpt.growth");
    assert_eq!(refused(|c| c.cwt.entries = 1), "ecpt.cwt.entries");
    assert_eq!(refused(|c| c.cwc.huge.ways = 0), "ecpt.cwc.1G");
}

fn bench(config: &EcptConfig, frames: FakeFrames) -> Bench<Ecpt> {
    Bench::new(Ecpt::new(config, 1).unwrap(), frames)
}

const REGION: u64 = 512;

/// The kinds of walk of the paper: three lines side by side where the caches say that only 4 KiB
/// pages are there, one where they say in which way a 2 MiB page is, all where they say nothing.
#[test]
fn walk_caches_leave_what_the_paper_says_to_be_read() {
    let mut bench = bench(&EcptConfig::default(), FakeFrames::new(1 << 14, 0, 1));
    bench.map(0, PageSize::Base4K).unwrap();
    // Two ways each of the walk tables for 2 MiB and 1 GiB, and three ways.
    assert_eq!(bench.reads(0), [2 + 2 + 3]);
    assert_eq!(bench.reads(0), [3]);
    bench.map(64 * REGION, PageSize::Large2M).unwrap();
    // The cached header is from before the page, so that all six ways are searched as well.
    assert_eq!(bench.reads(64 * REGION), [2 + 2 + 3 + 3]);
    assert_eq!(bench.reads(64 * REGION + 99), [1]);
    assert_eq!(bench.reads(0), [3]);
    let counters = bench.table.counters();
    assert_eq!(counters.stale, 1);
    assert_eq!(
        (counters.walks.direct, counters.walks.size),
        (1, 3),
        "{:?}",
        counters.walks
    );
    // Both sizes in one cluster of 2 MiB pages.
    bench.map(65 * REGION + 5, PageSize::Base4K).unwrap();
    bench.reads(65 * REGION + 5);
    assert_eq!(bench.reads(65 * REGION + 5), [1 + 3]);
    assert!(bench.table.counters().walks.partial > 0);
}

/// Ways are contiguous: memory without free blocks larger than a frame lets tables go on past
/// their occupancy, to what cuckoo hashing with three ways can hold, and no further.
#[test]
fn tables_that_cannot_be_resized_fill_up_and_say_so() {
    let mut frames = FakeFrames::new(1 << 12, 0, 1);
    for frame in (1..1 << 12).step_by(2) {
        frames.occupy(Pfn(frame), PageSize::Base4K, false);
    }
    let mut bench = bench(&EcptConfig::default(), frames);
    let mut mapped = 0;
    while bench.map(mapped * 8, PageSize::Base4K).is_ok() {
        mapped += 1;
    }
    let counters = bench.table.counters();
    assert_eq!(counters.entries, [3 * 64, 0, 0]);
    assert_eq!(counters.entries_used[0], mapped);
    assert!((0.75..0.96).contains(&(mapped as f64 / 192.0)), "{mapped}");
    assert!(counters.moves.resizes_postponed > 0);
    assert!(counters.contiguity.failed > 0);
    assert_eq!(
        bench.map(mapped * 8, PageSize::Base4K),
        Err(MapError::OutOfFrames)
    );
    for page in 0..mapped {
        let page = bench.page(page * 8);
        assert!(bench.table.lookup(page).is_some());
    }
}

#[test]
fn compaction_finds_room_in_fragmented_memory() {
    let mut frames = FakeFrames::new(1 << 12, 0, 1);
    for frame in (1..1 << 12).step_by(2) {
        frames.occupy(Pfn(frame), PageSize::Base4K, true);
    }
    let config = EcptConfig {
        entries: 64,
        ..EcptConfig::default()
    };
    let mut bench = bench(&config, frames);
    for cluster in 0..2000 {
        bench.map(cluster * 8, PageSize::Base4K).unwrap();
    }
    let counters = bench.table.counters();
    assert!(counters.contiguity.compacted >= 6);
    assert_eq!(
        counters.contiguity.pages_moved,
        bench.work.displaced.len() as u64
    );
    assert_eq!(counters.entries, [3 * 4096, 0, 0]);
}
