use super::curve::Summary;
use super::fit::contradicts;
use super::{Curve, Plateau, Shape, StepFit, fit_step, plateaus};
use crate::stats::resample;
use fastrand::Rng;
use serde::Serialize;

/// Amount of measuring.
#[derive(Clone, Debug)]
pub struct Options {
    /// Smallest number of places.
    pub first: u64,
    /// Largest number of places.
    pub last: u64,
    /// Points an octave of the first, geometric sweep.
    pub per_octave: u32,
    /// Rounds of each sweep.
    pub rounds: usize,
    /// Points of each dense sweep over the region of a step.
    pub dense_points: u64,
    /// Dense sweeps a step, each closer to the onset than the last. Steps beyond `dense_limit`
    /// get only one.
    pub dense_sweeps: usize,
    /// Number of places above which dense sweeps take too long to repeat.
    pub dense_limit: u64,
    /// Bootstrap resamples.
    pub resamples: usize,
}

impl Options {
    /// Enough for a quiet machine.
    pub fn new(first: u64, last: u64) -> Self {
        Options {
            first,
            last,
            per_octave: 8,
            rounds: 9,
            dense_points: 40,
            dense_sweeps: 3,
            dense_limit: 1 << 16,
            resamples: 100,
        }
    }
}

/// One step of a curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Last point of the geometric sweep that is still on the lower plateau.
    pub before: u64,
    /// First point of the geometric sweep that is on the upper plateau.
    pub after: u64,
    /// Latency of the lower plateau, ns.
    pub low: f64,
    /// Latency of the upper plateau, ns.
    pub high: f64,
    /// Share of the bootstrap resamples of the sweep that show a step here.
    pub confidence: f64,
    /// The capacity and its interval, where the dense sweeps gave one.
    pub fit: Option<StepFit>,
    /// The dense sweep that was fitted.
    pub dense: Option<Summary>,
    /// The number in the interval of the capacity that the largest power of two divides.
    /// Hardware has a power-of-two number of sets and few ways, so of several capacities that
    /// the data allow this one is the most plausible.
    pub nominal: Option<u64>,
    /// Reason for which no capacity is concluded, where none is.
    pub no_conclusion: Option<String>,
}

/// A measured curve and what was found in it.
#[derive(Clone, Debug)]
pub struct Steps {
    /// The geometric sweep.
    pub curve: Curve,
    /// Its plateaus.
    pub plateaus: Vec<Plateau>,
    /// Its steps, ascending.
    pub steps: Vec<Step>,
}

impl Steps {
    /// The latency of each level, nearest first: the medians of the plateaus.
    pub fn levels(&self) -> Vec<f64> {
        self.plateaus.iter().map(|p| p.level).collect()
    }
}

/// A step seen in fewer resamples than this is not concluded.
const LEAST_CONFIDENCE: f64 = 0.95;
/// A capacity whose interval is wider than this share of it is not concluded.
const WIDEST_INTERVAL: f64 = 0.2;
/// A step whose points lie further from the fit than this share of its height has another shape.
const LARGEST_MISFIT: f64 = 0.03;
/// A direct-mapped store is rare, and its ramp of an octave looks like any slow rise: it must fit
/// to within this share of the height.
const DIRECT_MAPPED_MISFIT: f64 = 0.01;
/// Numbers of places from `first` to `last` (both included), `per_octave` to each doubling.
pub fn geometric_grid(first: u64, last: u64, per_octave: u32) -> Vec<u64> {
    let ratio = 2f64.powf(1.0 / f64::from(per_octave));
    let mut grid: Vec<u64> = (0..)
        .map(|i| (first as f64 * ratio.powi(i)).round() as u64)
        .take_while(|&x| x < last)
        .collect();
    grid.push(last);
    grid.dedup();
    grid
}

/// Sweeps a curve and finds its steps. `measure` is given abscissae and a number of rounds.
///
/// # Errors
/// Those of `measure`.
pub fn find_steps<E>(
    options: &Options,
    rng: &mut Rng,
    mut measure: impl FnMut(&[u64], usize) -> Result<Curve, E>,
) -> Result<Steps, E> {
    let grid = geometric_grid(options.first, options.last, options.per_octave);
    let curve = measure(&grid, options.rounds)?;
    let found = plateaus(&curve);
    let resampled: Vec<Vec<Plateau>> = (0..options.resamples)
        .map(|_| plateaus(&curve.resampled(&resample(curve.rounds.len(), rng))))
        .collect();
    let mut steps = Vec::new();
    for pair in found.windows(2) {
        let (lower, upper) = (&pair[0], &pair[1]);
        let seen = resampled.iter().filter(|r| has_step(r, lower, upper));
        let confidence = seen.count() as f64 / options.resamples.max(1) as f64;
        let (fit, dense) = refine(options, rng, lower, upper, &mut measure)?.unzip();
        steps.push(Step {
            before: lower.last,
            after: upper.first,
            low: lower.level,
            high: upper.level,
            confidence,
            fit,
            dense,
            nominal: fit.map(|f| roundest(f.capacity_low, f.capacity_high)),
            no_conclusion: objection(confidence, fit.as_ref()),
        });
    }
    Ok(Steps {
        curve,
        plateaus: found,
        steps,
    })
}

/// True if plateaus of a resample have a step that overlaps the one from `lower` to `upper`.
fn has_step(plateaus: &[Plateau], lower: &Plateau, upper: &Plateau) -> bool {
    plateaus
        .windows(2)
        .any(|pair| pair[0].last < upper.first && lower.last < pair[1].first)
}

fn objection(confidence: f64, fit: Option<&StepFit>) -> Option<String> {
    let Some(fit) = fit else {
        return Some("the region of the step does not show two levels".into());
    };
    let width = (fit.capacity_high - fit.capacity_low) as f64 / fit.capacity as f64;
    if confidence < LEAST_CONFIDENCE {
        let percent = confidence * 100.0;
        Some(format!(
            "only {percent:.0} % of the resamples show this step"
        ))
    } else if width > WIDEST_INTERVAL {
        let (low, high) = (fit.capacity_low, fit.capacity_high);
        Some(format!("anything from {low} to {high} explains the data"))
    } else if fit.misfit > LARGEST_MISFIT {
        let percent = fit.misfit * 100.0;
        Some(format!(
            "the curve lies {percent:.0} % of the step away from what any capacity predicts"
        ))
    } else if matches!(fit.shape, Shape::Even { sets } if sets * 2 > fit.capacity)
        && fit.misfit > DIRECT_MAPPED_MISFIT
    {
        Some("latency rises slowly over an octave, as no usual store explains".into())
    } else {
        rival_objection(fit)
    }
}

fn rival_objection(fit: &StepFit) -> Option<String> {
    let rival = fit.rival?;
    let (capacity, other) = (fit.capacity, rival.capacity);
    contradicts((fit.misfit, capacity), (rival.misfit, other)).then(|| {
        format!("{capacity} or {other}, depending on how the level is indexed and replaces")
    })
}

/// The number in `low..=high` with the most factors of two.
fn roundest(low: u64, high: u64) -> u64 {
    let mut power = 1u64;
    while let Some(next) = power.checked_mul(2)
        && high / next * next >= low.max(1)
    {
        power = next;
    }
    high / power * power
}

/// Measures the region of a step ever closer to its onset and fits it; the fit, and the sweep it
/// is of.
fn refine<E>(
    options: &Options,
    rng: &mut Rng,
    lower: &Plateau,
    upper: &Plateau,
    measure: &mut impl FnMut(&[u64], usize) -> Result<Curve, E>,
) -> Result<Option<(StepFit, Summary)>, E> {
    let slow = upper.first > options.dense_limit;
    let count = options.dense_points / if slow { 2 } else { 1 };
    let (from, to) = region(lower, upper);
    let mut fit = |grid: &[u64]| -> Result<Option<(StepFit, Summary)>, E> {
        let curve = measure(grid, options.rounds)?;
        let levels = (lower.level, upper.level);
        let fit = fit_step(&curve, levels, options.resamples, rng);
        Ok(fit.map(|fit| (fit, curve.summary())))
    };
    let wide = merged(
        even_grid(lower.last.max(from), to, count * 2 / 3),
        geometric_grid(from, to, 4),
    );
    let mut best = fit(&wide)?;
    let mut spacing = (to - from) / (count * 2 / 3) + 1;
    for _ in 1..if slow { 1 } else { options.dense_sweeps } {
        let Some((last, _)) = &best else { break };
        // A third of the points hold the levels, the others look closely at the onset: as wide as
        // the last sweep left it open.
        let reach = (2 * spacing).max(last.capacity_high - last.capacity_low);
        let near = even_grid(
            last.capacity.saturating_sub(reach).max(from),
            (last.capacity + reach).min(to),
            count * 2 / 3,
        );
        let ends = merged(even_grid(from, to, count / 4), geometric_grid(from, to, 4));
        best = fit(&merged(ends, near))?.or(best);
        if spacing == 1 {
            break;
        }
        spacing = (2 * reach).div_ceil(count * 2 / 3);
    }
    Ok(best)
}

/// Range in which a step is measured densely: both plateaus must be held by a few points, and a
/// slope may begin on what the sweep took for the lower one.
fn region(lower: &Plateau, upper: &Plateau) -> (u64, u64) {
    const LEAST_SPAN: u64 = 12;
    let middle = |p: &Plateau| ((p.first as f64) * (p.last as f64)).sqrt() as u64;
    let from = middle(lower).max(lower.last / 4);
    let to = middle(upper).min(upper.first + upper.first / 3);
    if to - from < LEAST_SPAN {
        let from = lower.first.max(from.saturating_sub(LEAST_SPAN));
        return (from, upper.last.min(to + LEAST_SPAN));
    }
    (from, to)
}

fn merged(mut a: Vec<u64>, b: Vec<u64>) -> Vec<u64> {
    a.extend(b);
    a.sort_unstable();
    a.dedup();
    a
}

/// About `count` numbers from `from` to `to`, evenly spaced.
fn even_grid(from: u64, to: u64, count: u64) -> Vec<u64> {
    let mut grid: Vec<u64> = (0..=count)
        .map(|i| from + (to - from) * i / count.max(1))
        .collect();
    grid.dedup();
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roundest_number_has_the_most_factors_of_two() {
        assert_eq!(roundest(1529, 1540), 1536);
        assert_eq!(roundest(95, 97), 96);
        assert_eq!(roundest(1000, 1000), 1000);
        assert_eq!(roundest(1, 3), 2);
        assert_eq!(roundest(60, 70), 64);
    }

    #[test]
    fn grids_have_both_ends_and_ascend() {
        for grid in [geometric_grid(4, 1000, 8), even_grid(7, 19, 40)] {
            assert!(grid.windows(2).all(|w| w[0] < w[1]), "{grid:?}");
        }
        assert_eq!(geometric_grid(4, 1000, 8).last(), Some(&1000));
        assert_eq!(even_grid(7, 19, 40), (7..=19).collect::<Vec<_>>());
    }
}
