//! Figures 10 and 11 of the paper, by hand.

use super::*;
use PageSize::{Base4K, Huge1G, Large2M};

const GIB: u64 = 1 << 18;
const VPN: u64 = 0x2345 * GIB;

#[test]
fn metadata_are_read_once_and_then_cached_64_regions_at_a_time() {
    let mut bench = Bench::new(&bare());
    for region in [0, 63, 64] {
        bench.map(VPN + region * 512, Base4K).unwrap();
    }
    let cold = bench.walk(VPN);
    let [dmt, pte] = &cold[..] else {
        panic!("metadata, then the entry: {cold:?}");
    };
    assert_eq!((dmt.len(), pte.len()), (1, 1));
    assert_eq!(dmt[0].0 % 64, 0, "an entry is a line");
    assert_eq!(bench.walk(VPN), std::slice::from_ref(pte));
    // Figure 10: 128 MiB share an entry.
    assert_eq!(bench.walk(VPN + 63 * 512).len(), 1);
    let next = bench.walk(VPN + 64 * 512);
    assert_eq!(next.len(), 2);
    assert_ne!(next[0], *dmt);
}

#[test]
fn times_of_caches_and_hash_are_those_of_table_i() {
    let mut bench = Bench::new(&DptConfig::default());
    bench.map(VPN, Base4K).unwrap();
    let page = bench.page(VPN);
    let mut walk = Walk::new();
    bench.table.walk(0, page, &mut walk);
    assert_eq!((walk.cycles(), walk.cache()), (2 + 2 + 2, (1, 0)));
    walk.clear();
    bench.table.walk(0, page, &mut walk);
    assert_eq!((walk.cycles(), walk.cache()), (2 + 2, (1, 1)));
}

#[test]
fn figure_11_of_two_valid_metadata_the_smaller_page_size_counts() {
    let mut bench = Bench::new(&bare());
    bench.map(VPN, Large2M).unwrap();
    bench.map(VPN + 512, Base4K).unwrap();
    // Both tables are asked at once.
    let cold = bench.walk(VPN + 512);
    assert_eq!(cold[0].len(), 2);
    assert_eq!(cold.len(), 2);
    let small = bench.walk(VPN + 512);
    assert_eq!(small.len(), 1);
    assert_eq!(small[0].len(), 1, "the 2 MiB entry is not read");
    let large = bench.walk(VPN + 17);
    assert_eq!(large.len(), 1);
    assert_ne!(large[0][0].pfn(), small[0][0].pfn());
    let index = (VPN >> 9) & 511;
    assert_eq!(large[0][0].0 % PAGE_BYTES, index * 8);
}

#[test]
fn known_smaller_metadata_spare_the_tables_of_larger_pages() {
    let mut bench = Bench::new(&bare());
    bench.map(VPN, Base4K).unwrap();
    bench.walk(VPN);
    // The process's first 2 MiB page brings a second table; the walk has no use for it.
    bench.map(VPN + 512, Large2M).unwrap();
    assert_eq!(bench.walk(VPN).len(), 1);
    // But where the smaller size is known to be absent, it is read.
    let large = bench.walk(VPN + 512);
    assert_eq!((large.len(), large[0].len()), (2, 1));
}

#[test]
fn an_empty_page_of_entries_does_not_hide_a_larger_page() {
    let mut bench = Bench::new(&DptConfig::default());
    bench.reserve(VPN, 512, Base4K);
    assert_eq!(bench.walk(VPN).len(), 2, "reserved: an entry, not present");
    let pfn = bench.map(VPN, Large2M).unwrap();
    bench.walk(VPN);
    assert_eq!(bench.lookup(VPN + 100), Some(Pfn(pfn.0 + 100)));
    bench.unmap(VPN, Large2M);
    bench.reserve(VPN, GIB, Large2M);
    let pfn = bench.map(VPN, Huge1G).unwrap();
    bench.walk(VPN + 1000);
    assert_eq!(bench.lookup(VPN + 1000), Some(Pfn(pfn.0 + 1000)));
    // And back.
    bench.unmap(VPN, Huge1G);
    let pfn = bench.map(VPN + 1000, Base4K).unwrap();
    bench.walk(VPN + 1000);
    assert_eq!(bench.lookup(VPN + 1000), Some(pfn));
    promise(&bench.table, &bench.frames);
}

#[test]
fn metadata_that_change_leave_the_caches() {
    let mut bench = Bench::new(&DptConfig::default());
    bench.map(VPN, Base4K).unwrap();
    // The neighbour region has no page of PTEs, which the walk learns and caches.
    assert_eq!(bench.walk(VPN + 512).len(), 1);
    assert_eq!(bench.walk(VPN + 512).len(), 0);
    bench.map(VPN + 512, Base4K).unwrap();
    assert_eq!(bench.walk(VPN + 512).len(), 2);
    assert_eq!(bench.walk(VPN + 512).len(), 1);
    bench.unmap(VPN + 512, Base4K);
    let page = bench.page(VPN + 512);
    bench.table.release(&mut bench.frames, page, 512);
    assert_eq!(bench.walk(VPN + 512).len(), 1);
    assert_eq!(bench.walk(VPN).len(), 1);
}

#[test]
fn without_a_cache_every_walk_reads_the_metadata() {
    let mut config = bare();
    config.dmc.base = WalkCacheConfig::NONE;
    let mut bench = Bench::new(&config);
    bench.map(VPN, Base4K).unwrap();
    assert_eq!(bench.walk(VPN).len(), 2);
    assert_eq!(bench.walk(VPN).len(), 2);
    assert_eq!(bench.table.counters().dmt_searches, 2);
}

#[test]
fn a_full_cache_forgets_the_entry_not_used_for_longest() {
    let mut config = bare();
    config.dmc.base = WalkCacheConfig::new(4, 4, 2);
    let mut bench = Bench::new(&config);
    let group = |n: u64| VPN + n * 64 * 512;
    for n in 0..5 {
        bench.map(group(n), Base4K).unwrap();
    }
    for n in [0, 1, 2, 3, 0, 4] {
        bench.walk(group(n));
    }
    assert_eq!(bench.walk(group(0)).len(), 1);
    assert_eq!(bench.walk(group(1)).len(), 2);
}
