//! The memory of a machine as it is at a place of a stream.

use super::event::{Event, What};
use super::fills::Fills;
use super::recent::{Line, Past, Used};
use crate::config::MachineConfig;
use crate::error::RunError;
use crate::machine::{MAX_FAULTS, reference};
use pagelab_addr::{PageDirectory, Pfn, Vpn};
use pagelab_os::{Effects, Os, OsError};
use pagelab_translation::{Page, PageTable, Translation};
use std::collections::HashMap;

/// Frames, address spaces and page table, and how pages are named: what a piece needs exactly.
///
/// None of it depends on what TLB and caches hold: a page fault happens where the page table has no
/// translation, or none that may be written.
#[derive(Clone, Debug)]
pub(crate) struct MemoryState<P> {
    pub(crate) os: Os,
    pub(crate) table: P,
    pub(crate) directory: PageDirectory,
}

impl<P: PageTable> MemoryState<P> {
    /// Does what an event of the stream does to it.
    fn carry_out(
        &mut self,
        event: &Event,
        effects: &mut Effects,
        fills: &mut Fills,
    ) -> Result<(), RunError> {
        let MemoryState {
            os,
            table,
            directory,
        } = self;
        effects.clear();
        let process = event.process;
        match event.what {
            What::Control(control) => Ok(os.control(table, directory, process, &control, effects)?),
            What::Touch { vpn, store } => {
                self.touch(process, vpn, store, effects, |state, page, effects| {
                    let MemoryState {
                        os,
                        table,
                        directory,
                    } = state;
                    os.fault(table, directory, page, store, effects)?;
                    fills.note(event.after, page, table, effects);
                    Ok(())
                })
            }
            What::Fetch { vpn } => {
                self.touch(process, vpn, false, effects, |state, page, effects| {
                    let MemoryState {
                        os,
                        table,
                        directory,
                    } = state;
                    os.fault_code(table, directory, page, effects)
                })
            }
        }
    }

    /// As the machine walks and takes faults (`Machine::walk`, `Machine::walk_for_code`).
    fn touch(
        &mut self,
        process: u32,
        vpn: Vpn,
        store: bool,
        effects: &mut Effects,
        mut fault: impl FnMut(&mut Self, Page, &mut Effects) -> Result<(), OsError>,
    ) -> Result<(), RunError> {
        let asid = Os::asid(process)?;
        let id = self.directory.page(asid, vpn)?;
        let page = Page { id, asid, vpn };
        for _ in 0..=MAX_FAULTS {
            if let Some(found) = self.table.lookup(page)
                && (found.writable || !store)
            {
                return Ok(());
            }
            effects.clear();
            fault(self, page, effects)?;
        }
        let Vpn(vpn) = page.vpn;
        Err(RunError::Unresolved {
            address: Vpn(vpn).address().0,
        })
    }
}

/// Mapping of a page; `directory` is one to number in what is not known yet.
pub(super) fn look_up(
    table: &impl PageTable,
    directory: &mut PageDirectory,
    process: u32,
    vpn: Vpn,
) -> Option<Translation> {
    let asid = Os::asid(process).ok()?;
    let id = directory.page(asid, vpn).ok()?;
    table.lookup(Page { id, asid, vpn })
}

/// A part of the warm-up of a piece's caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Warmth {
    /// A line of a page, by its address.
    Page(Line),
    /// A physical line that was used under an address which has another page by now, or none.
    Frame(u32),
    /// A frame that the kernel has filled in a fault.
    Filled(Pfn),
    /// Time of so many accesses, in which others bring lines into the last level.
    Passed(u64),
}

impl Warmth {
    /// The line of a page's data, if it is one.
    pub(super) fn data(&self) -> Option<Line> {
        match *self {
            Warmth::Page(line) if !line.is_code() => Some(line),
            _ => None,
        }
    }
}

/// A page as it was until so many accesses of the stream.
type WhatWas = (u64, u32, Vpn);

/// Goes through a stream's events, ahead of the pieces.
pub(super) struct Leader<P> {
    state: Option<MemoryState<P>>,
    /// Pages whose frames are wanted that they had once, in order, and how far they have been found.
    wanted: Vec<WhatWas>,
    found: usize,
    frames: HashMap<WhatWas, Pfn>,
    fills: Fills,
    /// Others use the last level.
    others: bool,
    /// Instructions are fetched.
    fetches: bool,
    /// The event that comes next.
    next: usize,
    effects: Effects,
    /// Pieces that have begun.
    pub(super) begun: usize,
}

impl<P: PageTable + Clone> Leader<P> {
    /// Begins before the first event. `lines` are those of all pieces.
    pub(super) fn new<'a>(
        state: MemoryState<P>,
        config: &MachineConfig,
        lines: impl Iterator<Item = &'a Used>,
    ) -> Self {
        let gone = lines.filter(|used| !used.is_there());
        let mut wanted: Vec<WhatWas> = gone.map(what_was).collect();
        wanted.sort_unstable();
        wanted.dedup();
        Leader {
            state: Some(state),
            wanted,
            found: 0,
            frames: HashMap::new(),
            fills: Fills::of(config),
            others: config.caches.others.is_some(),
            fetches: config.fetch.is_some(),
            next: 0,
            effects: Effects::default(),
            begun: 0,
        }
    }

    /// The memory after so many accesses, before anything that happens after them; it is given away
    /// if it is the last that is wanted. `None` where an event before has failed: whoever has it
    /// comes upon that, too.
    pub(super) fn at(
        &mut self,
        accesses: u64,
        events: &[Event],
        last: bool,
    ) -> Option<MemoryState<P>> {
        while let Some(event) = events.get(self.next)
            && event.after < accesses
        {
            self.find_frames(event.after);
            let state = self.state.as_mut()?;
            self.next += 1;
            if !self.fetches && matches!(event.what, What::Fetch { .. }) {
                continue;
            }
            let done = state.carry_out(event, &mut self.effects, &mut self.fills);
            if done.is_err() {
                self.state = None;
                return None;
            }
        }
        self.find_frames(accesses);
        if last {
            self.state.take()
        } else {
            self.state.clone()
        }
    }

    /// Finds what pages are mapped to that are as they were until so many accesses.
    fn find_frames(&mut self, until: u64) {
        let Some(state) = &self.state else { return };
        let from = self.found;
        let wanted = self.wanted[from..].iter();
        let wanted = wanted.take_while(|past| past.0 <= until);
        let mut directory = None;
        for &past in wanted {
            self.found += 1;
            let (_, process, vpn) = past;
            let directory = directory.get_or_insert_with(|| state.directory.clone());
            if let Some(found) = look_up(&state.table, directory, process, vpn) {
                self.frames.insert(past, found.pfn);
            }
        }
    }

    /// Warm-up before so many accesses of lines, all of which are known by now, and of frames that the kernel has
    /// filled: among the lines that were used last in the same part of an interval as if last uses were spread evenly
    /// over it.
    pub(super) fn warmth(&self, past: &Past, accesses: u64) -> Vec<Warmth> {
        let mut warmth = Vec::with_capacity(past.lines.len());
        let mut fills = self.fills.iter().peekable();
        let mut passed = 0;
        for (lines, begins, ends) in past.parts(accesses) {
            let each = (ends - begins) as f64 / lines.len() as f64;
            for (number, used) in (0..).zip(lines) {
                let until = begins + (f64::from(number) * each) as u64;
                // Not before each: what is used in a row is brought in together.
                if self.others && number % 1024 == 0 && until > passed {
                    warmth.push(Warmth::Passed(until - passed));
                    passed = until;
                }
                let filled = std::iter::from_fn(|| fills.next_if(|fill| fill.0 < until));
                warmth.extend(filled.map(|&(_, pfn)| Warmth::Filled(pfn)));
                warmth.extend(self.warm(used));
            }
        }
        warmth.extend(fills.map(|&(_, pfn)| Warmth::Filled(pfn)));
        if self.others {
            warmth.push(Warmth::Passed(accesses.saturating_sub(passed)));
        }
        warmth
    }

    fn warm(&self, used: &Used) -> Option<Warmth> {
        let line = used.line;
        if used.is_there() {
            return Some(Warmth::Page(line));
        }
        let &pfn = self.frames.get(&what_was(used))?;
        Some(Warmth::Frame(reference(pfn, line.addr(), line.op())))
    }
}

fn what_was(used: &Used) -> WhatWas {
    (used.until, used.line.process(), used.line.vpn())
}
