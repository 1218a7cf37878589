//! Cost of simulating in pieces, and the schedule that follows from it.
//!
//! Simulates programs and traces whole and in pieces, by one worker, and prints how far apart the
//! results are, the processor time of each part of the work, and when so many workers would be
//! through with it. `cargo bench -p pagelab-machine --bench pieces -- NAME:KEY=VALUE,... FILE ...`

use pagelab_events::{Batch, Divisible, DivisibleTrace, Source, SourceError};
use pagelab_machine::{MachineConfig, RunResult, simulate, simulate_in_pieces};
use pagelab_workloads::Workload;
use rustix::time::{ClockId, clock_gettime};
use std::ops::ControlFlow;
use std::sync::Mutex;

/// Processor time in seconds, of this thread or of the process.
fn cpu(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// A stream that notes how much time a thread spends from opening a part to closing it.
struct Timed<'a> {
    stream: &'a dyn Divisible,
    tasks: Mutex<Vec<f64>>,
}

struct Task<'a> {
    source: Option<Box<dyn Source + Send + 'a>>,
    begun: f64,
    tasks: &'a Mutex<Vec<f64>>,
}

impl Source for Task<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let source = self.source.as_mut();
        source.map_or(Ok(false), |source| source.next_batch(batch))
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        self.source = None;
        let spent = cpu(ClockId::ThreadCPUTime) - self.begun;
        self.tasks.lock().unwrap().push(spent);
    }
}

impl Divisible for Timed<'_> {
    fn accesses(&self) -> u64 {
        self.stream.accesses()
    }

    fn interval(
        &self,
        from: u64,
        to: Option<u64>,
    ) -> Result<Box<dyn Source + Send + '_>, SourceError> {
        Ok(Box::new(Task {
            begun: cpu(ClockId::ThreadCPUTime),
            source: Some(self.stream.interval(from, to)?),
            tasks: &self.tasks,
        }))
    }
}

/// When the last of so many workers is through, if each takes the next task when it is free.
fn schedule(tasks: &[f64], workers: usize) -> f64 {
    let mut free = vec![0.0; workers];
    for task in tasks {
        let next = free.iter_mut().min_by(|a, b| f64::total_cmp(a, b)).unwrap();
        *next += task;
    }
    free.into_iter().fold(0.0, f64::max)
}

fn opened(name: &str) -> (Box<dyn Divisible>, bool) {
    let (program, parameters) = name.split_once(':').unwrap_or((name, ""));
    let Some(workload) = Workload::find(program) else {
        return (
            Box::new(DivisibleTrace::open(name).unwrap().unwrap()),
            false,
        );
    };
    let pairs = parameters.split(',').filter_map(|p| p.split_once('='));
    let mut given: Vec<_> = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    given.push(("windows".to_owned(), "0".to_owned()));
    (workload.divide(&given).unwrap().unwrap(), true)
}

fn off(cut: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * (cut as f64 / whole as f64 - 1.0)
    }
}

fn show(name: &str, whole: &RunResult, cut: &RunResult) {
    let pieces = cut.pieces.as_ref().unwrap();
    let misses = |run: &RunResult| {
        let level = |of: fn(&pagelab_machine::ServedBy) -> u64| {
            of(&run.caches.data) + of(&run.walks.served_by)
        };
        [
            run.tlb.l1_misses,
            run.tlb.l2_misses,
            level(|s| s.l2 + s.llc + s.dram),
            level(|s| s.llc + s.dram),
            level(|s| s.dram),
        ]
    };
    let warm = pieces.warm_up.iter().sum::<u64>() + pieces.timed * (pieces.count - 1);
    println!(
        "{name}: {} accesses, {} pieces, warm-up {:.1} %; cycles {:+.4} % (bound {:.4} %)",
        whole.accesses,
        pieces.count,
        100.0 * warm as f64 / whole.accesses as f64,
        off(cut.cycles.total, whole.cycles.total),
        100.0
            * pieces
                .bound
                .map_or(f64::NAN, |b| b.cycles as f64 / cut.cycles.total as f64),
    );
    let each = misses(cut).into_iter().zip(misses(whole));
    let each: Vec<_> = each
        .map(|(cut, whole)| format!("{:+.3} % of {whole}", off(cut, whole)))
        .collect();
    println!("  misses, TLB and caches: {}", each.join(", "));
}

fn main() {
    let config = MachineConfig::load("dpt-paper", &["free_clock=false".to_owned()]).unwrap();
    let names: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    for name in &names {
        let (stream, generated) = opened(name);
        let go_on = &mut |_: pagelab_machine::Progress| ControlFlow::Continue(());
        let process = || cpu(ClockId::ProcessCPUTime);
        let start = process();
        let mut source = stream.interval(0, None).unwrap();
        let whole = simulate(&config, "radix", &mut source, go_on).unwrap();
        drop(source);
        let one = process() - start;
        let timed = Timed {
            stream: &*stream,
            tasks: Mutex::default(),
        };
        let start = process();
        let cut = simulate_in_pieces(&config, "radix", &timed, 1, None, go_on).unwrap();
        let all = process() - start;
        show(name, &whole, &cut);
        let count = cut.pieces.as_ref().unwrap().count as usize;
        let tasks = timed.tasks.into_inner().unwrap();
        let (survey, pieces) = tasks.split_at(tasks.len() - count);
        // A built-in program runs once more for each worker, up to the parts that are wanted.
        let skip = if generated {
            let start = process();
            drop(stream.interval(stream.accesses(), None).map(|mut source| {
                while source.next_batch(&mut Batch::default()).unwrap_or(false) {}
            }));
            process() - start
        } else {
            0.0
        };
        let counted: f64 = tasks.iter().sum();
        // The program's own threads and putting together, less what was run twice over.
        let rest = (all - counted - 2.0 * skip).max(0.0);
        println!(
            "  processor seconds: one piece {one:.2}; in pieces {all:.2}: look {:.2}, pieces {:.2}, a \
             program's threads, memory and joining {rest:.2}, running ahead {skip:.2} a worker",
            survey.iter().sum::<f64>(),
            pieces.iter().sum::<f64>(),
        );
        // The rest in proportion, as if a program's threads shared its worker's processor.
        let share = 1.0 + rest / counted;
        let line: Vec<_> = [1, 2, 4, 8, 16, 32, 64]
            .into_iter()
            .map(|workers| {
                let ahead = if workers > 1 { 2.0 * skip } else { skip };
                let time = share * (schedule(survey, workers) + schedule(pieces, workers)) + ahead;
                format!("{workers}: {:.2}", one / time)
            })
            .collect();
        println!("  times as fast with workers {}", line.join(", "));
    }
}
