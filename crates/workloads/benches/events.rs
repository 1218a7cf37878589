//! Accesses that each workload issues a second of processor time, at its default footprint.
//!
//! `cargo bench -p pagelab-workloads --bench events -- [WORKLOAD...]`. Two figures: with an event
//! for each access, and between windows, where accesses are only counted.

use pagelab_events::{Batch, Control};
use pagelab_workloads::{ALL, Workload};
use std::time::Duration;

/// Accesses with an event each.
const EVENTS: u64 = 100_000_000;

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    println!(
        "{:16} {:>9} {:>15} {:>15} {:>10}",
        "workload", "data s", "events M/s", "between M/s", "host MiB"
    );
    for workload in ALL {
        if wanted.is_empty() || wanted.iter().any(|name| name == workload.name) {
            measure(workload);
        }
    }
}

fn measure(workload: &Workload) {
    // Two windows of one access each: all of what lies between them is only counted.
    let sampling = [
        ("windows", "2"),
        ("warm_up", "0"),
        ("measured", "1"),
        ("region", "1G"),
    ];
    let parameters = sampling.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let start = cpu_time();
    let mut source = workload.start(&parameters).expect("valid parameters");
    let built = cpu_time() - start;
    let start = cpu_time();
    let mut batch = Batch::default();
    let mut counted = 0;
    while source.next_batch(&mut batch).expect("programs do not fail") {
        for (_, control) in &batch.controls {
            if let Control::Skipped { accesses, .. } = control {
                counted += accesses;
            }
        }
    }
    let between = rate(counted, cpu_time() - start);
    drop(source);
    let whole = [("windows".to_owned(), "0".to_owned())];
    let mut source = workload.start(&whole).expect("valid parameters");
    let start = cpu_time();
    let mut made = 0;
    while made < EVENTS && source.next_batch(&mut batch).expect("programs do not fail") {
        made += batch.len() as u64;
    }
    println!(
        "{:16} {:9.1} {:15.1} {between:15.1} {:10}",
        workload.name,
        built.as_secs_f64(),
        rate(made, cpu_time() - start),
        peak_mib()
    );
}

fn rate(accesses: u64, time: Duration) -> f64 {
    accesses as f64 / time.as_secs_f64() / 1e6
}

/// Time that all threads have run: other programs on the machine disturb it less than the clock.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The largest resident set of this process so far, in MiB (proc(5), VmHWM).
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib / 1024)
}
