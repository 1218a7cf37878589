//! The `tiered` manager: which pages end up near, and what that costs.

use crate::common::{BASE, Cut, Event, load, map, run};
use crate::nodes::{LINUX, PAGE, machine};
use pagelab_machine::RunResult;

const NEAR_MIB: u64 = 8;
const NEAR_PAGES: u64 = NEAR_MIB << 20 >> 12;
const PAGES: u64 = 8192;
/// Shares of the near node's 2048 frames, 41 and 82.
const ALLOCATION: u64 = 41;
const RECLAMATION: u64 = 82;
const TIERED: &str = "{ name = \"tiered\", interval_us = 20, pages = 256 }";

/// Touches all pages in order, and then loads at random in each of some hot regions in turn.
fn simulate(manager: &str, design: &str, regions: &[(u64, u64)], loads: u64) -> RunResult {
    let config = machine(
        [NEAR_MIB, 64],
        [50.0; 2],
        manager,
        &[
            "caches.llc.kib=256",
            "caches.l2.kib=64",
            // A page whose translation stays cached has no accessed bit set.
            "tlb.l1_4k={ entries = 8, ways = 4 }",
            "tlb.l2_4k={ entries = 24, ways = 12 }",
        ],
    );
    let mut events: Vec<Event> = vec![map(BASE, PAGES * PAGE)];
    events.extend((0..PAGES).map(|page| load(BASE + page * PAGE, 0, 0)));
    let mut state = 1u64;
    for &(first, pages) in regions {
        for _ in 0..loads {
            // Knuth's MMIX generator, of which the high bits are good.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let line = (state >> 33) % (pages * 64);
            events.push(load(BASE + first * PAGE + line * 64, 3, 0));
        }
    }
    let result = run(&config, design, &mut Cut::new(&events, 500));
    assert!(result.complete, "{:?}", result.stopped);
    result
}

/// Lines read from the far node by the last 20,000 of 120,000 loads of a region.
fn far_reads(manager: &str, region: (u64, u64)) -> u64 {
    let reads = |loads| simulate(manager, "ideal", &[region], loads).nodes[1].reads;
    reads(120_000) - reads(100_000)
}

#[test]
fn hot_pages_come_near() {
    // These were touched when the near node was full.
    let hot = (4096, 1000);
    assert!(far_reads(LINUX, hot) > 15_000);
    assert_eq!(far_reads(TIERED, hot), 0);
    for design in ["radix", "dpt", "ecpt"] {
        let result = simulate(TIERED, design, &[hot], 120_000);
        assert!(result.nodes[1].share < 0.2, "{design}: {:?}", result.nodes);
    }
}

#[test]
fn what_was_hot_makes_room_for_what_is() {
    // So long an interval that all pages of a region are used in each. What lies between the
    // thresholds is what can be exchanged in one.
    let patient = "{ name = \"tiered\", interval_us = 300, reclamation = 0.3, pages = 1024 }";
    let tiers = |regions: &[(u64, u64)]| {
        let result = simulate(patient, "ideal", regions, 200_000);
        result.os.tiers.unwrap()
    };
    let one = tiers(&[(2048, 1500)]);
    let two = tiers(&[(2048, 1500), (5000, 1500)]);
    assert_eq!(one.hot, [1500, 0]);
    assert_eq!(two.hot, [1500, 0]);
    // Pages of the first region without room beside the second had to leave.
    let room = NEAR_PAGES - ALLOCATION;
    assert!(two.demoted - one.demoted >= 2 * 1500 - room);
}

#[test]
fn the_near_node_keeps_its_reserve_and_pages_are_not_lost() {
    let touched = simulate(TIERED, "ideal", &[], 0);
    let near = |result: &RunResult| result.nodes[0].resident_bytes / PAGE;
    assert_eq!(near(&touched), NEAR_PAGES - ALLOCATION);
    let result = simulate(TIERED, "ideal", &[(4096, 1000)], 100_000);
    let free = NEAR_PAGES - near(&result);
    assert!((ALLOCATION..=RECLAMATION).contains(&free), "{free}");
    let all: u64 = result.nodes.iter().map(|node| node.resident_bytes).sum();
    assert_eq!(all, PAGES * PAGE);
}

#[test]
fn each_move_takes_its_time() {
    let result = simulate(TIERED, "ideal", &[(4096, 1000)], 100_000);
    let tiers = result.os.tiers.unwrap();
    assert!(tiers.promoted >= 1000 && tiers.demoted >= 1000 - ALLOCATION);
    let cost = result.machine.cost;
    let moved = (tiers.promoted + tiers.demoted) as f64;
    let expected = moved * (cost.migrate_4k_ns + cost.shootdown_ns) * 2.66;
    let got = result.cycles.causes.migrations as f64;
    assert!((got / expected - 1.0).abs() < 0.01, "{got}, {expected}");
    assert_eq!(result.os.pages_migrated, tiers.promoted + tiers.demoted);
}
