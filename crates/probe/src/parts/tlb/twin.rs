//! Cost of the caches in a chain: the same chain without its translations.

use super::super::{Context, Failure};
use crate::chain::LINE;
use crate::places::{Aliases, Grouped, Pages, Places, Region, Spread, latency};
use crate::stats::median;
use fastrand::Rng;

/// Layout of a chain in the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Eight links to a line ([`Aliases`]).
    Dense,
    /// A line for each link.
    Lines,
}

/// A chain of as many links in few pages, measured in turn with the chain of many pages. What that
/// takes longer is the translation's.
pub struct Twin {
    region: Region,
    lines: usize,
    /// Nanoseconds of a load that hits everywhere.
    hit: f64,
    /// Nanoseconds more if the line was last reached through another address.
    alias_penalty: f64,
}

impl Twin {
    pub fn new(context: &mut Context, lines: usize) -> Result<Twin, Failure> {
        let len = lines * LINE;
        let region = Region::new(len, Pages::Huge, Spread::Packed).or_else(|error| {
            context.skip(
                "huge pages for the comparison chain (it has few misses itself)",
                error,
            );
            Region::new(len, Pages::Small, Spread::Packed)
        });
        let mut twin = Twin {
            region: region?,
            lines,
            hit: f64::NAN,
            alias_penalty: Aliases::penalty(&mut context.rng)?,
        };
        let samples: Vec<f64> = (0..15)
            .map(|_| latency(&mut twin.region, 32, &mut context.rng))
            .collect();
        twin.hit = median(&samples).unwrap_or(f64::NAN);
        Ok(twin)
    }

    /// Nanoseconds of a load that hits everywhere.
    pub fn hit(&self) -> f64 {
        self.hit
    }

    /// Nanoseconds more if the line was last reached through another address.
    pub fn alias_penalty(&self) -> f64 {
        self.alias_penalty
    }

    /// Places of the longest chain it can follow.
    pub fn count(&self) -> usize {
        self.lines
    }

    /// Nanoseconds of a load of `places` if the caches cost nothing beyond a hit.
    ///
    /// Where a line that is reached through changing addresses costs a miss of the first level
    /// anyway, there is nothing to take off: all links of the chain fit into the second.
    pub fn correct(
        &mut self,
        places: &mut dyn Places,
        links: Links,
        count: u64,
        rng: &mut Rng,
    ) -> f64 {
        let with = latency(places, count, rng);
        let caches = match links {
            Links::Dense if self.alias_penalty > self.hit / 4.0 => 0.0,
            Links::Dense => self.without(Spread::Dense, count, rng) - self.hit,
            Links::Lines => self.without(Spread::Packed, count, rng) - self.hit,
        };
        // Noise must not make it vanish: logarithms are taken of it.
        (with - caches.max(0.0)).max(self.hit / 4.0)
    }

    /// Eight lines of a page are visited together: a hypervisor may have broken the huge pages
    /// up, and then this chain has TLB misses as well, but an eighth of them.
    fn without(&mut self, spread: Spread, count: u64, rng: &mut Rng) -> f64 {
        self.region.respread(spread);
        let mut grouped = Grouped::lines_of_a_page(&mut self.region);
        latency(&mut grouped, count, rng)
    }
}
