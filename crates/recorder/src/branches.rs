//! A thread's branches: which of them a processor would have mispredicted.

use pagelab_events::Batch;
use pagelab_recorder_wire::block::Branch;

use crate::loads::Loads;
use crate::predictor::Predictor;

/// Follows a thread's branches from block to block.
pub(crate) struct Branches {
    predictor: Box<Predictor>,
    /// The branch that ended the last block.
    open: Option<Open>,
    /// The loads that decided the branches mispredicted since the last access, by their numbers.
    pub(crate) mispredicted: Vec<Loads>,
}

/// A branch of which it is not known yet where it goes.
#[derive(Clone, Copy)]
struct Open {
    pc: u64,
    next: u64,
    target: Option<u64>,
    /// The loads that decide it.
    producers: Loads,
}

impl Branches {
    pub(crate) fn new() -> Branches {
        Branches {
            predictor: Predictor::new(),
            open: None,
            mispredicted: Vec::new(),
        }
    }

    /// A block ends with a branch.
    #[inline(always)]
    pub(crate) fn leave(&mut self, pc: u64, branch: &Branch, producers: Loads) {
        self.open = Some(Open {
            pc,
            next: branch.next,
            target: branch.target,
            producers,
        });
    }

    /// A block is entered: the branch before it went there. What goes elsewhere was taken away by a
    /// signal.
    #[inline(always)]
    pub(crate) fn enter(&mut self, pc: u64) {
        let Some(branch) = self.open.take() else {
            return;
        };
        let foreseen = match branch.target {
            None => self.predictor.indirect(branch.pc, pc),
            Some(target) if target == branch.next => true,
            Some(target) if target == pc => self.predictor.conditional(branch.pc, true),
            Some(_) if branch.next == pc => self.predictor.conditional(branch.pc, false),
            Some(_) => true,
        };
        // A program that computes for long without an access may mispredict any number.
        if !foreseen && self.mispredicted.len() < Batch::MAX_MISPREDICTED {
            self.mispredicted.push(branch.producers);
        }
    }

    /// Something was left out.
    pub(crate) fn forget(&mut self) {
        self.open = None;
        self.mispredicted.clear();
    }
}
