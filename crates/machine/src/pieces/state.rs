//! The memory of a machine as it is at a place of a stream.

use super::survey::{Event, What};
use crate::error::RunError;
use crate::machine::MAX_FAULTS;
use pagelab_addr::{PageDirectory, Vpn};
use pagelab_os::{Effects, Os, OsError};
use pagelab_translation::{Page, PageTable};

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
        process: u32,
        what: What,
        effects: &mut Effects,
    ) -> Result<(), RunError> {
        let MemoryState {
            os,
            table,
            directory,
        } = self;
        effects.clear();
        match what {
            What::Control(control) => Ok(os.control(table, directory, process, &control, effects)?),
            What::Touch { vpn, store } => {
                self.touch(process, vpn, store, effects, |state, page, effects| {
                    let MemoryState {
                        os,
                        table,
                        directory,
                    } = state;
                    os.fault(table, directory, page, store, effects)
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
        fault: impl Fn(&mut Self, Page, &mut Effects) -> Result<(), OsError>,
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

/// Goes through a stream's events, ahead of the pieces.
pub(super) struct Leader<P> {
    state: Option<MemoryState<P>>,
    /// Whether instructions are fetched.
    fetches: bool,
    /// The event that comes next.
    next: usize,
    effects: Effects,
    /// Pieces that have begun.
    pub(super) begun: usize,
}

impl<P: PageTable + Clone> Leader<P> {
    pub(super) fn new(state: MemoryState<P>, fetches: bool) -> Self {
        Leader {
            state: Some(state),
            fetches,
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
        let state = self.state.as_mut()?;
        while let Some(event) = events.get(self.next)
            && event.after < accesses
        {
            self.next += 1;
            if !self.fetches && matches!(event.what, What::Fetch { .. }) {
                continue;
            }
            let done = state.carry_out(event.process, event.what, &mut self.effects);
            if done.is_err() {
                self.state = None;
                return None;
            }
        }
        if last {
            self.state.take()
        } else {
            self.state.clone()
        }
    }
}
