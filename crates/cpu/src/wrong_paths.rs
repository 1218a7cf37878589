use std::collections::VecDeque;

/// Mispredicted branches after which the core goes on: those whose wrong path soon joins the right
/// one, and whatever branches are mispredicted behind them.
///
/// Where the paths join, the core executes what follows before it has found out. Then it throws away
/// everything younger than the branch and dispatches it again; what was asked for by then is, or will
/// be, in the caches. So an access starts when it can, unless the branch has been decided by then, and
/// retires no earlier than if it had been dispatched after that and found everything in the first level.
#[derive(Clone, Debug)]
pub(crate) struct WrongPaths {
    /// The oldest first. Of those so many have been decided, passed by dispatch, and passed by
    /// retirement.
    branches: VecDeque<Branch>,
    decided: usize,
    dispatched: usize,
    retired: usize,
    /// The youngest branch that was decided.
    last: Branch,
    /// The first access that waits for its branch to retire.
    next: usize,
}

/// A mispredicted branch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Branch {
    /// The first access after it, and the loads that it waits for, so many accesses before that.
    pub(crate) access: usize,
    pub(crate) loads: [u32; 2],
    /// The number of the instruction before it.
    pub(crate) number: u64,
    /// When it was dispatched.
    pub(crate) dispatched: u64,
    /// The wrong path joins the right one.
    pub(crate) reconverges: bool,
    /// Time at which it was decided, which is found out later.
    pub(crate) decided: u64,
    /// When the first instruction of the right path could be dispatched, and the same less its number: to
    /// which any other adds its own.
    pub(crate) redirected: u64,
    pub(crate) from: u64,
    /// Accesses before this one have been dispatched on the wrong path.
    pub(crate) until: usize,
}

/// Time after which an access retires that was executed on a wrong path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    /// When it was dispatched again.
    pub(crate) dispatched: u64,
    /// When the first instruction after the branch was.
    pub(crate) redirected: u64,
}

impl WrongPaths {
    pub(crate) fn new() -> Self {
        WrongPaths {
            branches: VecDeque::new(),
            decided: 0,
            dispatched: 0,
            retired: 0,
            last: Branch::default(),
            next: usize::MAX,
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    /// The first access that waits for its branch to retire.
    #[inline(always)]
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    pub(crate) fn push(&mut self, branch: Branch) {
        self.branches.push_back(branch);
        self.find_next();
    }

    fn find_next(&mut self) {
        let next = self.branches.get(self.retired);
        self.next = next.map_or(usize::MAX, |branch| branch.access);
    }

    /// The oldest branch that has not been decided.
    pub(crate) fn undecided(&self) -> Option<&Branch> {
        self.branches.get(self.decided)
    }

    /// That branch has been decided at `time`, but for what a branch before it has to do with it; a
    /// misprediction costs `penalty`, and a load that is repeated `hit`.
    pub(crate) fn decide(&mut self, time: u64, penalty: u64, hit: u64) {
        let Some(branch) = self.branches.get_mut(self.decided) else {
            return;
        };
        let last = self.last;
        branch.decided = time;
        if branch.dispatched < last.decided {
            // Thrown away with everything else, and perhaps what it waits for, too.
            // The younger of its loads; none if it lies before the first access.
            let load = branch.access.wrapping_sub(branch.loads[0] as usize);
            let repeated = (last.access..branch.access).contains(&load);
            let again = last.from + branch.number + if repeated { hit } else { 0 };
            branch.decided = time.max(again);
        }
        branch.redirected = branch.decided + penalty;
        branch.from = (branch.redirected - branch.number).max(last.from);
        self.last = *branch;
        self.decided += 1;
    }

    /// When an instruction of an access starts, or is dispatched, that could at `time`.
    pub(crate) fn start(&self, access: usize, number: u64, time: u64) -> u64 {
        let decided = self.branches.iter().take(self.decided);
        let older = decided.take_while(|branch| branch.access <= access);
        let mut time = time;
        for branch in older {
            if branch.reconverges && branch.decided > time {
                break;
            }
            time = time.max(branch.from + number);
        }
        time
    }

    /// When an instruction of an access is dispatched at the last, after all branches before it that have
    /// been decided.
    pub(crate) fn again(&self, access: usize, number: u64) -> u64 {
        let decided = self.branches.iter().take(self.decided);
        let last = decided.take_while(|branch| branch.access <= access).last();
        last.map_or(0, |branch| branch.from + number)
    }

    /// Dispatches the next access, of this number, at `time`.
    pub(crate) fn dispatch(&mut self, access: usize, time: u64) {
        while self.dispatched < self.decided {
            let branch = &mut self.branches[self.dispatched];
            if branch.reconverges && branch.decided > time {
                return;
            }
            branch.until = access;
            self.dispatched += 1;
        }
    }

    /// Takes instruction `number`, of the access that retires next, past its branches, which have been
    /// decided.
    pub(crate) fn retire(&mut self, access: usize, number: u64) -> Again {
        let mut again = Again {
            dispatched: 0,
            redirected: 0,
        };
        while self.retired < self.decided && self.branches[self.retired].access <= access {
            let branch = &self.branches[self.retired];
            again.dispatched = branch.from + number;
            again.redirected = branch.redirected;
            self.retired += 1;
        }
        self.find_next();
        again
    }

    /// Forgets what no access has to do with any more but those before this one.
    pub(crate) fn forget(&mut self, ended: usize) {
        while self.dispatched.min(self.retired) > 0
            && self
                .branches
                .front()
                .is_some_and(|first| first.until <= ended)
        {
            self.branches.pop_front();
            self.decided -= 1;
            self.dispatched -= 1;
            self.retired -= 1;
        }
    }
}
