use crate::stats::{Estimate, median, median_error};
use serde::Serialize;

/// Repeated measurements of one curve: every round visits every point once.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Abscissae, ascending: how many pages or lines the chain visits.
    pub x: Vec<u64>,
    /// `rounds[r][i]`: nanoseconds a load at `x[i]` in round `r`; not a number if it was lost.
    pub rounds: Vec<Vec<f64>>,
}

/// A curve as it goes into the result: medians with 95 % intervals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Abscissae.
    pub x: Vec<u64>,
    /// Median latency, ns; null where every round was lost.
    pub ns: Vec<f64>,
    /// Lower end of its interval.
    pub low: Vec<f64>,
    /// Upper end of its interval.
    pub high: Vec<f64>,
}

/// Summary of the rounds of one point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub x: u64,
    /// Natural logarithm of the median latency.
    pub log: f64,
    /// Standard error of `log`.
    pub error: f64,
}

impl Curve {
    /// Median latency of each point over the rounds; not a number where every round was lost.
    pub fn medians(&self) -> Vec<f64> {
        (0..self.x.len())
            .map(|i| {
                let column: Vec<f64> = self.rounds.iter().map(|round| round[i]).collect();
                median(&column).unwrap_or(f64::NAN)
            })
            .collect()
    }

    /// Medians and intervals for the result.
    pub fn summary(&self) -> Summary {
        let estimates: Vec<Option<Estimate>> = (0..self.x.len())
            .map(|i| {
                let column: Vec<f64> = self.rounds.iter().map(|round| round[i]).collect();
                Estimate::of(&column)
            })
            .collect();
        let part = |f: fn(Estimate) -> f64| {
            let values = estimates.iter().map(|e| e.map_or(f64::NAN, f));
            values.collect()
        };
        Summary {
            x: self.x.clone(),
            ns: part(|e| e.median),
            low: part(|e| e.low),
            high: part(|e| e.high),
        }
    }

    /// The same curve seen through a resample of its rounds.
    pub fn resampled(&self, rounds: &[usize]) -> Curve {
        Curve {
            x: self.x.clone(),
            rounds: rounds.iter().map(|&r| self.rounds[r].clone()).collect(),
        }
    }

    /// Logarithmic medians, after taking out of each round what moved the whole of it.
    ///
    /// The clock frequency, or a neighbour on the machine, multiplies all of a round by the same
    /// factor. In logarithms that is a sum, `point + round + error`, and Tukey's median polish
    /// separates the terms; a point that one round got wrong does not move the others.
    pub(super) fn points(&self) -> Vec<Point> {
        const SWEEPS: usize = 3;
        let logs: Vec<Vec<f64>> = self
            .rounds
            .iter()
            .map(|round| round.iter().map(|v| v.ln()).collect())
            .collect();
        let mut shift = vec![0.0; logs.len()];
        let mut level = vec![f64::NAN; self.x.len()];
        for _ in 0..SWEEPS {
            for (i, level) in level.iter_mut().enumerate() {
                let column: Vec<f64> = logs.iter().zip(&shift).map(|(l, s)| l[i] - s).collect();
                *level = median(&column).unwrap_or(f64::NAN);
            }
            for (round, shift) in logs.iter().zip(&mut shift) {
                let rest: Vec<f64> = round.iter().zip(&level).map(|(l, p)| l - p).collect();
                *shift = median(&rest).unwrap_or(0.0);
            }
            // Only differences between rounds count: keep the level in the points.
            let middle = median(&shift).unwrap_or(0.0);
            shift.iter_mut().for_each(|s| *s -= middle);
        }
        self.x
            .iter()
            .zip(level)
            .enumerate()
            .filter(|(_, (_, log))| log.is_finite())
            .map(|(i, (&x, log))| {
                let column: Vec<f64> = logs
                    .iter()
                    .zip(&shift)
                    .map(|(l, s)| l[i] - s)
                    .filter(|v| v.is_finite())
                    .collect();
                let error = median_error(&column).unwrap_or(0.0);
                Point { x, log, error }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_round_and_a_wrong_point_leave_the_levels_alone() {
        let truth = [1.0, 1.0, 4.0, 4.0];
        let rounds = (0..7)
            .map(|r| {
                let factor = if r < 3 { 1.6 } else { 1.0 };
                truth.map(|t| t * factor).to_vec()
            })
            .collect();
        let mut curve = Curve {
            x: vec![1, 2, 3, 4],
            rounds,
        };
        curve.rounds[5][1] = 900.0;
        curve.rounds[6][0] = f64::NAN;
        for (point, truth) in curve.points().iter().zip(truth) {
            assert!((point.log - truth.ln()).abs() < 1e-9, "{point:?}");
            assert!(point.error < 1e-9);
        }
    }
}
