//! Victima beside radix: equal where nothing is switched on, and as worked out by hand.

use crate::around::{counted_nothing, is_refused, small_machines};
use crate::common::{BASE, Cut, Event, close, load, machine, map, run};
use crate::same_bits::events;
use pagelab_machine::{MachineConfig, RunResult};
use pagelab_memory::Replacement;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// One goes through the caches access by access, the other chunk by chunk.
    #[test]
    fn without_blocks_it_is_radix(
        events in events(),
        config in small_machines(),
        replacement in prop_oneof![Just(Replacement::Lru), Just(Replacement::Srrip)],
    ) {
        let mut config = config;
        config.caches.l2.replacement = replacement;
        config.victima.insert_on_miss = false;
        config.victima.insert_on_eviction = false;
        let result = |design: &str, cut| counted_nothing(&config, design, &events, cut);
        prop_assert!(result("radix", 1) == result("radix", 500), "radix itself");
        prop_assert!(result("victima", 500) == result("radix", 1), "victima");
    }
}

/// A chain of dependent loads over 8,192 pages, one line each, in an order in which no two that
/// follow each other share a line of entries; cycles a load over the last half, and what the
/// longer run counted.
fn chain(config: &MachineConfig, design: &str) -> (f64, RunResult) {
    let pages = 8192u64;
    let event = |i: u64| {
        let page = i * 1237 % pages;
        let line = (page + page / 128) % 64;
        load(BASE + page * 4096 + line * 64, 0, 1)
    };
    let result = |loads: u64| {
        let mut events: Vec<Event> = vec![map(BASE, pages * 4096)];
        events.extend((0..loads).map(event));
        run(config, design, &mut Cut::new(&events, 500))
    };
    let (half, whole) = (result(40_000), result(80_000));
    let cycles = whole.cycles.elapsed - half.cycles.elapsed;
    (cycles as f64 / 40_000.0, whole)
}

/// A last level that is as fast as the second, so that it does not matter which has a line.
const EVEN: &str = "caches.llc.cycles=16";

/// Rates of misses are known after a few loads.
const SOON: &str = "victima.window=1000";

#[test]
fn a_block_in_the_second_level_costs_that_level() {
    // The second-level TLB, 8 cycles, never has the page, nor the first-level cache its line; the
    // second has the block, 16 cycles. Another 16 for the data.
    let (cycles, result) = chain(&machine(&[EVEN, SOON]), "victima");
    close(cycles, 8.0 + 16.0 + 16.0);
    // Most blocks are made before the first round is through, and serve eight pages.
    assert!(result.tlb_counters["block_hits"] > 70_000);
    // A page fault takes two more.
    assert!(result.walks.count < 20_000, "{}", result.walks.count);
}

#[test]
fn a_walk_that_finds_no_block_costs_what_it_costs_in_radix() {
    // 2 cycles for the walk cache, which has the level above, and 16 for the entry.
    let expected = 8.0 + 2.0 + 16.0 + 16.0;
    close(chain(&machine(&[EVEN]), "radix").0, expected);
    // Blocks can be looked for and are never made: nothing is costly.
    let cheap = [
        EVEN,
        "victima.cost=[8, 7]",
        "victima.cache_mpki=1e9",
        "victima.tlb_aware=false",
    ];
    let (cycles, result) = chain(&machine(&cheap), "victima");
    close(cycles, expected);
    assert_eq!(result.tlb_counters["block_hits"], 0);
    // And once more for each page fault.
    assert_eq!(result.walks.count, 80_000 + 8192);
    // Not in parallel: the walk begins when the cache has answered.
    let (cycles, _) = chain(
        &machine(&[&cheap[..], &["victima.parallel=false"]].concat()),
        "victima",
    );
    close(cycles, expected + 16.0);
}

#[test]
fn a_walk_that_the_first_level_serves_is_sooner_than_a_block() {
    // Pages in turn, through a second level that keeps neither blocks nor entries for a round: the
    // line that the first of eight walks reads is in the first level for the others.
    let pages = 8192u64;
    let mut events: Vec<Event> = vec![map(BASE, pages * 4096)];
    events.extend((0..40_000).map(|i| {
        let page = i % pages;
        load(BASE + page * 4096 + (page + page / 128) % 64 * 64, 0, 1)
    }));
    let small = [
        "caches.l2.kib=64",
        "victima.predictor=false",
        "victima.tlb_aware=false",
    ];
    let result = |design| run(&machine(&small), design, &mut Cut::new(&events, 500));
    let (victima, radix) = (result("victima"), result("radix"));
    let sooner = victima.tlb_counters["walks_sooner_than_blocks"];
    assert!(sooner > (40_000 - 2 * pages) * 7 / 8, "{sooner}");
    close(victima.cycles.elapsed as f64, radix.cycles.elapsed as f64);
}

#[test]
fn a_result_has_the_machine_that_was_simulated() {
    let replacement = |keys: &[&str]| {
        let result = run(&machine(keys), "victima", &mut Cut::new(&[], 1));
        result.machine.caches.l2.replacement
    };
    assert_eq!(replacement(&[]), Replacement::Srrip);
    assert_eq!(replacement(&["victima.tlb_aware=false"]), Replacement::Lru);
}

#[test]
fn what_it_does_not_go_with_is_refused() {
    for (key, said) in [
        ("memory.memory_bytes=\"120GiB\"", "112 GiB"),
        ("tlb.l2_4k.coalesce=4", "coalesce"),
        ("victima.frequency_bits=5", "frequency_bits"),
        ("victima.window=0", "window"),
    ] {
        is_refused("victima", key, said);
    }
}
