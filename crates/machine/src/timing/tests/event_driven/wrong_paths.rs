//! Branches after which the core executes what is thrown away when they are decided.

use super::pipeline::loads;
use super::{Event, Twin};
use std::collections::HashSet;

#[derive(Debug, Default)]
pub(super) struct WrongPaths {
    /// Branches that have not been decided, in the order of the program.
    open: Vec<Branch>,
    /// For each access: when it was dispatched again, if it was; 0 if not.
    again: Vec<u64>,
    /// When there is somebody to look, and whether it is now.
    looks: HashSet<u64>,
    pub(super) looking: bool,
}

#[derive(Clone, Copy, Debug)]
struct Branch {
    access: usize,
    /// Number of instructions before it, and when it is dispatched.
    instruction: usize,
    dispatched: u64,
    dep: u32,
    reconverges: bool,
}

impl Twin<'_> {
    pub(super) fn on_wrong_path(&self) -> bool {
        !self.wrong_paths.open.is_empty()
    }

    /// The branch before the next access, of which it is not known where it goes.
    pub(super) fn branch_off(&mut self, dep: u32, reconverges: bool) {
        let known = self.wrong_paths.open.last();
        if known.is_some_and(|last| last.access == self.next_access) {
            return;
        }
        let dispatched = self.dispatched.last().copied().unwrap_or(0);
        let dispatched = dispatched.max(self.dispatch_from.saturating_sub(1));
        self.wrong_paths.open.push(Branch {
            access: self.next_access,
            instruction: self.dispatched.len(),
            dispatched,
            dep,
            reconverges,
        });
    }

    /// True if an instruction that could be dispatched at `time` has to wait until it is known which branches have
    /// been decided by then.
    pub(super) fn waits_to_be_dispatched(&mut self, time: u64) -> bool {
        let Some(first) = self.wrong_paths.open.first() else {
            return false;
        };
        if !first.reconverges {
            return true;
        }
        let unknown = time > self.now || (time == self.now && !self.wrong_paths.looking);
        if unknown {
            self.look(time);
        }
        unknown
    }

    fn look(&mut self, time: u64) {
        if self.wrong_paths.looks.insert(time) {
            self.at(time, usize::MAX, Event::Look);
        }
    }

    /// Throws away what is on wrong paths of branches that have been decided by now.
    pub(super) fn decide(&mut self) {
        while let Some(&branch) = self.wrong_paths.open.first() {
            let mut decided = branch.dispatched;
            for load in loads(branch.access, branch.dep) {
                match self.completed[load] {
                    Some(completed) => decided = decided.max(completed),
                    None => return,
                }
            }
            if decided > self.now || (decided == self.now && !self.wrong_paths.looking) {
                self.look(decided);
                return;
            }
            self.wrong_paths.open.remove(0);
            self.throw_away(&branch, decided + self.parameters.misprediction);
        }
    }

    /// All that is younger than a branch is dispatched again, from after `time` on.
    fn throw_away(&mut self, branch: &Branch, time: u64) {
        for (place, dispatched) in (1..).zip(&mut self.dispatched[branch.instruction..]) {
            *dispatched = (*dispatched).max(time + place);
        }
        for later in &mut self.wrong_paths.open {
            let place = (later.instruction - branch.instruction) as u64;
            later.dispatched = later.dispatched.max(time + place);
        }
        self.dispatch_from = self.dispatch_from.max(time + 1);
        self.wrong_paths.again.resize(self.accesses.len(), 0);
        for access in branch.access..self.next_access {
            let again = self.dispatched[self.instruction[access]];
            self.wrong_paths.again[access] = again;
            if let Some(completed) = &mut self.completed[access] {
                *completed = (*completed).max(again + self.parameters.latency[0]);
            }
        }
    }

    /// True if an access that could start now starts later, since it has been thrown away.
    pub(super) fn again(&mut self, access: usize, now: u64) -> bool {
        self.decide();
        let first = self.wrong_paths.open.first();
        let again = self.dispatched_again(access);
        let again = if first.is_some_and(|branch| !branch.reconverges && branch.access <= access) {
            now + 1
        } else {
            again
        };
        if again > now {
            self.at(again, self.first_request[access], Event::Start { access });
        }
        again > now
    }

    /// When an access was dispatched again; 0 if it was not.
    pub(super) fn dispatched_again(&self, access: usize) -> u64 {
        self.wrong_paths.again.get(access).copied().unwrap_or(0)
    }

    /// When an access that was executed before has what it needs once more.
    pub(super) fn ready_again(&self, access: usize) -> u64 {
        match self.dispatched_again(access) {
            0 => 0,
            again if self.accesses[access].store => again,
            again => again + self.parameters.latency[0],
        }
    }

    /// True if an instruction cannot retire, since a branch before it has not been decided.
    pub(super) fn held_back(&self, instruction: usize) -> bool {
        let first = self.wrong_paths.open.first();
        first.is_some_and(|branch| branch.instruction <= instruction)
    }
}
