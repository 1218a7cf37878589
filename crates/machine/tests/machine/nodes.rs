//! Memory of several nodes: where pages are, and what reading them costs.

use crate::common::{BASE, Cut, Event, load, map, run};
use pagelab_events::Source;
use pagelab_machine::{ConfigError, MachineConfig, RunResult, simulate, simulate_programs};
use pagelab_workloads::Workload;
use std::ops::ControlFlow;

pub const PAGE: u64 = 4096;

/// Two nodes, of so many MiB and GB/s each, 100 and 180 ns away, with nothing in use and a kernel
/// that takes no time.
pub fn machine(mib: [u64; 2], bandwidth: [f64; 2], manager: &str, more: &[&str]) -> MachineConfig {
    loaded(mib, bandwidth, manager, more).unwrap()
}

fn loaded(
    mib: [u64; 2],
    bandwidth: [f64; 2],
    manager: &str,
    more: &[&str],
) -> Result<MachineConfig, ConfigError> {
    let node = |at: usize, latency: f64| {
        format!(
            "{{ bytes = {}, latency_ns = {latency:?}, gigabytes_per_second = {:?} }}",
            mib[at] << 20,
            bandwidth[at],
        )
    };
    let mut overrides: Vec<String> = more.iter().map(|&o| o.to_owned()).collect();
    overrides.push(format!(
        "memory.nodes=[{}, {}]",
        node(0, 100.0),
        node(1, 180.0)
    ));
    overrides.push(format!("memory.manager={manager}"));
    overrides.push("memory.utilisation=0.0".to_owned());
    for key in ["fault", "zero_4k", "table_page", "probe"] {
        overrides.push(format!("cost.{key}_ns=0.0"));
    }
    MachineConfig::load("dpt-paper", &overrides)
}

fn interleave(weights: &str) -> String {
    format!("{{ name = \"bandwidth\", weights = \"{weights}\" }}")
}

pub const LINUX: &str = "{ name = \"linux\" }";

/// One load of each page.
fn touch(pages: u64) -> Cut {
    let mut events = vec![map(BASE, pages * PAGE)];
    events.extend((0..pages).map(|page| load(BASE + page * PAGE, 0, 0)));
    Cut::new(&events, 500)
}

fn resident_pages(result: &RunResult) -> Vec<u64> {
    let nodes = result.nodes.iter();
    nodes.map(|node| node.resident_bytes / PAGE).collect()
}

#[test]
fn interleaved_pages_are_where_the_weights_say() {
    for (weights, shares) in [
        ("1:1", [1, 1]),
        ("2:1", [2, 1]),
        ("3:1", [3, 1]),
        ("3:2", [3, 2]),
        ("2:3", [2, 3]),
        ("0:1", [0, 1]),
        ("1", [1, 0]),
    ] {
        let config = machine([64, 64], [10.0; 2], &interleave(weights), &[]);
        let rounds = 1000;
        let pages: u64 = rounds * shares.iter().sum::<u64>();
        // Translation is free: no page tables in memory.
        let result = run(&config, "ideal", &mut touch(pages));
        let expected = shares.map(|share| share * rounds);
        assert_eq!(resident_pages(&result), expected, "{weights}");
        // A line of each page was read from where the page is.
        let reads: Vec<u64> = result.nodes.iter().map(|node| node.reads).collect();
        assert_eq!(reads, expected, "{weights}");
        assert_eq!(result.dram.reads, pages);
    }
}

#[test]
fn linux_fills_the_near_node_first() {
    let config = machine([8, 16], [10.0; 2], LINUX, &[]);
    let pages = |pages| resident_pages(&run(&config, "ideal", &mut touch(pages)));
    assert_eq!(pages(2000), [2000, 0]);
    assert_eq!(pages(2048), [2048, 0]);
    assert_eq!(pages(5000), [2048, 2952]);
}

#[test]
fn a_node_that_is_full_leaves_pages_to_the_other() {
    let config = machine([16, 8], [10.0; 2], &interleave("1:3"), &[]);
    // Node 1 has its 2048 pages after 2731 turns at most; the other then gives all.
    let result = run(&config, "ideal", &mut touch(4000));
    assert_eq!(resident_pages(&result), [1952, 2048]);
    let result = run(&config, "ideal", &mut touch(7000));
    assert!(!result.complete);
    assert_eq!(resident_pages(&result), [4096, 2048]);
}

/// Cycles of a load that waits for the one before, each of a line of its own.
fn chain(weights: &str) -> f64 {
    let config = machine([64, 64], [50.0; 2], &interleave(weights), &[]);
    let cycles = |pages: u64| {
        let mut events: Vec<Event> = vec![map(BASE, pages * PAGE)];
        events.extend((0..pages).map(|page| load(BASE + page * PAGE + page % 64 * 64, 0, 1)));
        run(&config, "ideal", &mut Cut::new(&events, 500))
            .cycles
            .elapsed
    };
    (cycles(8000) - cycles(4000)) as f64 / 4000.0
}

#[test]
fn a_load_takes_the_latency_of_the_node_of_its_page() {
    let close = |got: f64, ns: f64| {
        let expected = 36.0 + ns * 2.66;
        assert!(
            (got / expected - 1.0).abs() < 0.01,
            "{got} cycles, expected {expected}"
        );
    };
    close(chain("1:0"), 100.0);
    close(chain("0:1"), 180.0);
    close(chain("3:1"), 120.0);
}

/// GB/s at which programs read that stream side by side, each over arrays of its own.
fn stream(config: &MachineConfig, copies: usize) -> (f64, RunResult) {
    let parameters = [("footprint", "6MiB"), ("iterations", "1"), ("windows", "0")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let stream = Workload::find("stream").unwrap();
    let mut programs: Vec<_> = (0..copies)
        .map(|_| stream.start(&parameters).unwrap())
        .collect();
    let mut sources: Vec<&mut dyn Source> = programs
        .iter_mut()
        .map(|program| program as &mut dyn Source)
        .collect();
    let result = simulate_programs(config, "ideal", &mut sources, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(result.complete);
    let seconds = result.cycles.elapsed as f64 / result.cycles.frequency_hz;
    ((result.dram.reads * 64) as f64 / seconds / 1e9, result)
}

/// The claim of FBMM's Figure 4: two memories together are as fast as the sum of both when the
/// pages are divided as the bandwidths are, and else as the one that is done last.
#[test]
fn stream_has_the_bandwidth_of_both_nodes() {
    let bandwidth = [3.0, 2.0];
    let small_caches = ["caches.llc.kib=512", "caches.l2.kib=64"];
    let of = |manager: &str| {
        let config = machine([256, 256], bandwidth, manager, &small_caches);
        let (got, result) = stream(&config, 8);
        // Node n has its share of one second's lines: it needs share / bandwidth for them.
        let shares = result.nodes.iter().map(|node| node.share);
        let slowest = shares.zip(bandwidth).map(|(share, of)| share / of);
        let bound = 1.0 / slowest.fold(0.0, f64::max);
        assert!(got <= bound * 1.001, "{manager}: {got}, bound {bound}");
        assert!(got > bound * 0.9, "{manager}: {got}, bound {bound}");
        got
    };
    let local = of(LINUX);
    assert!((local / 3.0 - 1.0).abs() < 0.05, "{local}");
    let both = of(&interleave("3:2"));
    assert!((both / 5.0 - 1.0).abs() < 0.1, "{both}");
    let even = of(&interleave("1:1"));
    assert!((even / 4.0 - 1.0).abs() < 0.1, "{even}");
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |config: &MachineConfig, design: &str| {
        let error = simulate(config, design, &mut touch(1), &mut |_| {
            ControlFlow::Continue(())
        });
        error.unwrap_err().to_string()
    };
    let two = |manager: &str| machine([64, 64], [10.0; 2], manager, &[]);
    let text = refused(&two(&interleave("1:2:3")), "radix");
    assert!(text.contains("memory.manager.weights"), "{text}");
    let text = refused(&two(&interleave("1:1")), "radix+mosaic");
    assert!(text.contains("memory.manager"), "{text}");
    let text = refused(&two(LINUX), "nested-radix");
    assert!(text.contains("memory.nodes"), "{text}");
    let text = loaded([64, 63], [10.0; 2], LINUX, &[])
        .unwrap_err()
        .to_string();
    assert!(text.contains("memory.nodes"), "{text}");
    let text = refused(&machine([64, 64], [10.0, 0.0], LINUX, &[]), "radix");
    assert!(text.contains("memory.nodes.gigabytes_per_second"), "{text}");
}
