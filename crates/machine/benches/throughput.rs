//! Accesses simulated a second of processor time, with full timing, on one core: fixed workloads
//! with each design, beside what `radix` does with the same.
//!
//! `cargo bench -p pagelab-machine --bench throughput -- [WORKLOAD] [DESIGN]` runs those whose
//! names have these words; a design is named in full. The initialisation of a workload (its page
//! faults) and its exit are not in the figure.

use pagelab_events::{Batch, Source, SourceError};
use pagelab_machine::{Design, MachineConfig, simulate};
use pagelab_workloads::Workload;
use std::ops::ControlFlow;
use std::time::Duration;

/// Name, workload, parameters.
type Case = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const CASES: &[Case] = &[
    (
        "random-updates, 10 GiB",
        "random-updates",
        &[("footprint", "10GiB"), ("updates", "5M")],
    ),
    (
        "random-updates, 1 MiB",
        "random-updates",
        &[("footprint", "1MiB"), ("updates", "15M")],
    ),
    (
        "random-updates, 16 KiB",
        "random-updates",
        &[("footprint", "16KiB"), ("updates", "15M")],
    ),
    (
        "pointer-chase, 400 MB",
        "pointer-chase",
        &[("pages", "100000"), ("loads", "10M")],
    ),
    (
        "kv, 4 GiB",
        "kv",
        &[("footprint", "4GiB"), ("operations", "150K")],
    ),
    (
        "stream, 96 MiB",
        "stream",
        &[("footprint", "96MiB"), ("iterations", "1")],
    ),
];

/// Times what comes out of a source apart from what is done with it.
struct Timed<S> {
    source: S,
    inside: Duration,
}

impl<S: Source> Source for Timed<S> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let start = cpu_time();
        let more = self.source.next_batch(batch);
        self.inside += cpu_time() - start;
        more
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    println!(
        "{:24} {:18} {:>12} {:>8} {:>12} {:>8} {:>10}",
        "workload", "design", "M access/s", "radix", "reads/access", "source", "host MiB"
    );
    for case in CASES {
        let mut of_radix = None;
        for design in Design::all() {
            let name = design.name();
            if !wanted.iter().all(|w| case.0.contains(w) || name == *w) {
                continue;
            }
            let Some(Measured {
                rate,
                reads,
                source,
            }) = measure(case, &name)
            else {
                println!("{:24} {name:18} ends early", case.0);
                continue;
            };
            if name == "radix" {
                of_radix = Some(rate);
            }
            let relative = of_radix.map(|radix| format!("{:.2}", rate / radix));
            println!(
                "{:24} {name:18} {rate:12.1} {:>8} {reads:12.2} {source:7.0}% {:10}",
                case.0,
                relative.unwrap_or_default(),
                peak_mib(),
            );
        }
    }
}

/// Time and figures of a run.
struct Measured {
    /// Million accesses a second.
    rate: f64,
    /// Reads of page walks for each access: each goes through the caches as the access does.
    reads: f64,
    /// Share of that time in the source, in percent.
    source: f64,
}

/// Runs a case; `None` where it does not run to its end.
fn measure((_, workload, parameters): &Case, design: &str) -> Option<Measured> {
    let overrides = [
        "memory.memory_bytes=34359738368".to_owned(),
        "memory.utilisation=0.2".to_owned(),
    ];
    let config = MachineConfig::load("dpt-paper", &overrides).expect("a preset is valid");
    // All of it, not windows.
    let parameters: Vec<(String, String)> = [&[("windows", "0")], *parameters]
        .concat()
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let workload = Workload::find(workload).expect("a built-in workload");
    let source = workload.start(&parameters).expect("valid parameters");
    let mut timed = Timed {
        source,
        inside: Duration::ZERO,
    };
    let (mut start, mut end) = (None, (Duration::ZERO, 0));
    let result = simulate(&config, design, &mut timed, &mut |progress| {
        let now = cpu_time();
        // The first batch is the initialisation, the last has the program's exit.
        start.get_or_insert(now);
        if progress.remaining != Some(0) {
            end = (now, progress.accesses);
        }
        ControlFlow::Continue(())
    })
    .expect("a built-in design");
    let (end, accesses) = end;
    let seconds = (end - start?).as_secs_f64();
    result.complete.then(|| Measured {
        rate: accesses as f64 / seconds / 1e6,
        reads: result.walks.reads as f64 / result.accesses as f64,
        source: 100.0 * timed.inside.as_secs_f64() / seconds,
    })
}

/// Time that this thread has run: other programs on the machine disturb it less than the clock.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
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
