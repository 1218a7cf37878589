//! A thread's branches: which of them a processor would have mispredicted.

use pagelab_events::Batch;
use pagelab_recorder_wire::block::Branch;

use crate::loads::Loads;
use crate::predictor::Predictor;
use crate::reconvergence::Between;

/// Follows a thread's branches from block to block.
pub(crate) struct Branches {
    predictor: Box<Predictor>,
    /// Number of the next branches that it has been asked about: all but the last were foreseen.
    asked: usize,
    /// The branch that ended the last block.
    open: Option<Open>,
    /// Branches mispredicted since the last access: the loads that decided each, by their numbers, and
    /// whether its wrong path joins the right one.
    pub(crate) mispredicted: Vec<(Loads, bool)>,
    /// And how many more after these: a program that computes for long without an access may mispredict any
    /// number, and whatever decides them has been there since long.
    pub(crate) more: u32,
    /// Number of the accesses that follow before the paths join, and what they wait for.
    pub(crate) controlled: u16,
    pub(crate) controlled_by: Loads,
}

/// The branch at the end of a block, if it may be mispredicted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    pc: u64,
    next: u64,
    target: Option<u64>,
}

impl Exit {
    /// One at an address; `None` for one that goes to the same place whatever it does.
    pub(crate) fn of(pc: u64, branch: &Branch) -> Option<Exit> {
        let (next, target) = (branch.next, branch.target);
        (target != Some(next)).then_some(Exit { pc, next, target })
    }
}

/// A branch and where it goes, of which a predictor has to say whether that was foreseen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Crossing {
    Conditional { pc: u64, taken: bool },
    Indirect { pc: u64, target: u64 },
}

impl Exit {
    /// When it goes to an address; `None` where it cannot go: what went there was taken away by a signal.
    #[inline(always)]
    pub(crate) fn crossing(&self, to: u64) -> Option<Crossing> {
        let pc = self.pc;
        match self.target {
            None => Some(Crossing::Indirect { pc, target: to }),
            Some(target) if target == to || self.next == to => Some(Crossing::Conditional {
                pc,
                taken: target == to,
            }),
            Some(_) => None,
        }
    }
}

/// A branch of which it is not known yet where it goes.
#[derive(Clone, Copy)]
struct Open {
    exit: Exit,
    /// The loads that decide it.
    producers: Loads,
    between: Option<Between>,
}

impl Branches {
    pub(crate) fn new() -> Branches {
        Branches {
            predictor: Predictor::new(),
            asked: 0,
            open: None,
            mispredicted: Vec::new(),
            more: 0,
            controlled: 0,
            controlled_by: [0; 2],
        }
    }

    /// A block ends with a branch.
    #[inline(always)]
    pub(crate) fn leave(&mut self, exit: Exit, producers: Loads, between: Option<Between>) {
        self.open = Some(Open {
            exit,
            producers,
            between,
        });
    }

    /// A block is entered: the branch before it went there. What goes elsewhere was taken away by a
    /// signal. Returns which registers were written on a wrong path that joins the right one, or on the
    /// right one before: what they hold waits for `controlled_by`.
    #[inline(always)]
    pub(crate) fn enter(&mut self, pc: u64) -> u32 {
        let Some(branch) = self.open.take() else {
            return 0;
        };
        let exit = &branch.exit;
        let foreseen = (exit.crossing(pc)).is_none_or(|crossing| self.foresees(crossing));
        if foreseen {
            return 0;
        }
        if self.mispredicted.len() == Batch::MAX_MISPREDICTED {
            self.more = self.more.saturating_add(1);
            return 0;
        }
        let reconverges = branch.between.is_some();
        self.mispredicted.push((branch.producers, reconverges));
        let Some(between) = branch.between else {
            return 0;
        };
        self.controlled = between.accesses[usize::from(exit.target == Some(pc))];
        self.controlled_by = branch.producers;
        between.written
    }

    /// True if a branch was foreseen.
    #[inline(always)]
    fn foresees(&mut self, crossing: Crossing) -> bool {
        if self.asked > 0 {
            self.asked -= 1;
            return self.asked > 0;
        }
        match crossing {
            Crossing::Conditional { pc, taken } => self.predictor.conditional(pc, taken),
            Crossing::Indirect { pc, target } => self.predictor.indirect(pc, target),
        }
    }

    /// Several blocks are executed, with these branches between them: whether all were foreseen. If not, the blocks
    /// have to be entered one by one.
    #[inline(always)]
    pub(crate) fn cross(&mut self, crossings: &[Crossing]) -> bool {
        for (before, &crossing) in crossings.iter().enumerate() {
            if !self.foresees(crossing) {
                self.asked = before + 1;
                return false;
            }
        }
        true
    }

    /// Something was left out.
    pub(crate) fn forget(&mut self) {
        self.open = None;
        self.mispredicted.clear();
        self.more = 0;
        self.controlled = 0;
    }
}
