use super::*;
use crate::PageTable;
use crate::WalkCacheConfig;
use crate::conformance::{self, Bench, FakeFrames};
use std::collections::HashSet;

fn with_levels(levels: u32) -> impl Fn(usize) -> Radix {
    move |cores| {
        let config = RadixConfig {
            levels,
            ..RadixConfig::default()
        };
        Radix::new(&config, cores).unwrap()
    }
}

#[test]
fn four_levels_conform() {
    conformance::run(48, with_levels(4));
}

#[test]
fn five_levels_conform() {
    conformance::run(57, with_levels(5));
}

#[test]
fn hashed_leaves_conform() {
    conformance::run(48, |cores| {
        let mut table = with_levels(4)(cores);
        // Frames that the fake memory has, whatever its size.
        table.hash_leaves(Tiers::of_tables(1 << 10, 2).unwrap());
        table
    });
}

const GIB: u64 = 1 << 18;

/// A table with some pages mapped.
fn mapped(table: Radix, pages: &[(u64, PageSize)]) -> Bench<Radix> {
    let mut bench = Bench::new(table, FakeFrames::new(1 << 12, 0, 1));
    for &(vpn, size) in pages {
        bench.map(vpn, size).unwrap();
    }
    bench
}

/// Byte offsets, in their frames, of the entries that a walk reads: one after the other, each in another frame.
fn walk(bench: &mut Bench<Radix>, vpn: u64) -> Vec<u64> {
    let steps = bench.walk(vpn);
    assert!(steps.iter().all(|reads| reads.len() == 1));
    let reads = steps.concat();
    let frames: HashSet<u64> = reads.iter().map(|read| read / PAGE_BYTES).collect();
    assert_eq!(frames.len(), reads.len());
    reads.iter().map(|read| read % PAGE_BYTES).collect()
}

#[test]
fn a_walk_reads_only_below_the_deepest_cached_entry() {
    use PageSize::Base4K;
    // Figure 1 of the DPT paper: nine bits of the address choose the entry of each level.
    let start = (5 << 27) | (6 << 18) | (7 << 9) | 8;
    let pages = [
        start,
        start + 1,
        start + 512,
        start + GIB,
        start + 512 * GIB,
    ];
    let mut bench = mapped(with_levels(4)(1), &pages.map(|vpn| (vpn, Base4K)));
    assert_eq!(walk(&mut bench, start), [5 * 8, 6 * 8, 7 * 8, 8 * 8]);
    assert_eq!(walk(&mut bench, start), [8 * 8]);
    assert_eq!(walk(&mut bench, start + 1), [9 * 8]);
    assert_eq!(walk(&mut bench, start + 512), [8 * 8, 8 * 8]);
    assert_eq!(walk(&mut bench, start + GIB), [7 * 8, 7 * 8, 8 * 8]);
    assert_eq!(
        walk(&mut bench, start + 512 * GIB),
        [6 * 8, 6 * 8, 7 * 8, 8 * 8]
    );
    assert_eq!(walk(&mut bench, start), [8 * 8]);
    // Not mapped: the walk ends where the path does.
    assert_eq!(walk(&mut bench, start + 2), [10 * 8]);
    assert_eq!(walk(&mut bench, start + 2 * 512), [9 * 8]);
    assert_eq!(walk(&mut bench, start + 2 * GIB), [8 * 8]);
    assert_eq!(walk(&mut bench, start + 1024 * GIB), [7 * 8]);
}

#[test]
fn larger_pages_end_a_walk_earlier() {
    let pages = [(512, PageSize::Large2M), (2 * GIB, PageSize::Huge1G)];
    let mut bench = mapped(with_levels(4)(1), &pages);
    assert_eq!(walk(&mut bench, 512 + 7), [0, 0, 8]);
    assert_eq!(walk(&mut bench, 512 + 7), [8]);
    assert_eq!(walk(&mut bench, 2 * GIB + 12345), [16]);
}

#[test]
fn a_fifth_level_costs_one_more_read() {
    let other = 1 << 43;
    let pages = [(0, PageSize::Base4K), (other, PageSize::Base4K)];
    let mut bench = mapped(with_levels(5)(1), &pages);
    assert_eq!(walk(&mut bench, 0).len(), 5);
    assert_eq!(walk(&mut bench, 0).len(), 1);
    assert_eq!(
        walk(&mut bench, GIB).len(),
        1,
        "from the P4D cache to the PUD entry"
    );
    assert_eq!(
        walk(&mut bench, 512 * GIB).len(),
        1,
        "from the PGD cache to the P4D entry"
    );
    assert_eq!(walk(&mut bench, other).len(), 5);
}

#[test]
fn a_full_cache_forgets_the_entry_not_used_for_longest() {
    let cache = |entries, ways| WalkCacheConfig::new(entries, ways, 2);
    let mut config = RadixConfig::default();
    config.pwc.pmd = cache(4, 4);
    let pages: Vec<_> = (0..5).map(|i| (i * 512, PageSize::Base4K)).collect();
    let mut bench = mapped(Radix::new(&config, 1).unwrap(), &pages);
    for vpn in [0, 512, 1024, 1536, 0, 2048] {
        walk(&mut bench, vpn);
    }
    assert_eq!(walk(&mut bench, 0).len(), 1);
    assert_eq!(walk(&mut bench, 512).len(), 2);

    config.pwc = PwcConfig {
        pgd: cache(0, 0),
        p4d: cache(0, 0),
        pud: cache(0, 0),
        pmd: cache(0, 0),
    };
    let mut bench = mapped(Radix::new(&config, 1).unwrap(), &pages);
    walk(&mut bench, 0);
    assert_eq!(walk(&mut bench, 0).len(), 4);
}

#[test]
fn freed_nodes_leave_the_caches() {
    // From a page that shares all nodes but the last with one that stays, to one that shares none.
    for (vpn, reads) in [(512, 2), (GIB, 3), (512 * GIB, 4)] {
        let pages = [(0, PageSize::Base4K), (vpn, PageSize::Base4K)];
        let mut bench = mapped(with_levels(4)(1), &pages);
        walk(&mut bench, 0);
        walk(&mut bench, vpn);
        assert_eq!(walk(&mut bench, vpn).len(), 1);
        bench.unmap(vpn, PageSize::Base4K);
        let page = bench.page(vpn);
        bench.table.release(&mut bench.frames, page, 1);
        bench.map(vpn, PageSize::Base4K).unwrap();
        assert_eq!(walk(&mut bench, vpn).len(), reads);
        assert_eq!(walk(&mut bench, 0).len(), 1);
    }
}

#[test]
fn running_out_of_frames_gives_back_the_nodes_already_taken() {
    let mut bench = mapped(with_levels(4)(1), &[(0, PageSize::Base4K)]);
    while bench.frames.free_frames() > 2 {
        bench.frames.allocate_data(PageSize::Base4K, false);
    }
    let before = bench.table.table_bytes();
    let result = bench.map(512 * GIB, PageSize::Base4K);
    assert_eq!(result, Err(MapError::OutOfFrames));
    assert_eq!(bench.table.table_bytes(), before);
    assert_eq!(bench.frames.free_frames(), 2);
    let page = bench.page(512 * GIB);
    assert_eq!(bench.table.lookup(page), None);
}

#[test]
fn an_impossible_configuration_is_refused_by_its_key() {
    let mut config = RadixConfig::default();
    config.pwc.pud.ways = 3;
    assert_eq!(Radix::new(&config, 1).unwrap_err().key, "pwc.pud");
    config.levels = 3;
    assert_eq!(Radix::new(&config, 1).unwrap_err().key, "levels");
}
