use super::Curve;
use crate::chain::LINE;
use crate::stats::{quantile, resample};
use fastrand::Rng;
use serde::Serialize;

/// The rest of a last level that others use, too: its room, and what they bring into it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SharedLevel {
    /// Lines that there is room for, of all who use it.
    pub lines: u64,
    /// Lower end of its 95 % interval.
    pub lines_low: u64,
    /// Upper end of its 95 % interval.
    pub lines_high: u64,
    /// Bytes that others bring in, 10^9 a second.
    pub others: f64,
    /// Lower end of its 95 % interval.
    pub others_low: f64,
    /// Upper end of its 95 % interval.
    pub others_high: f64,
    /// Root mean square of what the fit leaves, relative.
    pub misfit: f64,
    /// They explain the curves, however wide the intervals are.
    pub explains: bool,
    /// Reason for which the figures are not to be relied on.
    pub no_conclusion: Option<String>,
}

/// Misfit beyond which the model does not describe the machine.
const POOR: f64 = 0.12;
/// An interval of the room that reaches over such a factor concludes nothing.
const WIDE: f64 = 2.0;

/// Fits a last level with LRU to latencies of loads at random, by the lines they are spread over:
/// one curve for each number of walkers. `below` lines are held by the level before it.
///
/// By Che's approximation (Che, Tung and Wang, IEEE JSAC 2002) a line stays for a time in which the
/// lines that are loaded and those of others fill the level; it is hit if it is loaded again before.
/// One walker comes back to its lines so seldom that those of others push them out, sixteen
/// fill the level by themselves: so both the room and the others' share can be told. What a hit, a
/// miss, a hit in the level before and the walks of ever more pages cost is fitted to each curve.
/// `memory`, if known, is what one walker's miss takes when its page is translated already.
///
/// `None` where there are too few points.
pub fn shared_level(
    curves: &[Curve],
    below: u64,
    memory: Option<f64>,
    resamples: usize,
    rng: &mut Rng,
) -> Option<SharedLevel> {
    let best = fit(&points(curves, below, memory), below)?;
    let mut lines = Vec::new();
    let mut others = Vec::new();
    for _ in 0..resamples {
        let again: Vec<Curve> = curves
            .iter()
            .map(|curve| curve.resampled(&resample(curve.rounds.len(), rng)))
            .collect();
        if let Some(found) = fit(&points(&again, below, memory), below) {
            lines.push(found.lines);
            others.push(found.others);
        }
    }
    let ends = |values: &[f64], at: f64| {
        let low = quantile(values, 0.025).unwrap_or(at).min(at);
        let high = quantile(values, 0.975).unwrap_or(at).max(at);
        (low, high)
    };
    let (low, high) = ends(&lines, best.lines);
    let (others_low, others_high) = ends(&others, best.others);
    let largest = curves.iter().filter_map(|curve| curve.x.last()).max();
    let beyond = largest.is_some_and(|&x| best.lines * 2.0 > x as f64);
    let no_conclusion = if beyond {
        Some("memory was not reached".to_owned())
    } else if best.misfit > POOR {
        Some(format!("the fit leaves {:.0} %", best.misfit * 100.0))
    } else if high > WIDE * low {
        let mib = |lines: f64| lines * LINE as f64 / f64::from(1 << 20);
        let (low, high) = (mib(low), mib(high));
        Some(format!("{low:.1} to {high:.1} MiB explain the curves"))
    } else {
        None
    };
    // A line a nanosecond is as many bytes a nanosecond as a line has.
    let speed = |lines: f64| lines * LINE as f64;
    Some(SharedLevel {
        lines: best.lines.round() as u64,
        lines_low: low.round() as u64,
        lines_high: high.round() as u64,
        others: speed(best.others),
        others_low: speed(others_low),
        others_high: speed(others_high),
        misfit: best.misfit,
        explains: !beyond && best.misfit <= POOR,
        no_conclusion,
    })
}

/// Lines that loads are spread over, and ns of a load.
type Points = Vec<(f64, f64)>;

/// The points of each curve at which the level before holds half or less. What is known of memory is a
/// point of the first one without hits, as sure as [`KNOWN`] others.
fn points(curves: &[Curve], below: u64, memory: Option<f64>) -> Vec<Points> {
    let of = |curve: &Curve| {
        let all = curve.x.iter().zip(curve.medians());
        all.filter(|&(&x, ns)| x >= 2 * below && ns.is_finite() && ns > 0.0)
            .map(|(&x, ns)| (x as f64, ns))
            .collect()
    };
    let mut all: Vec<Points> = curves.iter().map(of).collect();
    if let (Some(first), Some(ns)) = (all.first_mut(), memory) {
        first.extend([(f64::INFINITY, ns); KNOWN]);
    }
    all
}

/// Points that memory's own latency counts for.
const KNOWN: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Fitted {
    lines: f64,
    /// Lines a nanosecond.
    others: f64,
    misfit: f64,
}

/// Costs fitted to a curve: of a hit, a miss, the level before, and walks.
const COSTS: usize = 4;

/// The room and the others that leave least, from a grid that is laid closer around the best.
fn fit(curves: &[Points], below: u64) -> Option<Fitted> {
    // Two curves tell the two; each has to have more points than costs.
    if curves.len() < 2 || curves.iter().any(|points| points.len() < COSTS + 2) {
        return None;
    }
    let least = below.max(1) as f64;
    let spreads = curves.iter().flatten().map(|p| p.0);
    let most = spreads.filter(|x| x.is_finite()).fold(least, f64::max);
    let mut best: Option<Fitted> = None;
    let mut consider = |lines: f64, others: f64| {
        let misfit = misfit(curves, below as f64, lines, others);
        if misfit.is_finite() && best.is_none_or(|best| misfit < best.misfit) {
            best = Some(Fitted {
                lines,
                others,
                misfit,
            });
        }
        best
    };
    let step = 2f64.powf(0.125);
    // From 10 MB/s to 80 GB/s.
    let rates: Vec<f64> = (0..27)
        .map(|i| 0.01 / LINE as f64 * 2f64.powf(f64::from(i) / 2.0))
        .collect();
    let mut lines = least;
    while lines <= most {
        consider(lines, 0.0);
        for &others in &rates {
            consider(lines, others);
        }
        lines *= step;
    }
    for closer in [0.5, 0.25, 0.125f64] {
        let at = consider(f64::NAN, 0.0)?;
        for i in -2..=2 {
            for j in -2..=2 {
                let lines = at.lines * step.powf(closer * f64::from(i));
                let others = at.others * 2f64.powf(0.5 * closer * f64::from(j));
                consider(lines, others);
            }
        }
    }
    best
}

/// Share of loads at random that hit, of `spread` lines each of which is loaded every `spread * ns`.
fn hits(spread: f64, ns: f64, lines: f64, others: f64) -> f64 {
    if others == 0.0 {
        return (lines / spread).min(1.0);
    }
    // A line that stays for `time` is hit with 1 - exp(-time / (spread * ns)).
    let filled = |share: f64| spread * share - others * spread * ns * (-share).ln_1p();
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if filled(middle) < lines {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Misfit of the best costs over all curves, relative; not a number where there are none.
fn misfit(curves: &[Points], below: f64, lines: f64, others: f64) -> f64 {
    let (mut sum, mut count) = (0.0, 0u32);
    for points in curves {
        let rows: Vec<[f64; COSTS]> = points
            .iter()
            .map(|&(spread, ns)| {
                if spread == f64::INFINITY {
                    return [1.0, 1.0, 0.0, 0.0];
                }
                let misses = 1.0 - hits(spread, ns, lines, others);
                let before = (below / spread).min(1.0);
                [1.0, misses, -before, (spread / lines).log2().max(0.0)]
            })
            .collect();
        sum += left(&rows, points);
        count += points.len() as u32;
    }
    (sum / f64::from(count)).sqrt()
}

/// Sum of the squares of what the best costs, none of them negative, leave of a curve, relative.
fn left(rows: &[[f64; COSTS]], points: &Points) -> f64 {
    // Costs that are held at zero: those that would be negative, the worst first.
    let mut held = [false; COSTS];
    loop {
        let costs = solve(rows, points, held);
        let worst = (0..COSTS).filter(|&i| costs[i] < 0.0);
        let worst = worst.min_by(|&a, &b| costs[a].total_cmp(&costs[b]));
        if let Some(worst) = worst {
            held[worst] = true;
            continue;
        }
        let pairs = rows.iter().zip(points);
        return pairs
            .map(|(row, &(_, ns))| {
                let predicted: f64 = row.iter().zip(costs).map(|(x, cost)| x * cost).sum();
                (predicted / ns - 1.0).powi(2)
            })
            .sum();
    }
}

/// Least squares of relative errors, by normal equations; costs that are held are zero.
fn solve(rows: &[[f64; COSTS]], points: &Points, held: [bool; COSTS]) -> [f64; COSTS] {
    let mut equations = [[0.0; COSTS + 1]; COSTS];
    for (row, &(_, ns)) in rows.iter().zip(points) {
        for (i, equation) in equations.iter_mut().enumerate() {
            for (cell, x) in equation.iter_mut().zip(row.iter().chain([&ns])) {
                *cell += row[i] * x / (ns * ns);
            }
        }
    }
    for i in 0..COSTS {
        // A column without variation takes no part either.
        if held[i] || equations[i][i] < 1e-12 {
            for (j, equation) in equations.iter_mut().enumerate() {
                equation[i] = f64::from(u8::from(i == j));
            }
            equations[i] = std::array::from_fn(|j| f64::from(u8::from(i == j)));
        }
    }
    // Gauss and Jordan; the matrix is positive semidefinite, so the diagonal serves as pivot.
    for i in 0..COSTS {
        let pivot = equations[i][i];
        if pivot.abs() < 1e-15 {
            continue;
        }
        let own = equations[i];
        for (j, equation) in equations.iter_mut().enumerate() {
            if j != i {
                let factor = equation[i] / pivot;
                for (cell, x) in equation.iter_mut().zip(own) {
                    *cell -= factor * x;
                }
            }
        }
    }
    std::array::from_fn(|i| equations[i][COSTS] / equations[i][i])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A level with LRU over which loads at random go, simulated line by line with the lines of others
    /// as time goes by: nothing of the fit is in it.
    fn simulate(spread: u64, capacity: usize, others: f64, walkers: f64, rng: &mut Rng) -> f64 {
        use std::collections::VecDeque;
        const BEFORE: f64 = 256.0;
        let (hit, miss) = (30.0 / walkers, 150.0 / walkers);
        // Second chance would not be LRU: each line has the number of its last entry in the queue.
        let mut last = vec![usize::MAX; spread as usize];
        let mut queue: VecDeque<Option<u64>> = VecDeque::new();
        let (mut first, mut held, mut due, mut time) = (0usize, 0usize, 0.0, 0.0);
        let (loads, warm_up) = (16 * spread.max(4096), 8 * spread.max(4096));
        for load in 0..loads {
            let line = rng.u64(0..spread);
            let at = &mut last[line as usize];
            let found = *at != usize::MAX;
            if found {
                queue[*at - first] = None;
                held -= 1;
            }
            *at = first + queue.len();
            queue.push_back(Some(line));
            held += 1;
            let ns = if !found {
                miss
            } else if rng.f64() < BEFORE / spread as f64 {
                5.0 / walkers
            } else {
                hit
            };
            due += ns * others;
            while due >= 1.0 {
                due -= 1.0;
                queue.push_back(Some(u64::MAX));
                held += 1;
            }
            while held > capacity {
                if let Some(line) = queue.pop_front().flatten() {
                    held -= 1;
                    if let Some(at) = last.get_mut(line as usize) {
                        *at = usize::MAX;
                    }
                }
                first += 1;
            }
            if load >= warm_up {
                time += ns;
            }
        }
        time / (loads - warm_up) as f64
    }

    fn curves(capacity: usize, others: f64, noise: f64) -> Vec<Curve> {
        let mut rng = Rng::with_seed(11);
        let x: Vec<u64> = (0..15)
            .map(|i| (512.0 * 2f64.powf(f64::from(i) / 2.0)) as u64)
            .collect();
        [1.0, 4.0, 16.0]
            .map(|walkers| {
                let exact: Vec<f64> = x
                    .iter()
                    .map(|&spread| simulate(spread, capacity, others, walkers, &mut rng))
                    .collect();
                let rounds = (0..5)
                    .map(|_| {
                        let disturbed = |ns: &f64| ns * (1.0 + noise * (2.0 * rng.f64() - 1.0));
                        exact.iter().map(disturbed).collect()
                    })
                    .collect();
                Curve {
                    x: x.clone(),
                    rounds,
                }
            })
            .to_vec()
    }

    #[test]
    fn room_and_others_are_found() {
        for (capacity, others, memory) in [
            (4096, 0.0, None),
            (4096, 0.02, None),
            (8192, 0.01, Some(150.0)),
            (8192, 0.05, Some(150.0)),
        ] {
            let found = shared_level(
                &curves(capacity, others, 0.02),
                256,
                memory,
                20,
                &mut Rng::with_seed(1),
            )
            .unwrap();
            assert_eq!(found.no_conclusion, None, "{found:?}");
            let room = found.lines as f64 / capacity as f64;
            assert!((0.9..1.1).contains(&room), "{capacity} lines: {found:?}");
            let speed = others * LINE as f64;
            let off = (found.others - speed).abs();
            assert!(off < 0.15 * speed + 0.03, "{speed} GB/s: {found:?}");
        }
    }

    #[test]
    fn a_level_that_was_not_overflowed_is_not_concluded() {
        let found = shared_level(
            &curves(1 << 20, 0.0, 0.02),
            256,
            None,
            20,
            &mut Rng::with_seed(1),
        );
        assert!(found.is_none_or(|found| found.no_conclusion.is_some()));
    }

    #[test]
    fn two_points_tell_nothing() {
        let curve = Curve {
            x: vec![1000, 2000],
            rounds: vec![vec![10.0, 20.0]],
        };
        let found = shared_level(
            &[curve.clone(), curve],
            100,
            None,
            5,
            &mut Rng::with_seed(1),
        );
        assert_eq!(found, None);
    }
}
