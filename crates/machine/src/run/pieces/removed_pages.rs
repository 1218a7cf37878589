//! Pages that are taken away: unmapped, replaced, given back, or left by a process that ends.
//!
//! Their frames go to others, and what caches hold of these stays there. `touched.rs` follows the same
//! events for another end: it must forget a page too many rather than one too few, and these are named
//! by when they went, so that none may be too many.

use super::event::{Event, What};
use pagelab_addr::{PAGE_BYTES, PAGE_SHIFT};
use pagelab_events::{Advice, Control};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Pages of an address space, by number.
type Pages = Range<u64>;

const ALL: Pages = 0..u64::MAX;
const NONE: Pages = 0..0;

fn pages(addr: u64, len: u64) -> Pages {
    let end = addr.saturating_add(len).saturating_add(PAGE_BYTES - 1);
    addr >> PAGE_SHIFT..end >> PAGE_SHIFT
}

/// Follows what control events take away from processes.
#[derive(Default)]
pub(super) struct Taking {
    /// The page behind each heap, if that has been said.
    heaps: HashMap<u32, u64>,
}

impl Taking {
    /// Pages that this one takes away from its process.
    pub(super) fn control(&mut self, process: u32, control: &Control) -> [Pages; 2] {
        match *control {
            Control::Map { addr, len, .. }
            | Control::Unmap { addr, len }
            | Control::Advise {
                addr,
                len,
                advice: Advice::DontNeed | Advice::Free,
            } => [pages(addr, len), NONE],
            Control::Remap {
                old_addr,
                old_len,
                new_addr,
                new_len,
            } if old_addr == new_addr => {
                let kept = new_len.min(old_len);
                [pages(old_addr.saturating_add(kept), old_len - kept), NONE]
            }
            Control::Remap {
                old_addr,
                old_len,
                new_addr,
                new_len,
            } => [pages(old_addr, old_len), pages(new_addr, new_len)],
            Control::Brk { end } => {
                // The page that it ends in stays.
                let end = end.div_ceil(PAGE_BYTES);
                let before = self.heaps.insert(process, end).unwrap_or(end);
                [end..before.max(end), NONE]
            }
            Control::Exec | Control::Exit { .. } => {
                self.heaps.remove(&process);
                [ALL, NONE]
            }
            Control::Fork { child } => {
                if let Some(&end) = self.heaps.get(&process) {
                    self.heaps.insert(child, end);
                }
                [NONE, NONE]
            }
            _ => [NONE, NONE],
        }
    }
}

/// After how many accesses pages that had been used were taken away: times of each page, in order.
#[derive(Default)]
pub(super) struct RemovedPages(HashMap<(u32, u64), Vec<u64>>);

impl RemovedPages {
    /// Pages taken by events before so many accesses.
    pub(super) fn of(events: &[Event], before: u64) -> Self {
        let events = &events[..events.partition_point(|event| event.after < before)];
        let ever = Ever::of(events);
        let mut times = HashMap::<_, Vec<u64>>::new();
        let mut used = BTreeSet::new();
        let mut taking = Taking::default();
        for &Event {
            after,
            process,
            what,
        } in events
        {
            match what {
                What::Touch { vpn, .. } | What::Fetch { vpn } => {
                    if ever.has(process, vpn.0) {
                        used.insert((process, vpn.0));
                    }
                }
                What::Control(control) => {
                    for Range { start, end } in taking.control(process, &control) {
                        let pages = (process, start)..(process, end.max(start));
                        let gone: Vec<_> = used.range(pages).copied().collect();
                        for page in gone {
                            used.remove(&page);
                            times.entry(page).or_default().push(after);
                        }
                    }
                }
            }
        }
        RemovedPages(times)
    }

    /// True if no page was.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of times that a page was taken away before so many accesses.
    pub(super) fn before(&self, process: u32, page: u64, accesses: u64) -> usize {
        let times = self.0.get(&(process, page));
        times.map_or(0, |times| times.partition_point(|&at| at < accesses))
    }
}

/// Pages that are taken away at any time, used or not: few of those that most programs use.
struct Ever(HashMap<u32, Vec<Pages>>);

impl Ever {
    fn of(events: &[Event]) -> Self {
        let mut all = HashMap::<u32, Vec<Pages>>::new();
        let mut taking = Taking::default();
        for event in events {
            if let What::Control(control) = &event.what {
                let pages = taking.control(event.process, control);
                let of = all.entry(event.process).or_default();
                of.extend(pages.into_iter().filter(|pages| !pages.is_empty()));
            }
        }
        for of in all.values_mut() {
            of.sort_unstable_by_key(|pages| pages.start);
            of.dedup_by(|next, before| {
                let joins = next.start <= before.end;
                if joins {
                    before.end = before.end.max(next.end);
                }
                joins
            });
        }
        Ever(all)
    }

    fn has(&self, process: u32, page: u64) -> bool {
        self.0.get(&process).is_some_and(|of| {
            let next = of.partition_point(|pages| pages.start <= page);
            next > 0 && page < of[next - 1].end
        })
    }
}
