//! Reads of memory that take different times.

use crate::error::BuildError;
use pagelab_memory::SIXTEENTHS;

/// Times of the sixteenths of the reads, in slots, from the core to the data and back.
///
/// A core retires in order, so that a read which takes long holds up what came after it and was
/// sooner: with latencies that differ, as many reads under way take longer than with the mean of
/// these. What makes them differ (who else reads, refresh, the order of requests) is not modelled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread([u32; SIXTEENTHS]);

impl Spread {
    /// Latencies in proportion to `shape` and with a mean of `mean`, each after `last_level`.
    pub(crate) fn new(
        shape: &[f64; SIXTEENTHS],
        mean: f64,
        last_level: u64,
    ) -> Result<Self, BuildError> {
        let usual = |of: &f64| (0.0..1e9).contains(of);
        if !shape.iter().all(usual) || shape.iter().sum::<f64>() <= 0.0 {
            return Err(BuildError::Value {
                key: "dram.spread",
                value: format!("{shape:?}"),
                expected: "sixteen times from 0 to 10^9, not all of them 0",
            });
        }
        let scale = mean / Self::mean(shape);
        Ok(Spread(shape.map(|of| {
            (last_level + (of * scale).round() as u64).min(u32::MAX.into()) as u32
        })))
    }

    fn mean(shape: &[f64; SIXTEENTHS]) -> f64 {
        shape.iter().sum::<f64>() / SIXTEENTHS as f64
    }

    /// Time to read a line in a stretch of a program: one of the sixteen by chance, and the same
    /// whenever that is asked.
    #[inline]
    pub(crate) fn of(&self, line: u32, stretch: u32) -> u64 {
        let hash = mixed(line ^ stretch.wrapping_mul(0x9e37_79b9));
        self.0[(hash >> 28) as usize].into()
    }
}

/// Every bit of a number in every bit of another (the end of Appleby's MurmurHash3).
#[inline]
fn mixed(mut number: u32) -> u32 {
    number = (number ^ (number >> 16)).wrapping_mul(0x85eb_ca6b);
    number = (number ^ (number >> 13)).wrapping_mul(0xc2b2_ae35);
    number ^ (number >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: [f64; SIXTEENTHS] = [
        6.0, 7.0, 7.0, 7.0, 7.0, 8.0, 8.0, 8.0, 9.0, 9.0, 10.0, 11.0, 12.0, 14.0, 19.0, 28.0,
    ];

    /// Lines in order, of every second set, and of one row of each bank: the mean is the machine's, and so
    /// is how often neighbours both take long.
    #[test]
    fn chance_has_no_pattern() {
        let spread = Spread::new(&SHAPE, 1000.0, 500).unwrap();
        let slow = spread.0[14].into();
        for (step, stretch) in [(1, 0), (2, 7), (64, 1), (4096, 2), (1, 1 << 20)] {
            let of: Vec<u64> = (0..65_536)
                .map(|at| spread.of(at * step, stretch))
                .collect();
            let mean = of.iter().sum::<u64>() as f64 / of.len() as f64;
            assert!((mean - 1500.0).abs() < 10.0, "{mean} by {step}");
            let both = of.windows(2).filter(|of| of[0] >= slow && of[1] >= slow);
            let share = both.count() as f64 / of.len() as f64;
            assert!((share - 1.0 / 64.0).abs() < 0.003, "{share} by {step}");
        }
    }
}
