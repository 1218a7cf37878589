//! Zipfian numbers.

use crate::hash::unit;

/// Draws from 0..items with probabilities in proportion to 1 / (rank + 1)^theta, by the method of
/// Gray et al. ("Quickly generating billion-record synthetic databases", SIGMOD 1994) that YCSB
/// uses: exact for the two most frequent, inverted from the integral for the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    items: f64,
    theta: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// `theta` lies between 0, where all are as likely, and 1, which it may not be.
    pub(crate) fn new(items: u64, theta: f64) -> Self {
        let n = items as f64;
        let zeta = zeta(items, theta);
        Zipf {
            items: n,
            theta,
            zeta,
            alpha: 1.0 / (1.0 - theta),
            eta: (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - (1.0 + 0.5f64.powf(theta)) / zeta),
        }
    }

    /// The rank that a random number stands for.
    #[inline]
    pub(crate) fn rank(&self, random: u64) -> u64 {
        let u = unit(random);
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let rank = self.items * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        rank.min(self.items - 1.0) as u64
    }
}

/// The sum of 1 / i^theta for i from 1 to n: term by term, and by the Euler-Maclaurin formula
/// from where its error is below 1e-9.
fn zeta(n: u64, theta: f64) -> f64 {
    const TERMS: u64 = 10_000;
    let term = |i: u64| (i as f64).powf(-theta);
    let head: f64 = (1..=n.min(TERMS)).map(term).sum();
    if n <= TERMS {
        return head;
    }
    let (from, to) = (TERMS as f64, n as f64);
    let integral = (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
    head + integral + (term(n) - term(TERMS)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::random;

    /// The constant in YCSB's ScrambledZipfianGenerator, for 10^10 items and theta 0.99.
    #[test]
    fn zeta_is_that_of_ycsb() {
        assert!((zeta(10_000_000_000, 0.99) - 26.469_028_201_783_02).abs() < 1e-6);
    }

    #[test]
    fn ranks_are_as_frequent_as_theory_has_it() {
        const DRAWS: u64 = 400_000;
        for theta in [0.5, 0.9, 0.99] {
            let items = 100_000;
            let zipf = Zipf::new(items, theta);
            let mut counts = vec![0u64; items as usize];
            for draw in 0..DRAWS {
                counts[zipf.rank(random(3, draw)) as usize] += 1;
            }
            let total: f64 = (1..=items).map(|i| (i as f64).powf(-theta)).sum();
            // Decades: the method is exact in the first two ranks and an approximation beyond.
            for (from, to, tolerance) in [
                (0, 1, 0.02),
                (1, 2, 0.03),
                (10, 100, 0.05),
                (100, 1000, 0.03),
                (1000, 100_000, 0.03),
            ] {
                let seen: u64 = counts[from..to].iter().sum();
                let expected: f64 = (from + 1..=to)
                    .map(|i| (i as f64).powf(-theta))
                    .sum::<f64>()
                    / total;
                let share = seen as f64 / DRAWS as f64;
                let slack = 4.0 * (expected / DRAWS as f64).sqrt();
                assert!(
                    (share - expected).abs() < tolerance * expected + slack,
                    "theta {theta}, ranks {from}..{to}: {share} for {expected}"
                );
            }
        }
    }
}
