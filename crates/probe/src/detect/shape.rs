//! Miss ratio of a cyclic walk by the number of places, for each kind of store.

use serde::Serialize;
use std::sync::LazyLock;

/// A kind of store, with what it has beside a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Least-recently-used sets over which the places spread evenly, as consecutive pages do
    /// over sets indexed by the low bits of their number.
    Even {
        /// Number of sets; 1 for a fully associative store.
        sets: u64,
    },
    /// Least-recently-used sets over which the places spread at random, as they do when the
    /// index is a hash, or a physical address that the kernel or a hypervisor chose.
    Scattered {
        /// Ways of a set.
        ways: u64,
    },
    /// One set that replaces at random.
    RandomReplacement,
    /// A store in which part of the ways keep what they hold while the others replace at random,
    /// so that a walk that does not fit leaves some of it resident (Qureshi et al., Adaptive
    /// Insertion Policies, ISCA 2007).
    Resistant {
        /// Eighths of the ways that keep what they hold.
        kept_eighths: u64,
    },
    /// Sets that replace at random, over which the places spread at random: what a policy that
    /// resists cyclic walks (Jaleel et al., ISCA 2010) comes close to.
    ScatteredRandom {
        /// Ways of a set.
        ways: u64,
    },
}

impl Shape {
    /// Share of the loads of a cyclic walk over `places` that miss a store of `capacity` entries.
    pub fn miss_ratio(self, places: f64, capacity: f64) -> f64 {
        match self {
            Shape::Even { sets } => even(places, capacity, sets as f64),
            Shape::Scattered { ways } => at_least(ways, places / capacity * ways as f64),
            Shape::RandomReplacement => random_replacement(places / capacity),
            Shape::Resistant { kept_eighths } => {
                resistant(places / capacity, kept_eighths as f64 / 8.0)
            }
            Shape::ScatteredRandom { ways } => {
                scattered_random(ways, places / capacity * ways as f64)
            }
        }
    }
}

/// Up to the capacity nothing misses. Beyond it, each further place overfills one set, and a
/// cyclic walk over an overfull least-recently-used set misses all of its `ways + 1` places.
/// When every set has one place too many, everything misses.
fn even(places: f64, capacity: f64, sets: f64) -> f64 {
    let ways = capacity / sets;
    ((places - capacity) * (ways + 1.0) / places).clamp(0.0, 1.0)
}

/// Probability that a Poisson variable of mean `mean` is `ways` or more.
///
/// The number of places in a set is Poisson distributed. A place misses if its set holds more
/// than `ways`, itself counted; the others in its set are Poisson distributed as well.
fn at_least(ways: u64, mean: f64) -> f64 {
    if mean > 4.0 * ways as f64 + 40.0 {
        return 1.0;
    }
    let mut term = (-mean).exp();
    let mut below = 0.0;
    for k in 0..ways {
        below += term;
        term *= mean / (k + 1) as f64;
    }
    (1.0 - below).clamp(0.0, 1.0)
}

/// A place survives until its next use if none of the misses of a lap chose it: the miss ratio
/// `m` at `load` places per entry solves `m = 1 - exp(-m load)`, with no misses up to a load of 1.
///
/// From a table, since fitting asks for it millions of times.
fn random_replacement(load: f64) -> f64 {
    const LAST_LOAD: f64 = 10.0;
    const STEPS: f64 = 128.0;
    static TABLE: LazyLock<Vec<f64>> = LazyLock::new(|| {
        let count = (LAST_LOAD * STEPS) as usize + 2;
        (0..count).map(|i| solve(i as f64 / STEPS)).collect()
    });
    let at = load.min(LAST_LOAD) * STEPS;
    let (below, above) = (TABLE[at as usize], TABLE[at as usize + 1]);
    below + (above - below) * at.fract()
}

fn solve(load: f64) -> f64 {
    const STEPS: usize = 40;
    let (mut low, mut high) = (0.0, f64::from(load > 1.0));
    for _ in 0..STEPS {
        let middle: f64 = (low + high) / 2.0;
        if 1.0 - (-middle * load).exp() > middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The places that are not kept share the ways that are left.
fn resistant(load: f64, kept: f64) -> f64 {
    if load <= 1.0 {
        return 0.0;
    }
    let others = load - kept;
    random_replacement(others / (1.0 - kept)) * others / load
}

/// Random replacement in sets that are filled at random: in a set with `k` places, each misses as
/// in a store of `ways` entries.
fn scattered_random(ways: u64, mean: f64) -> f64 {
    // Many places in a set: all sets have about as many.
    if mean > 4.0 * ways as f64 + 40.0 {
        return random_replacement(mean / ways as f64);
    }
    // Beyond six deviations nothing is left of the Poisson distribution.
    let last = (mean + 6.0 * mean.sqrt()) as u64 + 6;
    let mut others = (-mean).exp();
    let mut share = 0.0;
    for k in 1..=last {
        if k > ways {
            share += others * random_replacement(k as f64 / ways as f64);
        }
        others *= mean / k as f64;
    }
    share.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    /// The formulas against stores that are simulated entry by entry.
    #[test]
    fn miss_ratios_agree_with_simulated_stores() {
        let mut rng = Rng::with_seed(2);
        for (sets, ways) in [(64usize, 4u64), (32, 8), (16, 16)] {
            let capacity = sets as f64 * ways as f64;
            for load in [0.5, 0.8, 1.0, 1.3, 2.0] {
                let places = (capacity * load) as usize;
                let tries = 200;
                let missing: usize = (0..tries)
                    .map(|_| {
                        let mut held = vec![0u64; sets];
                        (0..places).for_each(|_| held[rng.usize(0..sets)] += 1);
                        held.iter().filter(|&&h| h > ways).sum::<u64>() as usize
                    })
                    .sum();
                let simulated = missing as f64 / (places * tries) as f64;
                let formula = Shape::Scattered { ways }.miss_ratio(places as f64, capacity);
                assert!(
                    (simulated - formula).abs() < 0.02,
                    "{load}: {simulated} {formula}"
                );
            }
        }
    }

    /// A store of which three quarters never change once they are full.
    #[test]
    fn resistant_stores_agree_with_a_simulated_one() {
        let (kept, changing) = (192usize, 64usize);
        let mut rng = Rng::with_seed(4);
        for places in [280usize, 384, 600] {
            let mut held: Vec<usize> = (kept..kept + changing).collect();
            let (mut missing, laps) = (0, 400);
            for _ in 0..laps {
                for place in kept..places {
                    if !held.contains(&place) {
                        missing += 1;
                        held[rng.usize(0..changing)] = place;
                    }
                }
            }
            let simulated = f64::from(missing) / (places * laps) as f64;
            let shape = Shape::Resistant { kept_eighths: 6 };
            let formula = shape.miss_ratio(places as f64, (kept + changing) as f64);
            assert!(
                (simulated - formula).abs() < 0.02,
                "{places}: {simulated} {formula}"
            );
        }
    }

    /// The fraction of a cycle that misses a store with random replacement is tabulated as the
    /// final size of an epidemic: 0.583 at 1.5, 0.797 at 2 (Kermack and McKendrick 1927).
    #[test]
    fn random_replacement_matches_the_tabulated_equation() {
        assert_eq!(random_replacement(0.9), 0.0);
        assert!((random_replacement(1.5) - 0.5828).abs() < 1e-3);
        assert!((random_replacement(2.0) - 0.7968).abs() < 1e-3);
        assert!(random_replacement(1.02) < 0.06);
    }
}
