//! The part-of-memory TLB beside radix: equal where it has no size, and as worked out by hand.

use crate::around::{self, LOADS, chain, counted_nothing, is_refused, small_machines};
use crate::common::{BASE, Cut, Event, close, load, machine, map, run};
use crate::same_bits::events;
use pagelab_machine::MachineConfig;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// One goes through the caches access by access, the other chunk by chunk.
    #[test]
    fn of_no_size_it_is_its_page_table(
        events in events(),
        config in small_machines(),
        table in prop_oneof![Just("radix"), Just("nested-radix")],
    ) {
        let mut config = config;
        config.pom_tlb.kib = 0;
        let result = |design: &str, cut| counted_nothing(&config, design, &events, cut);
        let with = format!("{table}+pom_tlb");
        prop_assert!(result(&with, 500) == result(table, 1), "{}", with);
    }
}

/// A last level of 100 cycles, a second of 16 and a first of 4 that keep little; memory takes
/// another 45 ns, 119.7 cycles.
fn far(keys: &[&str]) -> MachineConfig {
    around::far(&[&["pom_tlb.neighbours=1"], keys].concat())
}

const SMALL: (u64, u64) = (8192, 4096);

#[test]
fn a_set_in_a_cache_costs_that_level() {
    let (pages, bytes) = SMALL;
    // 8 cycles for the second-level TLB, and the set and the data from the last level.
    for enter in ["l1", "l2"] {
        let enter = format!("caches.walks_enter={enter}");
        let (cycles, result) = chain(&far(&[&enter]), "pom_tlb", pages, bytes);
        close(cycles, 8.0 + 100.0 + 100.0);
        let counters = &result.tlb_counters;
        // Each page is walked for twice at its first access, once in vain.
        assert_eq!(counters["page_table_walks"], 2 * pages);
        assert_eq!(counters["sets_written"], pages);
        assert_eq!(counters["pom_hits_4k"], LOADS - pages);
        assert_eq!(counters["sizes_predicted_wrong"], 0);
    }
    // A last level that is as fast as the second, so that it does not matter which has a line.
    let even = machine(&["caches.llc.cycles=16"]);
    close(chain(&even, "pom_tlb", pages, bytes).0, 8.0 + 16.0 + 16.0);
    close(
        chain(&even, "radix", pages, bytes).0,
        8.0 + 2.0 + 16.0 + 16.0,
    );
}

#[test]
fn neighbours_come_with_the_first_of_them() {
    // Pages in turn: the first of four has their line come from the last level.
    let (pages, bytes) = SMALL;
    let event = |i: u64| load(BASE + i % pages * bytes + i % pages / 128 * 64, 0, 1);
    let near = |key: &str, loads: u64| {
        let mut events: Vec<Event> = vec![map(BASE, pages * bytes)];
        events.extend((0..loads).map(event));
        let result = run(&far(&[key]), "pom_tlb", &mut Cut::new(&events, 500));
        result.tlb_counters["sets_read_in_l2"]
    };
    let [one, four] = ["pom_tlb.neighbours=1", "pom_tlb.neighbours=4"].map(|key| {
        let last_half = near(key, LOADS) - near(key, LOADS / 2);
        last_half as f64 / (LOADS / 2) as f64
    });
    assert!(one < 0.01 && (0.74..0.76).contains(&four), "{one}, {four}");
}

#[test]
fn a_guest_has_host_memory_from_one_set() {
    let (pages, bytes) = SMALL;
    let config = far(&["memory.memory_bytes=\"1GiB\""]);
    let (cycles, _) = chain(&config, "nested-radix+pom_tlb", pages, bytes);
    close(cycles, 8.0 + 100.0 + 100.0);
    let (nested, _) = chain(&config, "nested-radix", pages, bytes);
    assert!(nested > cycles + 10.0, "{nested}");
}

#[test]
fn a_set_that_no_cache_may_hold_costs_memory_alone() {
    let (pages, bytes) = SMALL;
    let (cycles, result) = chain(&far(&["pom_tlb.cached=false"]), "pom_tlb", pages, bytes);
    close(cycles, 8.0 + 119.7 + 100.0);
    let counters = &result.tlb_counters;
    // Two walks of a fault, and each first hit, save nothing; both sizes are read.
    let read = LOADS - pages + 2 * 2 * pages;
    assert_eq!(counters["sets_read_in_memory"], read);
    assert_eq!(counters["sets_read_past_caches"], 0);
    assert!(result.walks.served_by.dram >= read);
    assert_eq!(
        result.dram.reads,
        result.caches.data.dram + result.walks.served_by.dram
    );
}

#[test]
fn a_set_that_is_predicted_to_be_in_memory_costs_no_look_into_caches() {
    let (pages, bytes) = SMALL;
    // Neither sets nor data are there when they come again.
    let little = ["caches.llc.kib=256"];
    let (cycles, result) = chain(&far(&little), "pom_tlb", pages, bytes);
    close(cycles, 8.0 + 119.7 + (100.0 + 119.7));
    let counters = &result.tlb_counters;
    assert!(counters["sets_read_past_caches"] > LOADS - pages);
    // Only of the walks at first accesses, the second of which reads what the first has brought.
    let wrongly = counters["sets_read_past_caches_wrongly"];
    assert!(wrongly <= 2 * 2 * pages, "{wrongly}");
    let without = [&little[..], &["pom_tlb.bypass_predictor=false"]].concat();
    let (cycles, result) = chain(&far(&without), "pom_tlb", pages, bytes);
    close(cycles, 8.0 + (100.0 + 119.7) + (100.0 + 119.7));
    assert_eq!(result.tlb_counters["sets_read_past_caches"], 0);
}

#[test]
fn without_prediction_a_large_page_costs_a_set_of_small_ones() {
    let keys = [
        "memory.page_policy=thp",
        "tlb.l2_4k={ entries = 24, ways = 12 }",
        "tlb.l1_2m={ entries = 4, ways = 4 }",
        "caches.l2.kib=4",
    ];
    let (pages, bytes) = (128, 2 << 20);
    let (cycles, result) = chain(&far(&keys), "pom_tlb", pages, bytes);
    close(cycles, 8.0 + 100.0 + 100.0);
    let counters = &result.tlb_counters;
    assert_eq!(counters["pom_hits_2m"], LOADS - pages);
    // All pages have the same low bits, and so one entry of the predictor.
    assert_eq!(counters["sizes_predicted_wrong"], 1);
    let without = [&keys[..], &["pom_tlb.size_predictor=false"]].concat();
    let (cycles, result) = chain(&far(&without), "pom_tlb", pages, bytes);
    close(cycles, 8.0 + 100.0 + 100.0 + 100.0);
    assert_eq!(result.tlb_counters["sizes_predicted_right"], 0);
}

#[test]
fn a_page_in_no_set_costs_both_sets_and_the_walk() {
    let (pages, bytes) = SMALL;
    // Sixteen lines, which the second level always has.
    let (cycles, result) = chain(&far(&["pom_tlb.kib=1"]), "pom_tlb", pages, bytes);
    close(cycles, 8.0 + 16.0 + 16.0 + 2.0 + 100.0 + 100.0);
    assert_eq!(result.tlb_counters["pom_hits_4k"], 0);
}

#[test]
fn what_it_does_not_go_with_is_refused() {
    for (design, key, said) in [
        ("pom_tlb", "memory.memory_bytes=\"127GiB\"", "126 GiB"),
        (
            "nested-radix+pom_tlb",
            "nested.host_memory_bytes=\"127GiB\"",
            "126 GiB",
        ),
        ("pom_tlb", "pom_tlb.kib=3", "kib"),
        ("pom_tlb", "pom_tlb.neighbours=3", "neighbours"),
        (
            "pom_tlb",
            "pom_tlb.predictor_entries=0",
            "predictor_entries",
        ),
        (
            "pom_tlb",
            "tlb_prefetch.prefetcher=sequential",
            "tlb_prefetch",
        ),
    ] {
        is_refused(design, key, said);
    }
}
