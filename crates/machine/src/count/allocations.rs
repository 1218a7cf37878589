//! Misses by the call that allocated the memory.
//!
//! Memory is charged to the site that it was last given to, also after it was given back; what an allocator touches
//! in a call, to that call's site. Allocators keep headers just before what they give: these go with it.

use crate::count::ranges::Ranges;
use crate::count::tally::Tally;
use pagelab_events::{Advice, Control};
use std::collections::HashMap;
use std::ops::Range;

/// Bytes before an allocation that go with it.
const HEADER: u64 = 16;

/// Payer: 0 for memory that no allocator has given, else one more than the number of a site.
pub(crate) type Charged = u32;
const ELSEWHERE: Charged = 0;

/// Counts of an allocation site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtSite {
    /// Misses of its memory; accesses are not counted.
    pub tally: Tally,
    /// Calls that gave memory.
    pub allocations: u64,
    /// Bytes that were asked for, over all calls.
    pub bytes: u64,
    /// The most bytes that were asked for and not yet given back.
    pub peak_bytes: u64,
    /// The most bytes of pages that first touches of its memory brought in.
    pub peak_resident_bytes: u64,
    live_bytes: u64,
    resident_bytes: u64,
}

impl AtSite {
    /// Adds what came of another site; what both had at once is no more than the sum.
    pub fn add(&mut self, other: &AtSite) {
        self.tally.add(&other.tally);
        self.allocations += other.allocations;
        self.bytes += other.bytes;
        self.peak_bytes += other.peak_bytes;
        self.peak_resident_bytes += other.peak_resident_bytes;
    }

    fn gave(&mut self, len: u64) {
        self.allocations += 1;
        self.bytes += len;
        self.live_bytes += len;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }

    fn came_in(&mut self, bytes: u64) {
        self.resident_bytes += bytes;
        self.peak_resident_bytes = self.peak_resident_bytes.max(self.resident_bytes);
    }
}

/// An address space.
#[derive(Clone, Debug, Default)]
struct Space {
    /// Memory that was given, also if it was given back since.
    given: Ranges<Charged>,
    /// Bytes of allocations that were not given back, by first address. Not a parent's.
    live: HashMap<u64, (u64, Charged)>,
    /// Pages by who is charged for their first touch. Not a parent's.
    resident: Ranges<Charged>,
    /// End of the heap.
    heap: u64,
}

/// Allocations of all programs on a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allocations {
    spaces: HashMap<u32, Space>,
    /// Sites at which threads are in a call of an allocator.
    calls: HashMap<(u32, u32), Charged>,
    /// The thread that runs.
    running: (u32, u32),
    /// Its site.
    call: Option<Charged>,
}

impl Allocations {
    /// A thread of a process runs now.
    pub(crate) fn switch(&mut self, process: u32, thread: u32) {
        self.running = (process, thread);
        self.call = self.calls.get(&self.running).copied();
    }

    /// Payer for an access of the running thread.
    pub(crate) fn charged(&self, process: u32, address: u64) -> Charged {
        if let Some(call) = self.call {
            return call;
        }
        let Some(Space { given, .. }) = self.spaces.get(&process) else {
            return ELSEWHERE;
        };
        let inside = given.at(address).map(|(_, charged)| charged);
        inside
            .or_else(|| given.behind(address, HEADER))
            .unwrap_or(ELSEWHERE)
    }

    /// True if a page is known to have come in.
    pub(crate) fn is_resident(&self, process: u32, address: u64) -> bool {
        let space = self.spaces.get(&process);
        space.is_some_and(|space| space.resident.at(address).is_some())
    }

    /// Pages have come in since an address was touched.
    pub(crate) fn came_in(
        &mut self,
        process: u32,
        touched: u64,
        pages: Range<u64>,
        sites: &mut Vec<AtSite>,
    ) {
        let charged = self.charged(process, touched);
        let space = self.spaces.entry(process).or_default();
        // A copy or a larger page replaces earlier ones.
        went(space.resident.cut(pages.start, pages.end), sites);
        space.resident.insert(pages.start, pages.end, charged);
        of(sites, charged).came_in(pages.end - pages.start);
    }

    /// Takes in an event of the running thread's process.
    pub(crate) fn control(&mut self, process: u32, control: &Control, sites: &mut Vec<AtSite>) {
        match *control {
            Control::Allocating { site } => {
                let charged = site.saturating_add(1);
                self.calls.insert(self.running, charged);
                self.call = Some(charged);
            }
            Control::Allocated { addr, len } => {
                let Some(charged) = self.calls.remove(&self.running) else {
                    return;
                };
                self.call = None;
                if addr != 0 {
                    let space = self.spaces.entry(process).or_default();
                    space.given.insert(addr, addr.saturating_add(len), charged);
                    free(space, addr, sites);
                    space.live.insert(addr, (len, charged));
                    of(sites, charged).gave(len);
                }
            }
            Control::Freed { addr } => {
                if let Some(space) = self.spaces.get_mut(&process) {
                    free(space, addr, sites);
                }
            }
            Control::Fork { child } => {
                let given = self.spaces.get(&process).map(|space| space.given.clone());
                let heap = self.spaces.get(&process).map_or(0, |space| space.heap);
                let child = self.spaces.entry(child).or_default();
                child.given = given.unwrap_or_default();
                child.heap = heap;
            }
            _ => self.mappings(process, control, sites),
        }
    }

    /// Takes in what an event makes of a process's mappings.
    fn mappings(&mut self, process: u32, control: &Control, sites: &mut Vec<AtSite>) {
        let space = self.spaces.entry(process).or_default();
        match *control {
            Control::Map { addr, len, .. } | Control::Unmap { addr, len } => {
                let end = addr.saturating_add(len);
                for (start, ..) in space.given.cut(addr, end) {
                    free(space, start, sites);
                }
                went(space.resident.cut(addr, end), sites);
            }
            Control::Advise {
                addr,
                len,
                advice: Advice::DontNeed | Advice::Free,
            } => went(space.resident.cut(addr, addr.saturating_add(len)), sites),
            Control::Remap {
                old_addr,
                old_len,
                new_addr,
                new_len,
            } => {
                let (old_end, new_end) = (
                    old_addr.saturating_add(old_len),
                    new_addr.saturating_add(new_len),
                );
                let given = space.given.cut(old_addr, old_end);
                let resident = space.resident.cut(old_addr, old_end);
                space.given.cut(new_addr, new_end);
                went(space.resident.cut(new_addr, new_end), sites);
                let moved = |at: u64| (at - old_addr).saturating_add(new_addr).min(new_end);
                for (start, end, charged) in given {
                    // The last one grows.
                    let end = if end == old_end { new_end } else { moved(end) };
                    space.given.insert(moved(start), end, charged);
                    if let Some(live) = space.live.remove(&start) {
                        space.live.insert(moved(start), live);
                    }
                }
                for (start, end, charged) in resident {
                    let kept = moved(start)..moved(end);
                    of(sites, charged).resident_bytes -= (end - start) - (kept.end - kept.start);
                    space.resident.insert(kept.start, kept.end, charged);
                }
            }
            Control::Brk { end } => {
                let before = std::mem::replace(&mut space.heap, end);
                if end < before {
                    went(
                        space.resident.cut(end.next_multiple_of(4096), before),
                        sites,
                    );
                }
            }
            Control::Exec | Control::Exit { .. } => {
                let mut space = self.spaces.remove(&process).unwrap_or_default();
                went(space.resident.cut(0, u64::MAX), sites);
                for (len, charged) in space.live.into_values() {
                    of(sites, charged).live_bytes -= len;
                }
                self.calls.retain(|(of, _), _| *of != process);
                self.switch(self.running.0, self.running.1);
            }
            _ => {}
        }
    }
}

/// Counts of a payer among a program's sites.
pub(crate) fn of(sites: &mut Vec<AtSite>, charged: Charged) -> &mut AtSite {
    let charged = charged as usize;
    if sites.len() <= charged {
        sites.resize(charged + 1, AtSite::default());
    }
    &mut sites[charged]
}

fn free(space: &mut Space, addr: u64, sites: &mut Vec<AtSite>) {
    if let Some((len, charged)) = space.live.remove(&addr) {
        of(sites, charged).live_bytes -= len;
    }
}

fn went(parts: Vec<(u64, u64, Charged)>, sites: &mut Vec<AtSite>) {
    for (start, end, charged) in parts {
        of(sites, charged).resident_bytes -= end - start;
    }
}
