//! Repeated measurements of several cases, in an order drawn anew for each round.

use crate::stats::Estimate;
use crate::system::process;
use fastrand::Rng;
use std::time::Instant;

/// Kind of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Time this thread ran, in user and kernel mode. What other threads on the CPU take is not
    /// in it; what a hypervisor takes is.
    Cpu,
    /// Time that passed: for work that waits for others.
    Wall,
}

/// Nanoseconds of CPU time that `work` takes, and what it returns.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    timed_by(Clock::Cpu, work)
}

/// Nanoseconds that `work` takes, and what it returns.
pub fn timed_by<T>(clock: Clock, work: impl FnOnce() -> T) -> (f64, T) {
    match clock {
        Clock::Cpu => {
            let start = cpu_time();
            let result = work();
            (cpu_time() - start, result)
        }
        Clock::Wall => {
            let start = Instant::now();
            let result = work();
            (start.elapsed().as_nanos() as f64, result)
        }
    }
}

/// Times a stretch of work by the clock, and by the CPU time of this thread if another one ran on the
/// CPU meanwhile: the first is cheaper to read, the second is right on a busy machine, too.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    wall: Instant,
    cpu: f64,
    switches: u64,
}

impl Stopwatch {
    /// Begins now.
    pub fn start() -> Stopwatch {
        let switches = process::thread_usage().switches;
        let cpu = cpu_time();
        Stopwatch {
            wall: Instant::now(),
            cpu,
            switches,
        }
    }

    /// Nanoseconds since then, and whether another thread ran meanwhile, which leaves its own lines
    /// and translations behind.
    pub fn stop(self) -> (f64, bool) {
        let wall = self.wall.elapsed().as_nanos() as f64;
        let cpu = cpu_time() - self.cpu;
        let disturbed = process::thread_usage().switches != self.switches;
        (if disturbed { cpu } else { wall }, disturbed)
    }
}

fn cpu_time() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid place for the result; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Runs every case once to warm up and then `rounds` times; medians with intervals, by case.
/// `sample` returns several figures at once, each of which is estimated on its own.
///
/// # Errors
/// The first of `sample`, which ends the measurement.
pub fn estimate<C: Copy, const N: usize, E>(
    cases: &[C],
    rounds: usize,
    rng: &mut Rng,
    mut sample: impl FnMut(C) -> Result<[f64; N], E>,
) -> Result<Vec<[Option<Estimate>; N]>, E> {
    let mut samples = vec![[const { Vec::new() }; N]; cases.len()];
    let mut order: Vec<usize> = (0..cases.len()).collect();
    for round in 0..=rounds {
        rng.shuffle(&mut order);
        for &i in &order {
            let figures = sample(cases[i])?;
            if round > 0 {
                for (column, figure) in samples[i].iter_mut().zip(figures) {
                    column.push(figure);
                }
            }
        }
    }
    let estimates = samples.iter();
    Ok(estimates
        .map(|columns| std::array::from_fn(|i| Estimate::of(&columns[i])))
        .collect())
}
