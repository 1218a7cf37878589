//! Prefetchers of translations: at a miss of the second-level TLB they say which pages will miss
//! next; those are walked for in the background, into a buffer beside that TLB.
//! docs/designs/tlb-prefetch.md says what is whose and what had to be chosen.
//!
//! A prefetcher is a file with a [`Prefetcher`] and a line of `prefetchers!` in `config.rs`.

mod agile;
mod config;
mod distance;
#[cfg(test)]
mod example;
mod free;
mod lru_table;
mod prefetcher;
mod sequential;
mod stride;

pub use config::TlbPrefetchConfig;

use super::{PrefetchWalk, Walks};
use crate::machine::requests::MOST_AHEAD;
use free::{Free, moved};
use pagelab_addr::{PageId, PageSize};
use pagelab_events::NO_SITE;
use pagelab_translation::{Page, PageTable, Translation, Walk};
use prefetcher::{Miss, Prefetcher};
use std::collections::VecDeque;

/// A translation that nobody has asked for yet.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// In pages of its size, of which this is the order.
    number: u32,
    order: u8,
    /// Distance from the page whose walk read its line; 0 for one that was walked for.
    distance: i8,
}

impl Entry {
    fn has(&self, page: PageId) -> bool {
        page.0 >> self.order == self.number
    }
}

/// Prefetches of one core.
#[derive(Debug)]
pub(super) struct TlbPrefetch {
    /// In the order in which they came.
    buffer: VecDeque<Entry>,
    entries: usize,
    prefetcher: Box<dyn Prefetcher>,
    free: Option<Free>,
    next: Vec<i64>,
    /// Cycles to look into the buffer.
    pub(super) cycles: u32,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    issued: u64,
    unmapped: u64,
    useful: u64,
    free: u64,
    free_useful: u64,
    invalidated: u64,
}

impl TlbPrefetch {
    pub(super) fn new(config: &TlbPrefetchConfig) -> Self {
        TlbPrefetch {
            buffer: VecDeque::new(),
            entries: config.entries as usize,
            prefetcher: config.prefetcher.start(),
            free: config.free.then(Free::default),
            next: Vec::new(),
            cycles: config.cycles,
            counts: Counts::default(),
        }
    }

    /// Takes a page's translation out of the buffer; whether it was there.
    pub(super) fn take(&mut self, page: PageId) -> bool {
        let Some(at) = self.buffer.iter().position(|entry| entry.has(page)) else {
            if let Some(free) = &mut self.free {
                free.missed(page);
            }
            return false;
        };
        let distance = self.buffer.remove(at).map_or(0, |entry| entry.distance);
        self.counts.useful += 1;
        if let Some(free) = self.free.as_mut().filter(|_| distance != 0) {
            free.useful(distance);
            self.counts.free_useful += 1;
        }
        true
    }

    /// A page has missed and been found: walks for those that come next.
    pub(super) fn missed<P: PageTable>(
        &mut self,
        (core, page, instruction): (usize, Page, u32),
        size: PageSize,
        table: &mut P,
        walks: &mut Walks,
    ) {
        let number = (page.vpn.0 >> size.order()) as i64;
        let miss = Miss {
            page: number,
            instruction: Some(instruction).filter(|&site| site != NO_SITE),
        };
        self.next.clear();
        self.prefetcher.missed(miss, &mut self.next);
        walks.behind.clear();
        for at in 0..self.next.len().min(MOST_AHEAD) {
            let next = self.next[at];
            if self.next[..at].contains(&next) {
                continue;
            }
            let Some(target) = moved(page, size, next - number) else {
                continue;
            };
            if target.id != page.id && !self.buffer.iter().any(|entry| entry.has(target.id)) {
                self.walk(core, target, table, walks);
            }
        }
    }

    /// Walks for a page, if it is mapped, into the buffer.
    fn walk<P: PageTable>(&mut self, core: usize, page: Page, table: &mut P, walks: &mut Walks) {
        let Walks { behind, ahead, .. } = walks;
        let so_far = |walk: &Walk| (walk.reads().len(), walk.cycles());
        let (reads, cycles) = so_far(behind);
        let found = table.walk(core, page, behind);
        let (reads_now, cycles_now) = so_far(behind);
        self.counts.issued += 1;
        self.counts.unmapped += u64::from(found.is_none());
        ahead.push(PrefetchWalk {
            page: found.map(|found| (page.id.0, self.line_shift(found.size))),
            reads: (reads_now - reads) as u16,
            walk: cycles_now - cycles,
        });
        if let Some(Translation { size, .. }) = found {
            self.enter(page.id, size, 0);
            self.walked(page, size, table);
        }
    }

    /// A walk has found a page: takes what is worth it of the line that it has read. Returns log2
    /// of the base pages around it that may have come with it.
    pub(super) fn walked<P: PageTable>(&mut self, page: Page, size: PageSize, table: &P) -> u8 {
        let Some(mut free) = self.free.take() else {
            return 0;
        };
        for (distance, other) in free::neighbours(page, size) {
            let mapped = table.found(other).is_some_and(|found| found.size == size);
            if !mapped || self.buffer.iter().any(|entry| entry.has(other.id)) {
                continue;
            }
            if free.worth(distance) {
                self.enter(other.id, size, distance);
                self.counts.free += 1;
            } else {
                free.sample(other.id, size, distance);
            }
        }
        self.free = Some(free);
        self.line_shift(size)
    }

    fn enter(&mut self, page: PageId, size: PageSize, distance: i8) {
        if self.buffer.len() == self.entries {
            self.buffer.pop_front();
        }
        self.buffer.push_back(Entry {
            number: page.0 >> size.order(),
            order: size.order() as u8,
            distance,
        });
    }

    /// log2 of the base pages whose translations come with one of a size.
    fn line_shift(&self, size: PageSize) -> u8 {
        let others = if self.free.is_some() { free::SHIFT } else { 0 };
        (size.order() + others) as u8
    }

    /// Forgets base pages.
    pub(super) fn invalidate(&mut self, first: PageId, pages: u32) {
        let last = first.0 + pages - 1;
        let stale = |number: u32, order: u8| (first.0 >> order..=last >> order).contains(&number);
        let before = self.buffer.len();
        self.buffer
            .retain(|entry| !stale(entry.number, entry.order));
        self.counts.invalidated += (before - self.buffer.len()) as u64;
        if let Some(free) = &mut self.free {
            free.forget(stale);
        }
    }

    pub(super) fn counters(&self) -> Vec<(&'static str, u64)> {
        let Counts {
            issued,
            unmapped,
            useful,
            free,
            free_useful,
            invalidated,
        } = self.counts;
        let mut counters = vec![
            ("prefetches_issued", issued),
            ("prefetches_unmapped", unmapped),
            ("prefetches_useful", useful),
            ("prefetches_invalidated", invalidated),
        ];
        if self.free.is_some() {
            counters.extend([
                ("free_prefetches", free),
                ("free_prefetches_useful", free_useful),
            ]);
        }
        counters
    }
}
