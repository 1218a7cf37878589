use super::Curve;
use super::curve::Point;
use crate::stats::median;
use serde::Serialize;

/// A stretch of the curve at one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Plateau {
    /// First abscissa on it.
    pub first: u64,
    /// Last abscissa on it.
    pub last: u64,
    /// Its latency in nanoseconds.
    pub level: f64,
}

/// Fewer points in a row than this are part of a slope, or wrong.
const LEAST_POINTS: usize = 4;

/// A point costs at most this much, the square of three standard deviations.
const OUTLIER: f64 = 9.0;

/// Plateaus whose levels differ by less than this factor are one: a cache or TLB level that
/// costs less is of no interest, and prefetchers and bank conflicts make such ripples.
const LEAST_RISE: f64 = 1.12;

/// A segment that rises faster than this, in logarithms an octave, is part of a slope. A level
/// that replaces at random makes slopes that take several octaves.
const STEEPEST: f64 = 0.08;

/// Between two plateaus a segment that is so much flatter than the rise from one to the other is a
/// plateau, too, if it is an octave wide: a level of which each lap has a few more misses, as in a last level of which others
/// take a share, or as tables of pages leave the level before.
const FLATTER: f64 = 4.0;

/// Deviation of a real plateau from a constant, in logarithms, that no repetition removes.
const RIPPLE: f64 = 0.012;

/// The plateaus of a curve, in order, each a factor [`LEAST_RISE`] or more above the last.
///
/// Segments are found by optimal partitioning (Jackson et al., IEEE Signal Processing Letters
/// 2005): exact, and quadratic in the number of points, which is small. Each segment has the
/// median of its logarithms as its level. The loss is the biweight (Fearnhead and Rigaill, JASA
/// 2019), bounded by [`OUTLIER`], and a further segment costs the Schwarz penalty of its two
/// parameters, `2 ln n`. With these, one or two wrong points are cheaper as outliers than as a
/// segment, and three in a row that agree are cheaper as a segment (but no plateau yet).
pub fn plateaus(curve: &Curve) -> Vec<Plateau> {
    let points = curve.points();
    let mut found = flat(&points);
    let level = |&(first, last): &(usize, usize)| level(&points[first..=last]);
    loop {
        let flattest = found
            .windows(2)
            .enumerate()
            .map(|(i, pair)| (i, level(&pair[1]) - level(&pair[0])))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        match flattest {
            // A fall is not explained by any level that overflows: the two are one, with noise.
            Some((i, rise)) if rise < LEAST_RISE.ln() => {
                found[i].1 = found[i + 1].1;
                found.remove(i + 1);
            }
            _ => break,
        }
    }
    found
        .iter()
        .map(|range| Plateau {
            first: points[range.0].x,
            last: points[range.1].x,
            level: level(range).exp(),
        })
        .collect()
}

/// First and last index of each segment that is flat by itself, or beside the rise it is in.
fn flat(points: &[Point]) -> Vec<(usize, usize)> {
    let long: Vec<(usize, usize, f64)> = segments(points)
        .into_iter()
        .filter_map(|range| trimmed(points, range))
        .filter(|&(first, last)| last - first + 1 >= LEAST_POINTS)
        .map(|(first, last)| (first, last, slope(&points[first..=last])))
        .collect();
    let level = |first: usize, last: usize| level(&points[first..=last]);
    let sure: Vec<usize> = (0..long.len()).filter(|&i| long[i].2 <= STEEPEST).collect();
    let octaves =
        |first: usize, last: usize| (points[last].x as f64 / points[first].x as f64).log2();
    let mut is_flat: Vec<bool> = long.iter().map(|&(.., slope)| slope <= STEEPEST).collect();
    for pair in sure.windows(2) {
        let (lower, upper) = (long[pair[0]], long[pair[1]]);
        let rise = level(upper.0, upper.1) - level(lower.0, lower.1);
        let steepest = rise / octaves(lower.1, upper.0) / FLATTER;
        let between = pair[0] + 1..pair[1];
        let flatter: Vec<usize> = between.filter(|&i| long[i].2 <= steepest).collect();
        let rises = |a: &usize, b: &usize| {
            level(long[*b].0, long[*b].1) - level(long[*a].0, long[*a].1) >= LEAST_RISE.ln()
        };
        for together in flatter.chunk_by(|a, b| !rises(a, b)) {
            let ends = (together[0], together[together.len() - 1]);
            if octaves(long[ends.0].0, long[ends.1].1) >= 1.0 {
                together.iter().for_each(|&i| is_flat[i] = true);
            }
        }
    }
    let flat = long.iter().zip(is_flat).filter(|&(_, is_flat)| is_flat);
    flat.map(|(&(first, last, _), _)| (first, last)).collect()
}

fn level(points: &[Point]) -> f64 {
    let logs: Vec<f64> = points.iter().map(|p| p.log).collect();
    median(&logs).unwrap_or(f64::NAN)
}

/// Median of the slopes between all pairs of points (Theil and Sen), in logarithms an octave.
fn slope(points: &[Point]) -> f64 {
    let pairs = points
        .iter()
        .enumerate()
        .flat_map(|(i, a)| points[..i].iter().map(move |b| (b, a)));
    let slopes: Vec<f64> = pairs
        .map(|(a, b)| (b.log - a.log) / (b.x as f64 / a.x as f64).log2())
        .collect();
    median(&slopes).unwrap_or(0.0)
}

/// First and last index of each segment of the cheapest partition.
fn segments(points: &[Point]) -> Vec<(usize, usize)> {
    let count = points.len();
    let penalty = 2.0 * (count.max(2) as f64).ln();
    // best[j]: cheapest partition of the first j points; start[j]: where its last segment begins.
    let mut best = vec![f64::INFINITY; count + 1];
    let mut start = vec![0; count + 1];
    best[0] = -penalty;
    for first in 0..count {
        let mut sorted: Vec<f64> = Vec::with_capacity(count - first);
        for last in first..count {
            let log = points[last].log;
            sorted.insert(sorted.partition_point(|&v| v < log), log);
            let half = sorted.len() / 2;
            let middle = if sorted.len() % 2 == 1 {
                sorted[half]
            } else {
                (sorted[half - 1] + sorted[half]) / 2.0
            };
            let cost = best[first] + penalty + loss(&points[first..=last], middle);
            if cost < best[last + 1] {
                best[last + 1] = cost;
                start[last + 1] = first;
            }
        }
    }
    let mut ranges = Vec::new();
    let mut end = count;
    while end > 0 {
        ranges.push((start[end], end - 1));
        end = start[end];
    }
    ranges.reverse();
    ranges
}

fn loss(points: &[Point], level: f64) -> f64 {
    points.iter().map(|p| distance(p, level)).sum()
}

/// Squared distance of a point from a level, in its variances, bounded.
fn distance(point: &Point, level: f64) -> f64 {
    let variance = point.error.powi(2) + RIPPLE.powi(2);
    ((point.log - level).powi(2) / variance).min(OUTLIER)
}

/// A segment without the outliers at its ends: a slope between two plateaus is cheapest as
/// outliers of either.
fn trimmed(points: &[Point], (first, last): (usize, usize)) -> Option<(usize, usize)> {
    let level = level(&points[first..=last]);
    let mut fitting = (first..=last).filter(|&i| distance(&points[i], level) < OUTLIER);
    let first = fitting.next()?;
    Some((first, fitting.next_back().unwrap_or(first)))
}
