use super::Curve;
use crate::stats::resample;
use fastrand::Rng;
use serde::Serialize;

/// Point at which a curve leaves a level that is known from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Crossing {
    /// Largest abscissa before the curve first crosses.
    pub last_below: u64,
    /// Share of the bootstrap resamples that cross at the same place.
    pub confidence: f64,
}

/// Point at which the medians of a curve first exceed the geometric mean of the levels `low` and
/// `high`; `None` if they never do, or do from the beginning.
///
/// For conflict curves (places that all fall into one set), whose steps are sharp but may be too
/// close together for plateaus to be seen between them.
pub fn crossing(
    curve: &Curve,
    low: f64,
    high: f64,
    resamples: usize,
    rng: &mut Rng,
) -> Option<Crossing> {
    let threshold = (low * high).sqrt();
    let find = |curve: &Curve| {
        let first_above = curve.medians().iter().position(|&m| m > threshold)?;
        Some(curve.x[first_above.checked_sub(1)?])
    };
    let last_below = find(curve)?;
    let same = (0..resamples)
        .filter(|_| {
            let resampled = curve.resampled(&resample(curve.rounds.len(), rng));
            find(&resampled) == Some(last_below)
        })
        .count();
    Some(Crossing {
        last_below,
        confidence: same as f64 / resamples.max(1) as f64,
    })
}
