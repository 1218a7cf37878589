//! The floor: what mmap and munmap cost by size, populated or not, and by number of threads
//! (Table 3 of Tabatabai et al., FBMM, ATC 2024, and the text below it).

use super::{Context, Failure, Part, no_options};
use crate::rounds::{Clock, estimate, timed_by};
use crate::stats::Estimate;
use crate::system::mapping::{Mapping, PAGE};
use crate::system::process;
use clap::ArgMatches;
use serde_json::{Value, json};
use std::sync::Barrier;

pub const PART: Part = Part {
    name: "syscalls",
    about: "Latency of mmap and munmap by size, populated or not, and by number of threads",
    in_all: true,
    options: no_options,
    run,
};

const PAGES: [usize; 5] = [1, 2, 8, 32, 128];
const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 32];

fn run(context: &mut Context, _: &ArgMatches) -> Result<Value, Failure> {
    context.say("mmap and munmap by size");
    let cases: Vec<(usize, bool)> = PAGES
        .iter()
        .flat_map(|&p| [(p, false), (p, true)])
        .collect();
    let rounds = if context.quick { 11 } else { 41 };
    let estimates = estimate(&cases, rounds, &mut context.rng, |(pages, populate)| {
        // About as much memory in each batch.
        let calls = if populate {
            (1024 / pages).clamp(16, 256)
        } else {
            256
        };
        batch(Clock::Cpu, pages, populate, calls)
    })?;
    let by_size: Vec<Value> = cases
        .iter()
        .zip(estimates)
        .map(|(&(pages, populate), [map, unmap])| {
            json!({ "pages": pages, "populate": populate, "mmap_ns": map, "munmap_ns": unmap })
        })
        .collect();
    context.say("mmap and munmap by number of threads");
    // Threads inherit the binding to one CPU: let them use all.
    process::unpin()?;
    let by_threads = by_threads(rounds);
    if let Some(cpu) = context.cpu {
        process::pin(cpu)?;
    }
    Ok(json!({ "by_size": by_size, "by_threads": by_threads?, "cpus": process::allowed_cpus() }))
}

/// Mean nanoseconds of one call each of mmap and munmap in a batch of `calls`.
fn batch(clock: Clock, pages: usize, populate: bool, calls: usize) -> Result<[f64; 2], Failure> {
    let mut flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    if populate {
        flags |= libc::MAP_POPULATE;
    }
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let mut mappings = Vec::with_capacity(calls);
    let (map, result) = timed_by(clock, || {
        (0..calls).try_for_each(|_| {
            mappings.push(Mapping::new(pages * PAGE, both, flags, None)?);
            Ok::<(), Failure>(())
        })
    });
    result?;
    let (unmap, ()) = timed_by(clock, || mappings.clear());
    Ok([map / calls as f64, unmap / calls as f64])
}

/// The time from one call's begin to the next's in each thread, for one-page mappings: with more
/// threads than CPUs it contains the turns of the others.
fn by_threads(rounds: usize) -> Result<Vec<Value>, Failure> {
    const CALLS: usize = 200;
    THREADS
        .iter()
        .map(|&threads| {
            let barrier = Barrier::new(threads);
            let samples: Result<Vec<[f64; 2]>, Failure> = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..threads)
                    .map(|_| {
                        scope.spawn(|| {
                            barrier.wait();
                            let batches = (0..rounds).map(|_| batch(Clock::Wall, 1, false, CALLS));
                            batches.collect::<Result<Vec<_>, _>>()
                        })
                    })
                    .collect();
                let mut all = Vec::new();
                for worker in workers {
                    let Ok(samples) = worker.join() else {
                        return Err(Failure::Lacking("a measuring thread panicked".into()));
                    };
                    all.extend(samples?);
                }
                Ok(all)
            });
            let samples = samples?;
            let column = |i: usize| samples.iter().map(|s| s[i]).collect::<Vec<f64>>();
            Ok(json!({
                "threads": threads,
                "mmap_ns": Estimate::of(&column(0)),
                "munmap_ns": Estimate::of(&column(1)),
            }))
        })
        .collect()
}
