//! Ways of the first two TLB levels.

use super::super::{Context, Failure};
use super::twin::{Links, Twin};
use crate::chain::{Chain, sweep};
use crate::detect::{Curve, Steps, crossing};
use crate::places::{Aliases, Places, latency};
use fastrand::Rng;
use serde_json::{Value, json};

/// Ways of the first two levels, from pages that fall into one set if the set is chosen by the
/// low bits of the page number: as many as fit, by their distance.
///
/// If the capacity of the first level does not depend on the distance, it is fully associative
/// or hashed. It hides the second level, unless something else flushes it: for that, a lap also
/// visits twice as many pages as it holds, one to each of the other sets.
pub fn measure(context: &mut Context, twin: &mut Twin, dense: &Steps) -> Result<Value, Failure> {
    let levels = dense.levels();
    let Some(first) = dense.steps.first().and_then(|s| s.nominal) else {
        return Err(Failure::Lacking("no level was found".into()));
    };
    let mut rng = context.rng.fork();
    let rounds = if context.quick { 5 } else { 11 };
    let mut l1 = Vec::new();
    for distance in if context.quick { [64, 512] } else { [16, 512] } {
        let count = first as usize * 5 / 4;
        let mut aliases = Aliases::small(count, distance)?;
        let grid: Vec<u64> = (2..=count as u64).collect();
        let curve = sweep(&grid, rounds, &mut rng.fork(), |x, rng| {
            Ok::<f64, Failure>(twin.correct(&mut aliases, Links::Dense, x, rng))
        })?;
        let ways = crossing(&curve, levels[0], levels[1], 100, &mut rng);
        l1.push(json!({ "distance": distance, "ways": ways }));
    }
    let (mut l2, mut fitting) = (Vec::new(), Vec::new());
    if levels.len() > 2 {
        let fillers = 2 * first as usize;
        let height = levels[2] - levels[1];
        let nearest = fillers.next_power_of_two();
        for distance in [nearest, 2 * nearest] {
            let curve = conflicts(distance, fillers, height, 2 * rounds, &mut rng)?;
            let fits = last_without_conflict(&curve);
            l2.push(json!({ "distance": distance, "fitting": fits, "curve": curve.summary() }));
            fitting.extend(fits.map(|fits| (distance, fits)));
        }
    }
    let step = dense.steps.get(1).filter(|s| s.no_conclusion.is_none());
    let capacity = step.and_then(|step| Some(step.fit?.capacity));
    let second = capacity.and_then(|capacity| second_level(&fitting, capacity));
    if second.is_none() && levels.len() > 2 {
        let why = "pages a power of two apart do not overflow one set alone";
        context.skip("ways of the second level", why);
    }
    Ok(json!({ "first_level": l1, "second_level": l2, "second_level_sets": second }))
}

/// Number of conflicting pages that fit: the last one before a fifth of them misses twice in a row.
fn last_without_conflict(curve: &Curve) -> Option<u64> {
    const MISSING: f64 = 1.2;
    let medians = curve.medians();
    let first = medians
        .windows(2)
        .position(|pair| pair.iter().all(|&m| m > MISSING))?;
    Some(curve.x[first.checked_sub(1)?])
}

/// Sets and ways that agree with the capacity and with how many pages fit at both distances.
///
/// Of the pages a distance apart, as many fit as the level has ways, times the number of sets
/// they fall into. A level that replaces at random fits up to a quarter more with few misses.
/// The capacity comes out a little low, since other things take entries too.
fn second_level(fitting: &[(usize, u64)], capacity: u64) -> Option<Value> {
    const CLOSE: f64 = 0.06;
    let &(farthest, fits) = fitting.last()?;
    let sets = (0..=farthest.ilog2())
        .map(|power| 1usize << power)
        .min_by_key(|&sets| (capacity / sets as u64).abs_diff(fits))?;
    let ways = (capacity as f64 / sets as f64).round() as u64;
    let entries = ways * sets as u64;
    let agree = fitting.len() == 2
        && fitting.iter().all(|&(distance, fits)| {
            let expected = ways * (sets / distance).max(1) as u64;
            (expected..=expected + expected / 4).contains(&fits)
        });
    let close = (entries as f64 / capacity as f64 - 1.0).abs() < CLOSE;
    (agree && close).then(|| json!({ "sets": sets, "ways": ways, "entries": entries }))
}

/// Additional cost of conflicting pages against as many pages, one further apart, that do not
/// conflict, both behind `fillers`: 1 for nothing, 2 for a walk (`height`) at each of them.
fn conflicts(
    distance: usize,
    fillers: usize,
    height: f64,
    rounds: usize,
    rng: &mut Rng,
) -> Result<Curve, Failure> {
    const MOST_WAYS: usize = 64;
    let flushed = |distance: usize| -> Result<Flushed, Failure> {
        let page = |i: usize| i.checked_sub(fillers).map_or(i + 1, |i| i * distance);
        let aliases = Aliases::at(MOST_WAYS + fillers, page)?;
        Ok(Flushed { aliases, fillers })
    };
    let (mut conflicting, mut spread) = (flushed(distance)?, flushed(distance + 1)?);
    let grid: Vec<u64> = (3..=MOST_WAYS as u64).collect();
    sweep(&grid, rounds, rng, |x, rng| {
        let extra = latency(&mut conflicting, x, rng) - latency(&mut spread, x, rng);
        let share = x as f64 / (x as usize + fillers) as f64;
        Ok(1.0 + (extra / height / share).clamp(0.0, 2.0))
    })
}

/// Pages behind pages that flush the first level.
struct Flushed {
    aliases: Aliases,
    fillers: usize,
}

impl Places for Flushed {
    fn count(&self) -> usize {
        self.aliases.count() - self.fillers
    }

    fn chain(&mut self, order: &[usize]) -> Chain {
        let fillers = 0..self.fillers;
        let all: Vec<usize> = fillers
            .chain(order.iter().map(|i| i + self.fillers))
            .collect();
        self.aliases.chain(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(fitting: &[(usize, u64)], capacity: u64) -> Option<[u64; 3]> {
        let value = second_level(fitting, capacity)?;
        Some(["sets", "ways", "entries"].map(|key| value[key].as_u64().unwrap_or(0)))
    }

    #[test]
    fn sets_and_ways_follow_from_two_distances() {
        // Skylake, exact: 128 sets of 12 ways. Zen 5, as measured in a guest: 256 of 16.
        assert_eq!(found(&[(128, 12), (256, 12)], 1536), Some([128, 12, 1536]));
        assert_eq!(found(&[(256, 18), (512, 17)], 4050), Some([256, 16, 4096]));
        // More sets than the smaller distance: two of them are used there.
        assert_eq!(found(&[(256, 16), (512, 8)], 4096), Some([512, 8, 4096]));
    }

    #[test]
    fn what_does_not_agree_gives_no_sets() {
        assert_eq!(found(&[(256, 30), (512, 9)], 4050), None);
        assert_eq!(found(&[(256, 18)], 4050), None);
        // Hashed: pages a power of two apart do not conflict.
        assert_eq!(found(&[(256, 60), (512, 60)], 4050), None);
    }
}
