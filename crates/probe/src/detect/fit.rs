use super::{Curve, Shape};
use crate::stats::{median, quantile, resample};
use fastrand::Rng;
use serde::Serialize;
use std::ops::RangeInclusive;

/// The capacity behind one step, and the kind of store that explains its shape best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepFit {
    /// Places that fit: the most likely value.
    pub capacity: u64,
    /// 95 % bootstrap interval of the capacity.
    pub capacity_low: u64,
    /// Its upper end.
    pub capacity_high: u64,
    /// The kind of store.
    pub shape: Shape,
    /// Latency below the step, ns.
    pub low: f64,
    /// Latency above the step, ns.
    pub high: f64,
    /// Mean distance of the points from the fit, in parts of the height of the step.
    pub misfit: f64,
    /// The fit of another kind of store that says most against this one.
    pub rival: Option<Rival>,
}

/// Another kind of store, fitted to the same step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rival {
    /// Its capacity.
    pub capacity: u64,
    /// Its kind.
    pub shape: Shape,
    /// Mean distance of the points from its fit, in parts of the height of the step.
    pub misfit: f64,
}

/// One parameter set and how badly it fits.
#[derive(Clone, Copy)]
struct Candidate {
    capacity: u64,
    shape: Shape,
    low: f64,
    high: f64,
    loss: f64,
    /// The loss of a point, in parts of the height.
    misfit: f64,
}

/// Points that are fitted.
struct Points {
    /// Number of places, and latency.
    places: Vec<(f64, f64)>,
    /// The latencies to expect below and above.
    levels: (f64, f64),
}

/// Fits one step to a densely measured region around it; `None` when it holds fewer than eight
/// points or nothing rises in it.
///
/// The fit minimises the sum of absolute deviations, which a minority of disturbed points does
/// not move, over the capacity and the parameter of each kind of store; the two levels follow
/// from the points that the candidate says are flat, and must be near `levels`, the latencies of
/// the plateaus on both sides. The kind with the smallest sum is taken.
pub fn fit_step(
    curve: &Curve,
    levels: (f64, f64),
    resamples: usize,
    rng: &mut Rng,
) -> Option<StepFit> {
    let points = Points {
        places: points(curve),
        levels,
    };
    let mut fits: Vec<Candidate> = starts(&points)
        .iter()
        .filter_map(|shapes| grid_search(&points, shapes))
        .map(|start| pattern_search(&points, start))
        .collect();
    fits.sort_by(|a, b| a.loss.total_cmp(&b.loss));
    let best = *fits.first()?;
    let mut capacities = vec![best.capacity as f64];
    for _ in 0..resamples {
        let resampled = Points {
            places: self::points(&curve.resampled(&resample(curve.rounds.len(), rng))),
            levels,
        };
        if let Some(start) = candidate(&resampled, best.capacity, best.shape) {
            capacities.push(pattern_search(&resampled, start).capacity as f64);
        }
    }
    let bound = |q| quantile(&capacities, q).unwrap_or(0.0).round() as u64;
    let systematic = systematic_error(&best);
    Some(StepFit {
        capacity: best.capacity,
        capacity_low: bound(0.025).min(best.capacity).saturating_sub(systematic),
        capacity_high: bound(0.975).max(best.capacity) + systematic,
        shape: best.shape,
        low: best.low,
        high: best.high,
        misfit: best.misfit,
        rival: rival(&fits).map(|fit| Rival {
            capacity: fit.capacity,
            shape: fit.shape,
            misfit: fit.misfit,
        }),
    })
}

/// The fit of another kind that says most against the best: the first that lies nearly as close
/// to the points with another capacity, or else the second best.
fn rival(fits: &[Candidate]) -> Option<&Candidate> {
    let (best, others) = fits.split_first()?;
    let contradicts = |fit: &&Candidate| {
        let (misfit, capacity) = (fit.misfit, fit.capacity);
        contradicts((best.misfit, best.capacity), (misfit, capacity))
    };
    others.iter().find(contradicts).or(others.first())
}

/// A rival explains the data as well if its misfit is less than this factor above the best one's,
/// or less than [`PERFECT`], and contradicts it if its capacity is further away than this share.
const EQUAL_MISFIT: f64 = 1.5;
const APART: f64 = 0.15;
/// A misfit below what any measurement can tell from none.
const PERFECT: f64 = 0.001;

/// True if a fit of another kind, given as misfit and capacity, makes the best one's capacity
/// uncertain.
pub(super) fn contradicts(best: (f64, u64), rival: (f64, u64)) -> bool {
    let apart = rival.1.abs_diff(best.1) as f64 / best.1 as f64;
    rival.0 < (best.0 * EQUAL_MISFIT).max(PERFECT) && apart > APART
}

/// Error of the model: how far the capacity moves if the curve is shifted by as much as it lies
/// away from the fit, which no repetition shows.
fn systematic_error(best: &Candidate) -> u64 {
    const REACH: f64 = 0.1;
    let capacity = best.capacity as f64;
    let at = |factor: f64| best.shape.miss_ratio(capacity * factor, capacity);
    let after = (at(1.0 + REACH) - at(1.0)) / (REACH * capacity);
    let around = (at(1.0 + REACH) - at(1.0 - REACH)) / (2.0 * REACH * capacity);
    (best.misfit / after.max(around).max(f64::MIN_POSITIVE)) as u64
}

fn points(curve: &Curve) -> Vec<(f64, f64)> {
    let points = curve.points();
    points.iter().map(|p| (p.x as f64, p.log.exp())).collect()
}

/// Parameters to begin with, by kind of store.
fn starts(points: &Points) -> [Vec<Shape>; 5] {
    const WAYS: [u64; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
    let end = |point: Option<&(f64, f64)>| point.map_or(0.0, |p| p.0);
    let span = end(points.places.last()) - end(points.places.first());
    let sets = std::iter::successors(Some(1u64), |&s| Some((s * 5 / 4).max(s + 1)));
    [
        sets.take_while(|&sets| sets as f64 <= span)
            .map(|sets| Shape::Even { sets })
            .collect(),
        WAYS.map(|ways| Shape::Scattered { ways }).into(),
        vec![Shape::RandomReplacement],
        KEPT.map(|kept_eighths| Shape::Resistant { kept_eighths })
            .collect(),
        WAYS.map(|ways| Shape::ScatteredRandom { ways }).into(),
    ]
}

fn grid_search(points: &Points, shapes: &[Shape]) -> Option<Candidate> {
    points
        .places
        .iter()
        .flat_map(|&(x, _)| shapes.iter().map(move |&shape| (x as u64, shape)))
        .filter_map(|(capacity, shape)| candidate(points, capacity, shape))
        .min_by(|a, b| a.loss.total_cmp(&b.loss))
}

/// Steps downhill, with strides that halve, until a whole series of strides finds nothing better:
/// the loss is piecewise smooth with a narrow valley along which capacity and sets trade.
fn pattern_search(points: &Points, start: Candidate) -> Candidate {
    let places = &points.places;
    let (first, last) = (places[0].0 as u64, places[places.len() - 1].0 as u64);
    let longest = ((last - first) / places.len() as u64).max(1);
    let mut best = start;
    let mut stride = longest;
    let mut improved = false;
    loop {
        let around = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, -1), (-1, 1)];
        let better = around
            .into_iter()
            .flat_map(|(dc, ds)| [(dc, ds, 1, stride), (dc, ds, stride, stride)])
            .map(|(dc, ds, c, s)| (moved(best.capacity, dc, c), varied(best.shape, ds, s)))
            .filter(|(capacity, _)| (first..last).contains(capacity))
            .filter_map(|(capacity, shape)| candidate(points, capacity, shape))
            .min_by(|a, b| a.loss.total_cmp(&b.loss))
            .filter(|c| c.loss < best.loss);
        match better {
            Some(better) => (best, improved) = (better, true),
            None if stride > 1 => stride /= 2,
            None if improved => (stride, improved) = (longest, false),
            None => return best,
        }
    }
}

fn moved(value: u64, by: i64, stride: u64) -> u64 {
    value.saturating_add_signed(by * stride as i64).max(1)
}

/// More ways than any set has; with more, scattered sets are hardly told from one set.
const MOST_WAYS: u64 = 64;

/// Eighths that a resistant store may keep; with less it is hardly told from random replacement.
const KEPT: RangeInclusive<u64> = 4..=7;

fn varied(shape: Shape, by: i64, stride: u64) -> Shape {
    match shape {
        Shape::Even { sets } => Shape::Even {
            sets: moved(sets, by, stride),
        },
        Shape::Scattered { ways } => Shape::Scattered {
            ways: moved(ways, by, 1).min(MOST_WAYS),
        },
        Shape::ScatteredRandom { ways } => Shape::ScatteredRandom {
            ways: moved(ways, by, 1).min(MOST_WAYS),
        },
        Shape::Resistant { kept_eighths } => Shape::Resistant {
            kept_eighths: moved(kept_eighths, by, 1).clamp(*KEPT.start(), *KEPT.end()),
        },
        Shape::RandomReplacement => shape,
    }
}

fn candidate(points: &Points, capacity: u64, shape: Shape) -> Option<Candidate> {
    if matches!(shape, Shape::Even { sets } if sets > capacity) {
        return None;
    }
    let places = &points.places;
    let ratio: Vec<f64> = places
        .iter()
        .map(|&(x, _)| shape.miss_ratio(x, capacity as f64))
        .collect();
    let (low, high) = levels(places, &ratio)?;
    if !near(low, points.levels.0) || !near(high, points.levels.1) {
        return None;
    }
    let residuals = places
        .iter()
        .zip(&ratio)
        .map(|(&(_, latency), share)| (latency - low - (high - low) * share).abs());
    let loss: f64 = residuals.sum();
    let misfit = loss / places.len() as f64 / (high - low);
    (high > low).then_some(Candidate {
        capacity,
        shape,
        low,
        high,
        loss,
        misfit,
    })
}

/// True if a level is the one of a plateau, as far as two sweeps can agree.
fn near(level: f64, plateau: f64) -> bool {
    (level / plateau - 1.0).abs() < 0.2
}

/// The latencies without and with a miss: medians of the points where the shape says that nothing
/// or everything misses; from a line through the others where it says so of fewer than two.
///
/// Of the points where nothing should miss, only the last before the others count: the kernel, and
/// the tables of a nested walk, take entries too, so that a level leaks a little before it overflows.
fn levels(places: &[(f64, f64)], ratio: &[f64]) -> Option<(f64, f64)> {
    const NOTHING: f64 = 0.005;
    const LAST: usize = 8;
    let chosen = |wanted: &dyn Fn(f64) -> bool| -> Vec<f64> {
        let values = places.iter().zip(ratio).filter(|(_, r)| wanted(**r));
        values.map(|(p, _)| p.1).collect()
    };
    // Two points make a level that noise cannot easily invent.
    let level = |values: &[f64]| (values.len() >= 2).then(|| median(values)).flatten();
    let below = chosen(&|r| r < NOTHING);
    let low = level(&below[below.len().saturating_sub(LAST)..])?;
    if let Some(high) = level(&chosen(&|r| r > 1.0 - NOTHING)) {
        return Some((low, high));
    }
    // A slope that ends inside the region: the median of what each point says of the height.
    let heights: Vec<f64> = places
        .iter()
        .zip(ratio)
        .filter(|(_, r)| **r > 0.3)
        .map(|(&(_, latency), r)| (latency - low) / r)
        .collect();
    let enough = heights.len() >= 3 && ratio.iter().any(|&r| r > 0.7);
    Some((low, low + enough.then(|| median(&heights)).flatten()?))
}
