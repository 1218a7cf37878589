//! Cost of a mispredicted branch.
//!
//! A loop branches on the bits of random words, which no predictor foresees half of the time, and on
//! the bits of a pattern, which every predictor does. The bits are in a register, so that nothing but
//! the branch itself is waited for.

use super::{Context, Failure, Part, no_options};
use crate::rounds::{Stopwatch, estimate};
use crate::stats::Estimate;
use clap::ArgMatches;
use serde_json::{Value, json};

pub const PART: Part = Part {
    name: "branches",
    about: "What a mispredicted branch costs",
    in_all: true,
    options: no_options,
    run,
};

/// Words branched on: more than any predictor learns by heart, few enough for the first cache level.
const WORDS: usize = 2048;
/// Mispredicted share of the branches on random bits.
const MISPREDICTED: f64 = 0.5;

fn run(context: &mut Context, _: &ArgMatches) -> Result<Value, Failure> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Failure::Lacking("not written for this processor".into()));
    }
    let rounds = if context.quick { 21 } else { 101 };
    let mut rng = context.rng.fork();
    let mut of_bits = context.rng.fork();
    let samples = estimate(&[()], rounds, &mut rng, |()| {
        let random: Vec<u64> = (0..WORDS).map(|_| of_bits.u64(..)).collect();
        // As often taken as not, like random bits.
        let pattern = vec![0xaaaa_aaaa_aaaa_aaaa; WORDS];
        let [random, foreseen] = [random, pattern].map(|words| {
            let watch = Stopwatch::start();
            std::hint::black_box(branch_on(&words));
            watch.stop().0
        });
        let branches = (WORDS * 64) as f64;
        let cost = (random - foreseen) / branches / MISPREDICTED;
        Ok::<_, Failure>([cost, foreseen / branches])
    })?;
    let [misprediction, foreseen]: [Option<Estimate>; 2] = samples[0];
    Ok(json!({
        "misprediction_ns": misprediction,
        "foreseen_ns": foreseen,
    }))
}

/// Counts the bits of words that are set, with a branch for each bit.
#[cfg(target_arch = "x86_64")]
fn branch_on(words: &[u64]) -> u64 {
    let mut count = 0u64;
    for &word in words {
        // SAFETY: shifts and counts in registers of its own, touches nothing else.
        unsafe {
            std::arch::asm!(
                "mov {left:e}, 64",
                "2:",
                "shr {word}",
                "jnc 3f",
                "lea {count}, [{count} + 1]",
                "3:",
                "dec {left:e}",
                "jnz 2b",
                word = inout(reg) word => _,
                count = inout(reg) count,
                left = out(reg) _,
                options(nomem, nostack, pure)
            );
        }
    }
    count
}

#[cfg(not(target_arch = "x86_64"))]
fn branch_on(_: &[u64]) -> u64 {
    0
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::branch_on;

    #[test]
    fn set_bits_are_counted() {
        assert_eq!(branch_on(&[0, 1, u64::MAX, 1 << 63]), 66);
    }
}
