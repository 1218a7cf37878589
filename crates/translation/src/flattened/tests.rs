use super::*;
use crate::PageTable;
use crate::WalkCacheConfig;
use crate::conformance::{self, FakeFrames};
use pagelab_addr::{Asid, PAGE_BYTES, PageDirectory};

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

/// A table with pages mapped.
struct Bench {
    table: Flattened,
    frames: FakeFrames,
    directory: PageDirectory,
    work: Work,
}

impl Bench {
    fn new(table: Flattened, frames: FakeFrames) -> Self {
        Bench {
            table,
            frames,
            directory: PageDirectory::new(),
            work: Work::default(),
        }
    }

    fn page(&mut self, vpn: u64) -> Page {
        let (asid, vpn) = (Asid(2), Vpn(vpn));
        let id = self.directory.page(asid, vpn).unwrap();
        Page { id, asid, vpn }
    }

    fn map(&mut self, vpn: u64, size: PageSize) -> Result<(), MapError> {
        let page = self.page(vpn);
        let translation = Translation {
            pfn: Pfn(1 << 20),
            size,
            writable: true,
        };
        self.table
            .map(&mut self.frames, page, translation, &mut self.work)
    }

    /// Addresses that a walk reads, one after the other.
    fn walk(&mut self, vpn: u64) -> Vec<u64> {
        let page = self.page(vpn);
        let mut walk = Walk::new();
        self.table.walk(0, page, &mut walk);
        for (number, read) in walk.reads().iter().enumerate() {
            assert_eq!(usize::from(read.step), number);
        }
        walk.reads().iter().map(|read| read.addr.0).collect()
    }
}

#[test]
fn a_walk_takes_two_reads_and_one_when_the_upper_entry_is_cached() {
    let mut bench = Bench::new(with(true, true)(1), FakeFrames::new(1 << 13, 0, 1));
    let vpn = (5 << 27) | (6 << 18) | (7 << 9) | 8;
    bench.map(vpn, PageSize::Base4K).unwrap();
    bench.map(vpn + GIB, PageSize::Base4K).unwrap();
    let reads = bench.walk(vpn);
    let flat = 2 << 20;
    let offsets: Vec<u64> = reads.iter().map(|addr| addr % flat).collect();
    assert_eq!(offsets, [(5 * 512 + 6) * 8, (7 * 512 + 8) * 8]);
    assert_eq!(bench.walk(vpn), reads[1..]);
    // Any page of the same 1 GiB, mapped or not, is one read away.
    assert_eq!(bench.walk(vpn + 100 * REGION), [reads[1] + 100 * 512 * 8]);
    let other = bench.walk(vpn + GIB);
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
    assert_eq!(bench.walk(0).len(), 4);
    assert_eq!(bench.walk(0).len(), 1);
    assert_eq!(bench.walk(REGION).len(), 2);
    assert_eq!(bench.walk(GIB).len(), 3);
    assert_eq!(bench.walk(512 * GIB).len(), 4);
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
    let first = bench.walk(REGION)[1];
    assert_eq!(bench.walk(REGION + 77), [first + 77 * 8]);
    let mut split = Bench::new(with(true, false)(1), FakeFrames::new(1 << 13, 0, 1));
    split.map(REGION, PageSize::Large2M).unwrap();
    let first = split.walk(REGION)[1];
    assert_eq!(split.walk(REGION + 77), [first]);
}

#[test]
fn a_1_gib_page_is_an_entry_of_the_upper_node() {
    let mut bench = Bench::new(with(true, true)(1), FakeFrames::new(1 << 13, 0, 1));
    bench.map(3 * GIB, PageSize::Huge1G).unwrap();
    assert_eq!(bench.walk(3 * GIB + 12345).len(), 1);
    assert_eq!(bench.table.table_bytes(), 2 << 20);
}

#[test]
fn caches_of_any_size_only_save_reads() {
    let none = WalkCacheConfig {
        entries: 0,
        ways: 0,
        cycles: 0,
    };
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
    assert_eq!(bench.walk(0).len(), 2);
    assert_eq!(bench.walk(0).len(), 2);
    let mut config = FlattenedConfig::default();
    config.pwc.pud.ways = 3;
    assert_eq!(
        Flattened::new(&config, 1).unwrap_err().key,
        "flattened.pwc.pud"
    );
}
