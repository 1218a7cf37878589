//! Programs outside of the machine that use its last level.

use crate::common::{BASE, Cut, Event, load, machine, map, run};
use pagelab_machine::{MachineConfig, RunResult};

/// Lines of the last level.
const LINES: f64 = 16_384.0;

/// Ways that leave little to chance: the theory is of a single set.
const MANY: u32 = 128;

fn sharing(gigabytes_per_second: f64, replacement: &str, ways: u32) -> MachineConfig {
    machine(&[
        "caches.l1.kib=4",
        "caches.l2.kib=16",
        "caches.llc.kib=1024",
        &format!("caches.llc.ways={ways}"),
        &format!("caches.llc.replacement={replacement}"),
        &format!("caches.others.gigabytes_per_second={gigabytes_per_second:?}"),
    ])
}

/// Loads of lines at random, each waiting for the last one, or so many side by side.
fn at_random(lines: u64, loads: u64, side_by_side: u32) -> Cut {
    let mut state = 1u64;
    let mut events = vec![map(BASE, lines * 64)];
    // Every line once, so that what follows is not of first touches.
    events.extend((0..lines).map(|line| load(BASE + line * 64, 0, 0)));
    events.extend((0..loads).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let line = ((u128::from(state) * u128::from(lines)) >> 64) as u64;
        load(BASE + line * 64, 0, side_by_side)
    }));
    Cut::new(&events, 1000)
}

/// Share of the loads after the first `lines` that memory did not serve, and ns of one of them.
fn hits(config: &MachineConfig, lines: u64, side_by_side: u32) -> (f64, f64) {
    let loads = 12 * lines;
    let all = run(config, "ideal", &mut at_random(lines, loads, side_by_side));
    let first = run(
        config,
        "ideal",
        &mut at_random(lines, loads / 2, side_by_side),
    );
    let of = |f: fn(&RunResult) -> f64| (f(&all) - f(&first)) / (loads / 2) as f64;
    let ns = of(|result| result.cycles.total as f64) / config.core.ghz;
    (1.0 - of(|result| result.dram.reads as f64), ns)
}

/// Share of loads at random that hit a cache with LRU of which others take a part, by Che's approximation (Che, Tung
/// and Wang, IEEE JSAC 2002): a line stays for a time in which those that are loaded and those of others fill the
/// cache.
fn che(lines: f64, ns: f64, others: f64) -> f64 {
    let stays = |time: f64| lines * -(-time / (lines * ns)).exp_m1();
    let (mut low, mut high) = (0.0, 1e12);
    for _ in 0..100 {
        let time = (low + high) / 2.0;
        if stays(time) + others / 64.0 * time < LINES {
            low = time;
        } else {
            high = time;
        }
    }
    stays(low) / lines
}

#[test]
fn loads_at_random_hit_as_often_as_theory_says() {
    for (times, others, side_by_side) in [
        (2.0, 0.2, 1),
        (2.0, 0.9, 1),
        (4.0, 0.9, 1),
        (1.0, 0.5, 1),
        (0.5, 0.9, 1),
        (0.5, 4.0, 1),
        (2.0, 0.9, 8),
        (1.0, 4.0, 8),
    ] {
        let lines = times * LINES;
        let (share, ns) = hits(&sharing(others, "lru", MANY), lines as u64, side_by_side);
        let expected = che(lines, ns, others);
        assert!(
            (share - expected).abs() < 0.015,
            "{lines} lines, {others} GB/s, {side_by_side}: {share} of the loads hit, {expected} expected"
        );
    }
}

#[test]
fn many_loads_side_by_side_keep_more_of_the_level() {
    let config = sharing(0.9, "lru", MANY);
    let lines = 2 * LINES as u64;
    let (alone, _) = hits(&config, lines, 1);
    let (eight, _) = hits(&config, lines, 8);
    assert!(eight > 1.3 * alone, "{alone} alone, {eight} of eight");
}

#[test]
fn no_policy_keeps_lines_from_others_that_bring_in_enough() {
    for replacement in ["lru", "random", "srrip", "nru", "tree-plru"] {
        let lines = LINES as u64 / 2;
        let (share, _) = hits(&sharing(900.0, replacement, 16), lines, 1);
        // The second level holds these.
        assert!(share < 0.1, "{replacement}: {share}");
        let (share, _) = hits(&sharing(0.0, replacement, 16), lines, 1);
        assert!(share > 0.99, "{replacement}: {share}");
    }
}

/// Half a level of lines, and then a second in which the program asks for nothing.
#[test]
fn nothing_is_left_after_a_long_time() {
    for (replacement, ways) in [("random", 16), ("nru", 16), ("lru", 16), ("lru", 1)] {
        let lines = LINES as u64 / 2;
        let again = |gap: u32| {
            let config = sharing(1.0, replacement, ways);
            let round = || (0..lines).map(|line| load(BASE + line * 64, 0, 0));
            let mut events = vec![map(BASE, lines * 64)];
            events.extend(round().chain(round()));
            // Others come in between two turns.
            events.extend((0..256).map(|place| load(BASE, if place == 0 { gap } else { 0 }, 0)));
            let before = run(&config, "ideal", &mut Cut::new(&events, 1000));
            events.extend(round());
            let after = run(&config, "ideal", &mut Cut::new(&events, 1000));
            after.caches.data.llc - before.caches.data.llc
        };
        assert!(again(0) > lines / 3, "{replacement}");
        // Others' lines come in meanwhile again.
        assert!(
            again(u32::MAX) < lines / 1000,
            "{replacement}: {}",
            again(u32::MAX)
        );
    }
}

#[test]
fn modified_lines_leave_for_those_of_others() {
    let stores: Vec<Event> = std::iter::once(map(BASE, 1 << 20))
        .chain((0..4096).map(|line| crate::common::store(BASE + line * 64)))
        .chain((0..40_000).map(|_| load(BASE, 400, 1)))
        .collect();
    let writes = |others: f64| {
        let config = sharing(others, "lru", MANY);
        run(&config, "ideal", &mut Cut::new(&stores, 500))
            .dram
            .writes
    };
    assert_eq!(writes(0.0), 0);
    // Lines that the first two levels held have not come down.
    let held = 16 * 1024 / 64 + 4 * 1024 / 64;
    assert!(
        (4096 - held..=4096).contains(&writes(50.0)),
        "{}",
        writes(50.0)
    );
}

#[test]
fn impossible_rates_are_refused() {
    for rate in ["-1.0", "nan", "inf", "1001.0"] {
        let key = format!("caches.others.gigabytes_per_second={rate}");
        let error = match MachineConfig::load("dpt-paper", &[key]) {
            Err(error) => error.to_string(),
            Ok(config) => {
                let mut source = Cut::new(&[], 1);
                let mut go_on = |_: pagelab_machine::Progress| std::ops::ControlFlow::Continue(());
                pagelab_machine::simulate(&config, "radix", &mut source, &mut go_on)
                    .unwrap_err()
                    .to_string()
            }
        };
        assert!(
            error.contains("caches.others.gigabytes_per_second"),
            "{error}"
        );
    }
}
