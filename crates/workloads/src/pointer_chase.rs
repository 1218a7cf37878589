use crate::{BASE, BATCH, Parameter, Parameters, Workload};
use pagelab_addr::{LINE_BYTES, PAGE_BYTES};
use pagelab_events::{Access, Backing, Batch, Control, Op, Protection, Source, SourceError};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// One load a page, each giving the address of the next: every translation's latency shows.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "pointer-chase",
    description: "a chain of dependent loads, one line a page, over N pages in random order",
    parameters: &[
        Parameter {
            name: "pages",
            description: "pages of the chain",
            default: 100_000,
            min: 1,
            max: 1 << 28,
        },
        Parameter {
            name: "loads",
            description: "loads, after one store to each page has stood for its initialisation",
            default: 10_000_000,
            min: 0,
            max: 1 << 60,
        },
        Parameter {
            name: "seed",
            description: "of the order of the pages",
            default: 1,
            min: 0,
            max: u64::MAX,
        },
    ],
    build: |parameters| Box::new(PointerChase::new(parameters)),
};

struct PointerChase {
    /// The page that follows each page; one cycle through all of them.
    next: Vec<u32>,
    initialised: u64,
    at: u32,
    loads: u64,
    started: bool,
    chasing: bool,
}

impl PointerChase {
    fn new(parameters: &Parameters) -> Self {
        PointerChase {
            next: cycle(parameters.get("pages") as u32, parameters.get("seed")),
            initialised: 0,
            at: 0,
            loads: parameters.get("loads"),
            started: false,
            chasing: false,
        }
    }
}

/// A random cyclic permutation (Sattolo's algorithm): no shorter cycle can hide in it.
fn cycle(pages: u32, seed: u64) -> Vec<u32> {
    let mut next: Vec<u32> = (0..pages).collect();
    let mut random = SmallRng::seed_from_u64(seed);
    for last in (1..next.len()).rev() {
        next.swap(last, random.random_range(0..last));
    }
    next
}

/// The line of a page that the chain uses: another one in each page, so that the chain spreads
/// over the sets of a cache.
fn address(page: u64) -> u64 {
    BASE + page * PAGE_BYTES + page * LINE_BYTES % PAGE_BYTES
}

impl Source for PointerChase {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let pages = self.next.len() as u64;
        if !self.started {
            self.started = true;
            batch.push_control(Control::Map {
                addr: BASE,
                len: pages * PAGE_BYTES,
                prot: Protection(Protection::READ | Protection::WRITE),
                backing: Backing::Anonymous,
                populate: false,
            });
        } else if self.initialised == pages && self.loads == 0 {
            return Ok(false);
        }
        batch.push_control(Control::Thread { thread: 0 });
        while self.initialised < pages && batch.len() < BATCH {
            batch.push(Access {
                addr: address(self.initialised),
                op: Op::store(8),
                gap: 2,
                dep: 0,
            });
            self.initialised += 1;
        }
        while self.initialised == pages && self.loads > 0 && batch.len() < BATCH {
            batch.push(Access {
                addr: address(u64::from(self.at)),
                op: Op::load(8),
                gap: 0,
                dep: u32::from(self.chasing),
            });
            self.chasing = true;
            self.at = self.next[self.at as usize];
            self.loads -= 1;
        }
        if self.initialised == pages && self.loads == 0 {
            batch.push_control(Control::Exit { status: 0 });
        }
        Ok(true)
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.next.len() as u64 - self.initialised + self.loads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_visits_every_page_before_it_returns() {
        for pages in [1, 2, 3, 1000] {
            let next = cycle(pages, 7);
            let (mut at, mut length) = (0, 0);
            loop {
                at = next[at as usize];
                length += 1;
                if at == 0 {
                    break;
                }
            }
            assert_eq!(length, pages);
        }
    }
}
