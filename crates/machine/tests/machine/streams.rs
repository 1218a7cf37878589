//! Streams of lines that go on in the next page: what is left to be waited for of a program that reads
//! its memory in order, where its pages follow each other in the address space and not in memory.

use crate::common::{BASE, Cut, Event, load, machine, map, run};
use pagelab_machine::MachineConfig;
use proptest::prelude::*;

const PAGES: u64 = 128;
const LINES: u64 = 64;

/// Loads at these offsets, no load before the one before it.
fn loads(offsets: &[u64]) -> Vec<Event> {
    let load = |offset| load(BASE + offset, 1, 1);
    let loads = offsets.iter().map(load);
    std::iter::once(map(BASE, PAGES * 4096))
        .chain(loads)
        .collect()
}

fn with_streams(ahead: u32, crosses_pages: bool) -> MachineConfig {
    let streams = format!(
        "caches.prefetch={{ adjacent = false, streams = 16, ahead = {ahead}, crosses_pages = {crosses_pages} }}"
    );
    // The last level has the whole program, the second one page of it.
    machine(&["caches.llc.kib=1024", "caches.l2.kib=64", &streams])
}

/// Touches every page in an order that leaves no two of them beside each other in memory, and then
/// reads all lines of all pages in order.
fn scattered_and_then_in_order(down: bool) -> Vec<u64> {
    let first = (0..PAGES).map(|number| number * 37 % PAGES * 4096);
    let lines = PAGES * LINES;
    let in_order = (0..lines).map(|line| if down { lines - 1 - line } else { line } * 64);
    first.chain(in_order).collect()
}

/// Lines that the second level did not have when they were loaded.
fn beyond_second_level(config: &MachineConfig, design: &str, offsets: &[u64]) -> u64 {
    let data = run(config, design, &mut Cut::new(&loads(offsets), 500))
        .caches
        .data;
    data.llc + data.dram
}

#[test]
fn a_stream_goes_on_where_the_next_page_is() {
    for down in [false, true] {
        let offsets = scattered_and_then_in_order(down);
        for design in ["radix", "nested-radix", "dpt", "ideal"] {
            let left = beyond_second_level(&with_streams(20, false), design, &offsets);
            // In every page the three that make a stream, and what was touched first.
            assert!(left >= PAGES * 3, "{design}: {left}");
            let left = beyond_second_level(&with_streams(20, true), design, &offsets);
            assert!((PAGES..PAGES + 30).contains(&left), "{design}: {left}");
        }
    }
}

#[test]
fn a_page_that_is_not_there_yet_is_not_fetched_from() {
    let in_order: Vec<u64> = (0..PAGES * LINES).map(|line| line * 64).collect();
    let of = |crosses| beyond_second_level(&with_streams(20, crosses), "radix", &in_order);
    assert_eq!(of(true), of(false));
}

/// Number of times that a chain through the lines of pages in random order waits for memory, a page. The page of each
/// is free to translate, and memory so slow that hits hardly count.
fn waits_a_page(at_once: u32) -> f64 {
    let streams = format!(
        "caches.prefetch={{ adjacent = false, streams = 16, ahead = 63, at_once = {at_once} }}"
    );
    let config = machine(&[
        "caches.llc.kib=64",
        "caches.l2.kib=32",
        "dram.latency_ns=10000.0",
        &streams,
        // So that lines asked for together come together.
        "dram.gigabytes_per_second=100000.0",
    ]);
    let cycles = |rounds: u64| {
        let pages = (0..rounds * PAGES).map(|number| number * 37 % PAGES * 4096);
        let offsets: Vec<u64> = pages
            .flat_map(|page| (0..LINES).map(move |line| page + line * 64))
            .collect();
        // The memory of all is there after the first round.
        let run = run(&config, "ideal", &mut Cut::new(&loads(&offsets), 500));
        run.cycles.elapsed
    };
    (cycles(3) - cycles(2)) as f64 / PAGES as f64 / (10_000.0 * 2.66)
}

/// As often as is worked out line by line where a measured page says how many lines come at once
/// (tests/measure/test_machine_prefetch.py).
#[test]
fn lines_in_pages_at_random_wait_for_memory_so_often() {
    for (at_once, waits) in [(1, 33.0), (2, 7.0), (3, 6.0), (4, 5.0), (7, 4.0)] {
        let found = waits_a_page(at_once);
        assert!((waits..waits + 0.1).contains(&found), "{at_once}: {found}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Pages are touched as streams come to them: what lies beside a page changes between two accesses.
    #[test]
    fn batches_change_nothing(
        runs in proptest::collection::vec((0..PAGES * LINES, 1..400u64, any::<bool>()), 1..12),
        length in 2usize..700,
        ahead in 1u32..64,
    ) {
        let lines = PAGES * LINES;
        let offsets: Vec<u64> = runs
            .into_iter()
            .flat_map(|(from, count, down)| (0..count).map(move |number| {
                let line = if down { from + lines - number } else { from + number };
                line % lines * 64
            }))
            .collect();
        let (config, events) = (with_streams(ahead, true), loads(&offsets));
        for design in ["radix", "nested-radix", "mosaic"] {
            let of = |length| {
                let run = run(&config, design, &mut Cut::new(&events, length));
                serde_json::to_string(&run).unwrap()
            };
            prop_assert_eq!(of(length), of(1));
        }
    }
}
