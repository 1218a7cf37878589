use super::Curve;
use crate::stats::{median, quantile, resample};
use fastrand::Rng;
use serde::Serialize;

/// Share of the loads of a cyclic walk over `places` that miss a least-recently-used store of
/// `capacity` entries in `sets` sets, when the places spread evenly over the sets.
///
/// Up to the capacity nothing misses. Beyond it, each further place overfills one set, and a
/// cyclic walk over an overfull least-recently-used set misses all of its `ways + 1` places.
/// When every set has one place too many, everything misses.
fn miss_ratio(places: f64, capacity: f64, sets: f64) -> f64 {
    let ways = capacity / sets;
    ((places - capacity) * (ways + 1.0) / places).clamp(0.0, 1.0)
}

/// The miss ratio of a cyclic walk, fitted to one step of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RampFit {
    /// Places that fit: the most likely value.
    pub capacity: u64,
    /// 95 % bootstrap interval of the capacity.
    pub capacity_low: u64,
    /// Its upper end.
    pub capacity_high: u64,
    /// Length of the ramp: the number of sets, if replacement is least-recently-used and places
    /// spread evenly over the sets. 1 for a sharp step, as a fully associative level shows.
    pub sets: u64,
    /// 95 % bootstrap interval of the number of sets.
    pub sets_low: u64,
    /// Its upper end.
    pub sets_high: u64,
    /// Latency below the step, ns.
    pub low: f64,
    /// Latency above the step, ns.
    pub high: f64,
    /// Median distance of the points from the fit, in parts of the height of the step.
    pub misfit: f64,
}

/// One parameter set and how badly it fits.
#[derive(Clone, Copy)]
struct Candidate {
    capacity: u64,
    sets: u64,
    low: f64,
    high: f64,
    loss: f64,
}

/// Fits one step to a densely measured region around it; `None` when it holds fewer than eight
/// points or nothing rises in it.
///
/// The fit minimises the sum of absolute deviations, which a minority of disturbed points does
/// not move. The levels come from the points that the candidate says are flat, so that only
/// capacity and sets are searched: first over a grid of the measured abscissae, then by single
/// steps around the best.
pub fn fit_ramp(curve: &Curve, resamples: usize, rng: &mut Rng) -> Option<RampFit> {
    let best = search(curve, None)?;
    let mut capacities = vec![best.capacity as f64];
    let mut sets = vec![best.sets as f64];
    for _ in 0..resamples {
        let resampled = curve.resampled(&resample(curve.rounds.len(), rng));
        if let Some(fit) = search(&resampled, Some(best)) {
            capacities.push(fit.capacity as f64);
            sets.push(fit.sets as f64);
        }
    }
    let bound = |values: &[f64], q| quantile(values, q).unwrap_or(0.0).round() as u64;
    let residuals: Vec<f64> = residuals(&points(curve), best).collect();
    Some(RampFit {
        capacity: best.capacity,
        capacity_low: bound(&capacities, 0.025).min(best.capacity),
        capacity_high: bound(&capacities, 0.975).max(best.capacity),
        sets: best.sets,
        sets_low: bound(&sets, 0.025).min(best.sets),
        sets_high: bound(&sets, 0.975).max(best.sets),
        low: best.low,
        high: best.high,
        misfit: median(&residuals)? / (best.high - best.low),
    })
}

fn points(curve: &Curve) -> Vec<(f64, f64)> {
    let points = curve.points();
    points.iter().map(|p| (p.x as f64, p.log.exp())).collect()
}

fn residuals(points: &[(f64, f64)], fit: Candidate) -> impl Iterator<Item = f64> {
    points.iter().map(move |&(x, latency)| {
        let share = miss_ratio(x, fit.capacity as f64, fit.sets as f64);
        (latency - fit.low - (fit.high - fit.low) * share).abs()
    })
}

/// The best candidate: near `start`, which saves the search over the grid, or anywhere.
fn search(curve: &Curve, start: Option<Candidate>) -> Option<Candidate> {
    let points = points(curve);
    if points.len() < 8 {
        return None;
    }
    let (first, last) = (points[0].0 as u64, points[points.len() - 1].0 as u64);
    let mut best = match start {
        Some(start) => candidate(&points, start.capacity, start.sets),
        None => grid_search(&points, last - first),
    }?;
    // Pattern search with a stride that halves: the loss is piecewise smooth in both.
    let mut stride = ((last - first) / points.len() as u64).max(1);
    loop {
        let moved = |value: u64, by: i64| value.saturating_add_signed(by * stride as i64).max(1);
        let better = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, -1), (-1, 1)]
            .into_iter()
            .map(|(dc, ds)| (moved(best.capacity, dc), moved(best.sets, ds)))
            .filter(|(capacity, _)| (first..last).contains(capacity))
            .filter_map(|(capacity, sets)| candidate(&points, capacity, sets.min(capacity)))
            .min_by(|a, b| a.loss.total_cmp(&b.loss))
            .filter(|c| c.loss < best.loss);
        match better {
            Some(better) => best = better,
            None if stride == 1 => return Some(best),
            None => stride /= 2,
        }
    }
}

fn grid_search(points: &[(f64, f64)], span: u64) -> Option<Candidate> {
    let sets = || std::iter::successors(Some(1), |&s| Some((s * 5 / 4).max(s + 1)));
    points
        .iter()
        .flat_map(|&(x, _)| {
            sets()
                .take_while(|&s| s <= span)
                .map(move |s| (x as u64, s))
        })
        .filter_map(|(capacity, sets)| candidate(points, capacity, sets.min(capacity)))
        .min_by(|a, b| a.loss.total_cmp(&b.loss))
}

fn candidate(points: &[(f64, f64)], capacity: u64, sets: u64) -> Option<Candidate> {
    let flat = |share: f64| {
        let level: Vec<f64> = points
            .iter()
            .filter(|(x, _)| miss_ratio(*x, capacity as f64, sets as f64) == share)
            .map(|&(_, latency)| latency)
            .collect();
        // Two points make a level that noise cannot easily invent.
        (level.len() >= 2).then(|| median(&level)).flatten()
    };
    let (low, high) = (flat(0.0)?, flat(1.0)?);
    let mut candidate = Candidate {
        capacity,
        sets,
        low,
        high,
        loss: 0.0,
    };
    candidate.loss = residuals(points, candidate).sum();
    (high > low).then_some(candidate)
}
