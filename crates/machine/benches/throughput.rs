//! Accesses simulated a second of processor time, for fixed workloads, with full timing, on one core.
//!
//! `cargo bench -p pagelab-machine --bench throughput -- [WORKLOAD] [DESIGN]` runs one of them.
//! The initialisation of a workload (its page faults) is not in the figure.

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
        &[("footprint", "10GiB"), ("updates", "20M")],
    ),
    (
        "random-updates, 33 GiB",
        "random-updates",
        &[("footprint", "33GiB"), ("updates", "20M")],
    ),
    (
        "random-updates, 16 KiB",
        "random-updates",
        &[("footprint", "16KiB"), ("updates", "60M")],
    ),
    (
        "random-updates, 1 MiB",
        "random-updates",
        &[("footprint", "1MiB"), ("updates", "60M")],
    ),
    (
        "pointer-chase, 400 MB",
        "pointer-chase",
        &[("pages", "100000"), ("loads", "20M")],
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
        "{:24} {:8} {:>12} {:>12} {:>10}",
        "workload", "design", "M access/s", "source", "host MiB"
    );
    for (case, workload, parameters) in CASES {
        for design in Design::all() {
            if !wanted
                .iter()
                .all(|w| case.contains(w) || design.name() == **w)
            {
                continue;
            }
            let overrides = [
                "memory.memory_bytes=68719476736".to_owned(),
                "memory.utilisation=0.2".to_owned(),
            ];
            let config = MachineConfig::load("dpt-paper", &overrides).expect("a preset is valid");
            let parameters: Vec<(String, String)> = parameters
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect();
            let workload = Workload::find(workload).expect("a built-in workload");
            let source = workload.start(&parameters).expect("valid parameters");
            let mut timed = Timed {
                source,
                inside: Duration::ZERO,
            };
            let pages = timed.source.remaining().unwrap_or(0);
            let mut start = None;
            let result = simulate(&config, &design.name(), &mut timed, &mut |progress| {
                // After initialisation: one access a page, so that many are left.
                let initialised = progress.accesses * 2 > pages.saturating_sub(40_000_000);
                if start.is_none() && initialised {
                    start = Some((cpu_time(), progress.accesses));
                }
                ControlFlow::Continue(())
            })
            .expect("a built-in design");
            assert!(result.complete, "{:?}", result.stopped);
            let (start, before) = start.expect("a run makes progress");
            let seconds = (cpu_time() - start).as_secs_f64();
            println!(
                "{case:24} {:8} {:12.1} {:11.0}% {:10}",
                design.name(),
                (result.accesses - before) as f64 / seconds / 1e6,
                100.0 * timed.inside.as_secs_f64() / seconds,
                peak_mib(),
            );
        }
    }
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
