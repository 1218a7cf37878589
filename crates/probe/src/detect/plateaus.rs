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

/// An octave between two plateaus that is so much flatter than the rise from one to the other is one,
/// too: of a level of which longer laps find less, such as a last level of which others take a share,
/// or whose pages' tables leave the level before.
const FLATTER: f64 = 4.0;

/// Deviation of a real plateau from a constant, in logarithms, that no repetition removes.
const RIPPLE: f64 = 0.012;

/// The plateaus of a curve, in order, each a factor [`LEAST_RISE`] or more above the last, and the
/// [`shoulder`]s between them.
///
/// Segments are found by optimal partitioning (Jackson et al., IEEE Signal Processing Letters
/// 2005): exact, and quadratic in the number of points, which is small. Each segment has the
/// median of its logarithms as its level. The loss is the biweight (Fearnhead and Rigaill, JASA
/// 2019), bounded by [`OUTLIER`], and a further segment costs the Schwarz penalty of its two
/// parameters, `2 ln n`. With these, one or two wrong points are cheaper as outliers than as a
/// segment, and three in a row that agree are cheaper as a segment (but no plateau yet).
pub fn plateaus(curve: &Curve) -> Vec<Plateau> {
    let points = curve.points();
    let mut found: Vec<(usize, usize)> = segments(&points)
        .into_iter()
        .filter_map(|range| trimmed(&points, range))
        .filter(|&(first, last)| last - first + 1 >= LEAST_POINTS)
        .filter(|&(first, last)| slope(&points[first..=last]) <= STEEPEST)
        .collect();
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
    let shoulders: Vec<(usize, usize)> = found
        .windows(2)
        .filter_map(|pair| shoulder(&points, pair[0], pair[1]))
        .collect();
    found.extend(shoulders);
    found.sort_unstable();
    found
        .iter()
        .map(|range| Plateau {
            first: points[range.0].x,
            last: points[range.1].x,
            level: level(range).exp(),
        })
        .collect()
}

/// First and last index of the shoulder between two plateaus, given by theirs.
///
/// Looked for by the slope over each octave, since a shoulder has no one level of its own, and a
/// point that a neighbour on the machine has spoilt moves no median of slopes.
fn shoulder(
    points: &[Point],
    lower: (usize, usize),
    upper: (usize, usize),
) -> Option<(usize, usize)> {
    let (before, after) = (&points[lower.1], &points[upper.0]);
    let rise = level(&points[upper.0..=upper.1]) - level(&points[lower.0..=lower.1]);
    let steepest = rise / octaves(before, after) / FLATTER;
    let mut found: Option<(usize, usize)> = None;
    for first in lower.1..upper.0 {
        let beyond = points[first..=upper.0].partition_point(|p| p.x <= 2 * points[first].x);
        let last = first + beyond - 1;
        let flat = last < upper.0 && slope(&points[first..=last]) <= steepest;
        let wide = last - first >= LEAST_POINTS && octaves(&points[first], &points[last]) > 0.9;
        if flat && wide {
            found = Some((found.map_or(first, |range| range.0), last));
        }
    }
    // A range that reaches as far as either plateau is how that ends or begins.
    let (first, last) = found.filter(|range| range.0 > lower.1 + 1)?;
    let own = level(&points[first..=last]);
    let apart = own - level(&points[lower.0..=lower.1]) >= LEAST_RISE.ln()
        && level(&points[upper.0..=upper.1]) - own >= LEAST_RISE.ln();
    (apart && last + 1 < upper.0).then_some((first, last))
}

fn octaves(from: &Point, to: &Point) -> f64 {
    (to.x as f64 / from.x as f64).log2()
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
