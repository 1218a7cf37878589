//! Lines that were flushed from all caches: what memory takes, whoever uses the last level, and without
//! a walk.
//!
//! Where a line is decides, too: in a guest one block of memory took half as long again as another, for
//! as long as it was there (docs/measure.md). So each lap is in pages of its own, from all over as much
//! memory as a small program has.

use crate::chain::{Chain, LINE};
use crate::places::{Pages, Places, Region, Spread};
use crate::system::mapping::PAGE;
use crate::system::{Refused, budget};
use fastrand::Rng;

/// Memory to flush lines of and to read them.
#[derive(Debug)]
pub struct FlushedLines {
    region: Region,
}

/// Pages of a lap: no first-level TLB has fewer entries.
const PAGES: usize = 16;
const LINES: usize = PAGE / LINE;

impl FlushedLines {
    /// # Errors
    /// When there is no memory.
    pub fn new() -> Result<FlushedLines, Refused> {
        const MOST: u64 = 256 << 20;
        let len = (budget::bytes() / 4).min(MOST) as usize;
        let region = Region::new(len.max(PAGES * PAGE), Pages::Small, Spread::Packed)?;
        Ok(FlushedLines { region })
    }

    /// Nanoseconds a load of a chain of them; `None` where no instruction flushes a line.
    pub fn latency(&mut self, rng: &mut Rng) -> Option<f64> {
        self.flushed(rng).map(|chain| chain.one_lap())
    }

    /// Nanoseconds of each load of such a chain; `None` also where single loads cannot be timed (see
    /// [`Chain::each_of_one_lap`]).
    pub fn each(&mut self, rng: &mut Rng) -> Option<Vec<f64>> {
        self.flushed(rng)?.each_of_one_lap()
    }

    /// Eight lines of each of some pages, no two of a pair that a prefetcher would complete, whose
    /// translations are there.
    fn flushed(&mut self, rng: &mut Rng) -> Option<Chain> {
        let pages = self.region.count() / LINES;
        let mut order = Vec::with_capacity(PAGES * 8);
        for part in 0..PAGES {
            // One page of each part of the memory, so that none comes twice.
            let page = part * (pages / PAGES) + rng.usize(0..pages / PAGES);
            order.extend((0..8).map(|pair| page * LINES + pair * 8 + rng.usize(0..8)));
        }
        rng.shuffle(&mut order);
        let chain = self.region.chain(&order);
        chain.one_lap();
        self.region.flush(&order).then_some(chain)
    }
}
