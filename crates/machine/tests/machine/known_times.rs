//! Runs whose time can be worked out by hand from the machine's latencies.

use crate::common::{BASE, Cut, Event, load, map, run};
use pagelab_machine::MachineConfig;

/// The dpt-paper machine with faults that cost nothing, so that only the chain takes time.
fn machine(overrides: &[&str]) -> MachineConfig {
    let mut all: Vec<String> = overrides.iter().map(|&o| o.to_owned()).collect();
    for key in ["fault", "zero_4k", "table_page", "probe"] {
        all.push(format!("cost.{key}_ns=0.0"));
    }
    MachineConfig::load("dpt-paper", &all).unwrap()
}

/// A chain of dependent loads over `pages` pages, one line each, round and round; cycles per load
/// over the last half, when everything that fits is in.
fn chain(config: &MachineConfig, design: &str, pages: u64) -> f64 {
    let loads = 20_000u64;
    let event = |i: u64| {
        let page = i % pages;
        // Spread over the sets of every level, also where frames follow each other as pages do.
        let line = (page + page / 128) % 64;
        load(BASE + page * 4096 + line * 64, 0, 1)
    };
    let cycles = |loads: u64| {
        let mut events: Vec<Event> = vec![map(BASE, pages * 4096)];
        events.extend((0..loads).map(event));
        run(config, design, &mut Cut::new(&events, 500))
            .cycles
            .elapsed
    };
    (cycles(2 * loads) - cycles(loads)) as f64 / loads as f64
}

fn close(got: f64, expected: f64) {
    assert!(
        (got - expected).abs() < 0.01 * expected,
        "{got} cycles, expected {expected}"
    );
}

#[test]
fn a_chain_within_reach_of_everything_costs_the_first_level() {
    close(chain(&machine(&[]), "radix", 32), 4.0);
    close(chain(&machine(&[]), "ideal", 32), 4.0);
}

#[test]
fn past_the_first_tlb_each_load_pays_the_second() {
    // 256 pages in turn always miss a first-level TLB of 64. Four lines for each of the 64 places
    // in a page fit a four-way cache, whatever their frames.
    close(chain(&machine(&[]), "radix", 256), 4.0 + 8.0);
    close(chain(&machine(&[]), "ideal", 256), 4.0);
}

#[test]
fn past_the_second_tlb_each_load_pays_a_walk() {
    // 8,192 lines of data, 512 KiB, and 64 KiB of entries, used in turn: the last level has them
    // all, the first two, made small, none by the time they are used again.
    let radix = chain(&machine(&["caches.l2.kib=64"]), "radix", 8192);
    // Every PTE line serves eight pages in a row: one read in eight comes from the last level
    // (36 cycles), seven from the first (4). The entries of the PMD level are in their walk cache
    // for 512 pages, then read once. 2 cycles for the walk cache, 8 for the TLB, 36 for the data.
    let walk = 8.0 + 2.0 + (36.0 + 7.0 * 4.0) / 8.0;
    close(radix, walk + 36.0);
    close(chain(&machine(&["caches.l2.kib=64"]), "ideal", 8192), 36.0);
}

#[test]
fn independent_loads_are_bound_by_bandwidth() {
    let config = machine(&[
        "dram.gigabytes_per_second=1.0",
        "core.miss_buffers=64",
        "core.reorder_buffer=512",
    ]);
    // Each line once, over 64 MiB: nothing is in a cache. 64 bytes at 1 GB/s are 170.24 cycles
    // of 2.66 GHz; the latency of 45 ns hides behind 64 lines under way.
    let lines = 1u64 << 20;
    let mut events = vec![map(BASE, lines * 64)];
    events.extend((0..lines).map(|i| load(BASE + i * 64, 0, 0)));
    let result = run(&config, "ideal", &mut Cut::new(&events, 4096));
    close(result.cycles.elapsed as f64 / lines as f64, 64.0 * 2.66);
}

#[test]
fn memory_that_runs_out_ends_the_run_and_names_footprint_and_limit() {
    let config = machine(&["memory.memory_bytes=67108864", "memory.utilisation=0.5"]);
    let mut events = vec![map(BASE, 1 << 27)];
    events.extend((0..1u64 << 15).map(|page| load(BASE + page * 4096, 0, 0)));
    for design in [
        "radix",
        "flattened",
        "clustered",
        "ecpt",
        "me_hpt",
        "dpt",
        "ideal",
    ] {
        let result = run(&config, design, &mut Cut::new(&events, 100));
        assert!(!result.complete);
        let stopped = result.stopped.unwrap();
        assert!(stopped.contains("of 64 MiB"), "{stopped}");
        // What was simulated up to there still counts, and no frame was used twice.
        assert!(result.accesses > 7000, "{}", result.accesses);
        assert!(result.os.resident_bytes <= 32 << 20);
    }
}
