//! Medians and their uncertainty.

use fastrand::Rng;
use serde::Serialize;

/// Median; the mean of the middle two for an even count. `None` for no data.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Quantile by linear interpolation between order statistics (type 7 of Hyndman and Fan 1996).
/// Not-a-numbers are left out. `None` for no data.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let below = sorted[at.floor() as usize];
    let above = sorted[at.ceil() as usize];
    Some(below + (above - below) * at.fract())
}

/// Standard deviation estimated from the median absolute deviation, which half of the data may
/// corrupt without moving it far. The factor makes it consistent for normal errors.
pub fn robust_deviation(values: &[f64]) -> Option<f64> {
    const NORMAL: f64 = 1.4826;
    let middle = median(values)?;
    let distances: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    Some(median(&distances)? * NORMAL)
}

/// Standard error of a median of `values`, for errors that are normal but for outliers.
pub fn median_error(values: &[f64]) -> Option<f64> {
    // sqrt(pi / 2): the median is that much less efficient than the mean.
    const EFFICIENCY: f64 = 1.2533;
    Some(robust_deviation(values)? * EFFICIENCY / (values.len() as f64).sqrt())
}

/// A median with a confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Median of the samples.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of samples.
    pub samples: usize,
}

impl Estimate {
    /// Median of `samples` with the 95 % interval between two order statistics, which assumes
    /// nothing about the distribution (David and Nagaraja, Order Statistics, 7.1). Below six
    /// samples no such pair covers 95 %; the interval is then the range of the samples.
    pub fn of(samples: &[f64]) -> Option<Estimate> {
        let mut sorted: Vec<f64> = samples.iter().copied().filter(|v| !v.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let rank = lower_rank(count);
        Some(Estimate {
            median: median(&sorted)?,
            low: sorted[rank],
            high: sorted[count - 1 - rank],
            samples: count,
        })
    }

    /// The same in another unit.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Estimate {
        Estimate {
            median: self.median * factor,
            low: self.low * factor,
            high: self.high * factor,
            samples: self.samples,
        }
    }
}

/// The largest `r` such that order statistics `r` and `count - 1 - r` (from 0) enclose the
/// median with a probability of at least 95 %: the binomial tail below it is at most 2.5 %.
fn lower_rank(count: usize) -> usize {
    let mut probability = 0.5f64.powi(count as i32);
    let mut tail = 0.0;
    for rank in 0..count / 2 {
        tail += probability;
        if tail > 0.025 {
            return rank.saturating_sub(1);
        }
        probability *= (count - rank) as f64 / (rank + 1) as f64;
    }
    (count / 2).saturating_sub(1)
}

/// `count` draws with replacement from `0..count`: one bootstrap resample.
pub fn resample(count: usize, rng: &mut Rng) -> Vec<usize> {
    (0..count).map(|_| rng.usize(0..count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_and_ignore_what_is_not_a_number() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, f64::NAN, 2.0, 3.0]), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.25), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    /// Ranks from the table of distribution-free intervals for the median in Conover,
    /// Practical Nonparametric Statistics (95 %, counted from 0 here).
    #[test]
    fn interval_ranks_match_the_published_table() {
        for (count, rank) in [(6, 0), (9, 1), (12, 2), (15, 3), (20, 5), (25, 7)] {
            assert_eq!(lower_rank(count), rank, "{count} samples");
        }
    }

    #[test]
    fn intervals_cover_the_median_as_often_as_they_promise() {
        let mut rng = Rng::with_seed(1);
        let covered = (0..2000)
            .filter(|_| {
                // Skewed and one-sided, as interference is: the true median is ln 2.
                let samples: Vec<f64> = (0..15).map(|_| -(1.0 - rng.f64()).ln()).collect();
                Estimate::of(&samples).is_some_and(|e| e.low <= 2f64.ln() && 2f64.ln() <= e.high)
            })
            .count();
        assert!(covered > 1880, "{covered} of 2000");
    }
}
