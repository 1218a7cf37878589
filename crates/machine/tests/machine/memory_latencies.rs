//! Reads of memory that take different times, beside a window that is worked out load by load.

use crate::common::{BASE, Cut, close, load, machine, map, run};

/// Sixteenths: most take the least, one a lot.
const SHAPE: [f64; 16] = [
    60.0, 60.0, 60.0, 60.0, 60.0, 60.0, 60.0, 60.0, 60.0, 60.0, 60.0, 60.0, 120.0, 120.0, 240.0,
    480.0,
];
const MEAN: f64 = 105.0;
const WINDOW: usize = 32;
const GHZ: f64 = 2.66;

/// Cycles a load of lines that no cache has, all of them independent or each waiting for the last.
fn cycles(spread: bool, dependent: u32) -> f64 {
    let (latency, shape) = (
        format!("dram.latency_ns={MEAN}"),
        format!("dram.spread={SHAPE:?}"),
    );
    let window = format!("core.reorder_buffer={WINDOW}");
    let mut keys = vec![
        "caches.llc.kib=512",
        "caches.l2.kib=64",
        "core.miss_buffers=64",
        "dram.gigabytes_per_second=10000.0",
        latency.as_str(),
        window.as_str(),
    ];
    if spread {
        keys.push(&shape);
    }
    let config = machine(&keys);
    let lines = 1u64 << 15;
    let rounds = |rounds: u64| {
        let mut events = vec![map(BASE, lines * 64)];
        let event = |i: u64| load(BASE + i % lines * 64, 0, dependent);
        events.extend((0..rounds * lines).map(event));
        run(&config, "ideal", &mut Cut::new(&events, 4096))
            .cycles
            .elapsed
    };
    // Without the first round, in which pages fault; the second and third draw other latencies.
    (rounds(3) - rounds(1)) as f64 / (2 * lines) as f64
}

/// The same where each load begins when there is room in the window, and retires in order.
fn by_hand() -> f64 {
    let mut random = 3u64;
    let loads = 1 << 17;
    let mut retired: Vec<f64> = Vec::with_capacity(loads);
    for at in 0..loads {
        let begins = at.checked_sub(WINDOW).map_or(0.0, |before| retired[before]);
        // A linear congruential generator (Knuth, TAOCP 2, 3.3.4, his MMIX's).
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let takes = SHAPE[(random >> 60) as usize] * GHZ + 36.0;
        let last = retired.last().copied().unwrap_or(0.0);
        retired.push(last.max(begins + takes));
    }
    retired[loads - 1] / loads as f64
}

#[test]
fn a_chain_takes_the_mean_and_a_window_what_its_slowest_take() {
    close(cycles(false, 1), MEAN * GHZ + 36.0);
    let chain = cycles(true, 1);
    assert!((chain / (MEAN * GHZ + 36.0) - 1.0).abs() < 0.02, "{chain}");

    let (alike, differ, expected) = (cycles(false, 0), cycles(true, 0), by_hand());
    assert!(
        (alike / ((MEAN * GHZ + 36.0) / WINDOW as f64) - 1.0).abs() < 0.05,
        "{alike}"
    );
    assert!(
        (differ / expected - 1.0).abs() < 0.05,
        "{differ}, {expected} by hand"
    );
    assert!(differ > 2.0 * alike, "{differ} and {alike}");
}
