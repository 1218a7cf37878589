//! Noise of the machine. Estimated first: it decides what can be concluded at all.

use crate::stats::{median, quantile};
use crate::system::process;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Disturbances of a measurement here.
#[derive(Clone, Debug, Serialize)]
pub struct Noise {
    /// Nanoseconds one reading of the clock takes.
    pub clock_ns: f64,
    /// Spread of a fixed piece of work, (95th percentile - median) / median.
    pub spread: f64,
    /// Drift of its median from the first third of the run to the last, relative.
    pub drift: f64,
    /// Share of the time in which this thread did not run: interrupts, other threads, the
    /// hypervisor. From gaps of over a microsecond in a loop that only reads the clock.
    pub lost: f64,
    /// Involuntary and voluntary switches a second during the estimate.
    pub switches: f64,
    /// `quiet`, `noisy` or `very noisy`.
    pub verdict: &'static str,
}

/// Watches the machine for about `duration`.
pub fn estimate(duration: Duration) -> Noise {
    let clock_ns = clock_cost();
    let switches = process::thread_usage().switches;
    let begin = Instant::now();
    let mut works = Vec::new();
    while begin.elapsed() < duration / 2 {
        works.push(fixed_work());
    }
    let lost = lost_share(duration / 2);
    let seconds = begin.elapsed().as_secs_f64();
    let switches = (process::thread_usage().switches - switches) as f64 / seconds;
    let middle = median(&works).unwrap_or(f64::NAN);
    let spread = quantile(&works, 0.95).unwrap_or(f64::NAN) / middle - 1.0;
    let third = works.len() / 3;
    let first = median(&works[..third]).unwrap_or(middle);
    let drift = median(&works[works.len() - third..]).unwrap_or(middle) / first - 1.0;
    let verdict = if spread < 0.03 && drift.abs() < 0.02 && lost < 0.01 {
        "quiet"
    } else if spread < 0.3 && lost < 0.2 {
        "noisy"
    } else {
        "very noisy"
    };
    Noise {
        clock_ns,
        spread,
        drift,
        lost,
        switches,
        verdict,
    }
}

fn clock_cost() -> f64 {
    const READINGS: u32 = 10_000;
    let start = Instant::now();
    for _ in 0..READINGS {
        std::hint::black_box(Instant::now());
    }
    start.elapsed().as_nanos() as f64 / f64::from(READINGS)
}

/// Nanoseconds for a chain of multiplications that touches no memory: about 50 microseconds.
fn fixed_work() -> f64 {
    const STEPS: u32 = 40_000;
    let start = Instant::now();
    let mut value = 1u64;
    for _ in 0..STEPS {
        value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005));
    }
    start.elapsed().as_nanos() as f64
}

fn lost_share(duration: Duration) -> f64 {
    let begin = Instant::now();
    let mut last = begin;
    let mut lost = Duration::ZERO;
    loop {
        let now = Instant::now();
        let gap = now - last;
        if gap > Duration::from_micros(1) {
            lost += gap;
        }
        last = now;
        if now - begin > duration {
            return lost.as_secs_f64() / (now - begin).as_secs_f64();
        }
    }
}
