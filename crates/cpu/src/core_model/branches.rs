//! Mispredicted branches: what is dispatched on their wrong paths, and when they are decided.

use super::{Core, UNKNOWN};
use crate::wrong_paths::Branch;

impl Core {
    /// A mispredicted branch before the access that is dispatched next, which waited for the loads
    /// so many accesses before that: nothing more is dispatched until it has been decided and the right
    /// instructions have come. Everything it waits for has ended; unless its wrong path joins the right
    /// one, so that what follows is executed meanwhile.
    pub fn mispredicted(&mut self, loads: [u32; 2], reconverges: bool) {
        let behind = self.on_wrong_path();
        if behind || reconverges {
            self.wrong_paths.push(Branch {
                access: self.accesses,
                loads,
                number: self.instructions,
                dispatched: self.dispatched,
                reconverges,
                ..Branch::default()
            });
        }
        if reconverges {
            return;
        }
        let decided = self.loaded(self.accesses, loads.into(), self.dispatched);
        self.dispatched = decided + self.misprediction;
        if !behind {
            self.front_end.redirect(self.accesses, self.dispatched);
        }
    }

    /// Branches one after the other, with nothing between them that is waited for.
    pub fn mispredicted_more(&mut self, branches: u32) {
        if let Some(before) = branches.checked_sub(1) {
            self.dispatched += u64::from(before) * self.misprediction;
            self.mispredicted([0; 2], false);
        }
    }

    /// True if there may be accesses that were dispatched on a wrong path.
    #[inline(always)]
    pub fn on_wrong_path(&self) -> bool {
        !self.wrong_paths.is_empty()
    }

    /// Finds out when branches were decided.
    pub(super) fn decide(&mut self) {
        while let Some(branch) = self.wrong_paths.undecided() {
            let time = self.loaded(branch.access, branch.loads.into(), branch.dispatched);
            if time == UNKNOWN {
                return;
            }
            (self.wrong_paths).decide(time, self.misprediction, self.hit);
        }
    }

    /// When an access starts that was dispatched and could at `time`: then, or after a branch before it
    /// that has been decided by then. Whatever starts before `time` has its data.
    pub fn start_again(&mut self, access: usize, number: u64, time: u64) -> u64 {
        self.decide();
        self.wrong_paths.start(access, number, time)
    }

    /// Leaves the wrong path before the next access, if a branch has been decided by the time at which it
    /// could be dispatched. Whatever starts before that has its data. Returns whether it is later now.
    pub fn leave_wrong_path(&mut self, gap: u32, store: bool) -> bool {
        self.decide();
        let time = self.next_dispatch(gap, store);
        let instructions = u64::from(gap) + 1;
        let number = self.instructions + instructions;
        let start = self.wrong_paths.start(self.accesses, number, time);
        self.wrong_paths.dispatch(self.accesses, start);
        self.wrong_paths.forget(self.ended);
        self.dispatched += start - time;
        start > time
    }

    /// True if it is known when a branch was decided that waited for the loads so many accesses before the next one.
    #[inline]
    pub fn knows_branch(&self, loads: [u32; 2]) -> bool {
        self.loaded(self.accesses, loads.into(), 0) != UNKNOWN
    }

    /// True if mispredicted branches cost anything.
    #[inline]
    pub fn mispredicts(&self) -> bool {
        self.misprediction > 0
    }

    /// Charges what mispredicted branches have held back the first access after them, which was
    /// executed on their wrong paths; returns when it could retire if it had all that it needs.
    #[cold]
    pub(super) fn retire_again(
        &mut self,
        number: u64,
        store: bool,
        unstalled: u64,
        ready: u64,
    ) -> u64 {
        self.decide();
        let again = self.wrong_paths.retire(self.ended, number);
        self.wrong_paths.forget(self.ended);
        // Its wait after it was dispatched again is its own.
        let done = again.dispatched + if store { 0 } else { self.hit };
        let held_until = if done < ready { again.redirected } else { done };
        self.stalls.mispredictions += held_until.saturating_sub(unstalled);
        unstalled.max(held_until)
    }
}
