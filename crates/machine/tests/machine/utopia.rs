//! Utopia beside radix: equal where it has no segments, and as worked out by hand.

use crate::around::{self, LOADS, chain, counted_nothing, is_refused, small_machines};
use crate::common::close;
use crate::same_bits::events;
use pagelab_machine::MachineConfig;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// One goes through the caches access by access, the other chunk by chunk.
    #[test]
    fn without_segments_it_is_radix(
        events in events(),
        config in small_machines(),
        parallel in any::<bool>(),
    ) {
        let mut config = config;
        (config.utopia.small_mib, config.utopia.large_mib) = (0, 0);
        config.utopia.parallel = parallel;
        let result = |design: &str, cut| counted_nothing(&config, design, &events, cut);
        prop_assert!(result("utopia", 500) == result("radix", 1), "utopia");
    }
}

/// A last level of 100 cycles, a second of 16 and a first of 4 that keep little; memory takes
/// another 45 ns, 119.7 cycles. A segment of 64 MiB: 1,024 sets of 16 small pages, whose filter has
/// 16 lines and whose tags have 1,024. The walker's caches hold all of them.
fn far(keys: &[&str]) -> MachineConfig {
    around::far(&[&["utopia.small_mib=64", "utopia.tag_cache_kib=128"], keys].concat())
}

const SMALL: (u64, u64) = (8192, 4096);

#[test]
fn a_page_in_a_segment_costs_a_look_into_the_walkers_caches() {
    let (pages, bytes) = SMALL;
    for parallel in ["utopia.parallel=true", "utopia.parallel=false"] {
        // 8 cycles for the second-level TLB, one for the filter and one for the tags.
        let (cycles, result) = chain(&far(&[parallel]), "utopia", pages, bytes);
        close(cycles, 8.0 + 1.0 + 1.0 + 100.0);
        let counters = &result.tlb_counters;
        // A page is walked for in vain before its first touch.
        assert_eq!(counters["page_table_walks"], pages);
        assert_eq!(counters["segment_hits_4k"], LOADS);
        assert_eq!(
            (counters["filter_lines_read"], counters["tag_lines_read"]),
            (16, 1024)
        );
        let segments = result.os.segments.unwrap();
        assert_eq!((segments.placed.base, segments.full.base), (pages, 0));
        assert_eq!((segments.places.base, segments.used.base), (1 << 14, pages));
    }
    // Without a filter there is no look-up of it.
    let (cycles, _) = chain(&far(&["utopia.set_filter=false"]), "utopia", pages, bytes);
    close(cycles, 8.0 + 1.0 + 100.0);
    let slow = chain(&far(&["utopia.cache_cycles=20"]), "utopia", pages, bytes);
    close(slow.0, 8.0 + 20.0 + 20.0 + 100.0);
}

#[test]
fn tags_that_the_walker_has_not_come_from_a_cache_of_data() {
    let (pages, bytes) = SMALL;
    for parallel in ["utopia.parallel=true", "utopia.parallel=false"] {
        let keys = ["utopia.tag_cache_kib=0", parallel];
        let (cycles, result) = chain(&far(&keys), "utopia", pages, bytes);
        close(cycles, 8.0 + 1.0 + 100.0 + 100.0);
        let counters = &result.tlb_counters;
        // The first page of a set that a walk in vain asks for finds the set empty.
        assert_eq!(counters["tag_lines_read"], LOADS + pages - 1024);
        // Beside it the first read of the page table goes out, the entry: all above are cached.
        let vain = counters["page_table_reads_in_vain"];
        let parallel = parallel.ends_with("true");
        assert_eq!(vain > 0, parallel);
        assert!(!parallel || vain >= LOADS - pages, "{vain}");
        assert!(result.walks.reads >= LOADS + vain);
    }
}

#[test]
fn a_page_elsewhere_costs_the_walk_and_in_turn_the_segments() {
    let (pages, bytes) = SMALL;
    let nowhere = ["utopia.at_faults=false", "utopia.track=false"];
    let walk = 2.0 + 100.0;
    let (radix, _) = chain(&far(&[]), "radix", pages, bytes);
    close(radix, 8.0 + walk + 100.0);
    let with = |keys: &[&str]| {
        let (cycles, result) = chain(&far(&[&nowhere[..], keys].concat()), "utopia", pages, bytes);
        assert_eq!(result.tlb_counters["segment_hits_4k"], 0);
        assert_eq!(result.tlb_counters["page_table_walks"], LOADS + pages);
        (cycles, result.tlb_counters)
    };
    let (cycles, counters) = with(&[]);
    close(cycles, 8.0 + walk + 100.0);
    assert_eq!(counters["sets_filtered_out"], LOADS + pages);
    assert_eq!(counters["sets_searched"], 0);
    // In turn: the filter says that the set is empty; without a filter its tags have to.
    let (cycles, _) = with(&["utopia.parallel=false"]);
    close(cycles, 8.0 + 1.0 + walk + 100.0);
    let tags = ["utopia.set_filter=false", "utopia.tag_cache_kib=0"];
    let (cycles, _) = with(&[&tags[..], &["utopia.parallel=false"]].concat());
    close(cycles, 8.0 + 100.0 + walk + 100.0);
    let (cycles, counters) = with(&tags);
    close(cycles, 8.0 + walk + 100.0);
    assert_eq!(counters["tag_lines_read"], LOADS + pages);
}

#[test]
fn large_pages_are_found_as_small_ones_are() {
    let keys = [
        "memory.page_policy=thp",
        "tlb.l2_4k={ entries = 24, ways = 12 }",
        "tlb.l1_2m={ entries = 4, ways = 4 }",
        "caches.l2.kib=4",
    ];
    let (pages, bytes) = (128, 2 << 20);
    let (cycles, result) = chain(&far(&keys), "utopia", pages, bytes);
    close(cycles, 8.0 + 1.0 + 1.0 + 100.0);
    let counters = &result.tlb_counters;
    assert_eq!(counters["segment_hits_2m"], LOADS);
    // Both segments are asked of each time.
    assert_eq!(counters["sets_filtered"], 2 * (LOADS + pages));
    assert_eq!(result.os.segments.unwrap().used.large, pages);
}

#[test]
fn costly_pages_are_moved_once() {
    let (pages, bytes) = SMALL;
    let keys = ["utopia.at_faults=false", "utopia.costly_reads=0"];
    let (cycles, result) = chain(&far(&keys), "utopia", pages, bytes);
    close(cycles, 8.0 + 1.0 + 1.0 + 100.0);
    let counters = &result.tlb_counters;
    assert_eq!(counters["pages_found_costly"], pages);
    // Two walks that find it and one that does not.
    assert_eq!(counters["page_table_walks"], 3 * pages);
    let segments = result.os.segments.unwrap();
    assert_eq!((segments.moved_in.base, segments.evicted.base), (pages, 0));
    assert_eq!(result.os.pages_migrated, pages);
    // 413.5 ns to move a page and 6,600 for a shootdown.
    close(
        result.cycles.causes.migrations as f64,
        pages as f64 * 7013.5 * 2.66,
    );
    // No read of these walks is served by memory.
    let (_, result) = chain(
        &far(&["utopia.at_faults=false", "utopia.costly_reads=1"]),
        "utopia",
        64,
        bytes,
    );
    assert_eq!(result.os.segments.unwrap().moved_in.base, 0);
}

#[test]
fn a_full_set_leaves_pages_to_the_page_table() {
    // A segment of 1,024 pages for 8,192.
    let (pages, bytes) = SMALL;
    let keys = ["utopia.small_mib=4", "utopia.track=false"];
    let (_, result) = chain(&far(&keys), "utopia", pages, bytes);
    let segments = result.os.segments.unwrap();
    assert_eq!(
        (segments.placed.base, segments.full.base),
        (1024, pages - 1024)
    );
    // Pages come again in turn, 80,000 loads of 8,192: those in the segment were first.
    let counters = &result.tlb_counters;
    let hits = counters["segment_hits_4k"];
    assert_eq!(counters["page_table_walks"], LOADS + pages - hits);
    assert!((LOADS / 8).abs_diff(hits) < 1024, "{hits}");
    // The last ones are there where they push each other out.
    let evicting = [&keys[..], &["utopia.evict_at_faults=true"]].concat();
    let (_, result) = chain(&far(&evicting), "utopia", pages, bytes);
    let segments = result.os.segments.unwrap();
    assert_eq!(
        (segments.placed.base, segments.evicted.base),
        (pages, pages - 1024)
    );
    assert_eq!((segments.full.base, segments.used.base), (0, 1024));
}

#[test]
fn what_it_does_not_go_with_is_refused() {
    for (key, said) in [
        ("utopia.ways=0", "ways"),
        ("utopia.ways=33", "ways"),
        ("utopia.cache_ways=3", "cache_ways"),
        ("utopia.filter_cache_kib=3", "filter_cache_kib"),
        ("utopia.costly_walks=0", "costly_walks"),
        ("memory.page_policy=64K", "utopia"),
        ("tlb_prefetch.prefetcher=sequential", "tlb_prefetch"),
    ] {
        is_refused("utopia", key, said);
    }
}
