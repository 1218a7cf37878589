use std::collections::VecDeque;

/// Causes that held back the dispatch of accesses that have not ended: mispredicted branches before
/// them, and instructions that had to be fetched.
#[derive(Clone, Debug)]
pub(crate) struct FrontEnd {
    /// The first access after a branch, and when the first instruction after the branch could be
    /// dispatched.
    redirected: VecDeque<(usize, u64)>,
    delayed: VecDeque<Delay>,
    /// The first access of both.
    next: usize,
}

/// An access that was dispatched later since instructions had to come first.
#[derive(Clone, Copy, Debug)]
struct Delay {
    access: usize,
    by: u64,
    /// When it can be dispatched at the earliest.
    earliest: u64,
}

/// Parts of a stall that the front end brought about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeldBack {
    pub(crate) mispredictions: u64,
    pub(crate) fetch: u64,
}

impl FrontEnd {
    pub(crate) fn new() -> Self {
        FrontEnd {
            redirected: VecDeque::new(),
            delayed: VecDeque::new(),
            next: usize::MAX,
        }
    }

    /// The first access that was held back.
    #[inline(always)]
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    /// A mispredicted branch before an access; what follows it can be dispatched at `time`.
    pub(crate) fn redirect(&mut self, access: usize, time: u64) {
        match self.redirected.back_mut() {
            Some(last) if last.0 == access => last.1 = time,
            _ => self.redirected.push_back((access, time)),
        }
        self.find_next();
    }

    /// Instructions before an access, or its own, came `by` slots late.
    pub(crate) fn delay(&mut self, access: usize, by: u64, earliest: u64) {
        match self.delayed.back_mut() {
            Some(last) if last.access == access => {
                last.by += by;
                last.earliest = earliest;
            }
            _ => self.delayed.push_back(Delay {
                access,
                by,
                earliest,
            }),
        }
        self.find_next();
    }

    fn find_next(&mut self) {
        let redirected = self.redirected.front().map_or(usize::MAX, |first| first.0);
        let delayed = self
            .delayed
            .front()
            .map_or(usize::MAX, |first| first.access);
        self.next = redirected.min(delayed);
    }

    /// Part of the front end in a stall of an access that starts at `start` and could have retired
    /// at `unstalled`: of a branch, what passed before the instructions after it came; of a fetch,
    /// by how much it made the access start later.
    pub(crate) fn held_back(
        &mut self,
        access: usize,
        unstalled: u64,
        stall: u64,
        start: u64,
    ) -> HeldBack {
        let mut held = HeldBack::default();
        while let Some(&(first, time)) = self.redirected.front()
            && first <= access
        {
            held.mispredictions = time.saturating_sub(unstalled).min(stall);
            self.redirected.pop_front();
        }
        while let Some(&Delay {
            access: first,
            by,
            earliest,
        }) = self.delayed.front()
            && first <= access
        {
            if first == access {
                let slack = start.saturating_sub(earliest);
                held.fetch = by.saturating_sub(slack);
            }
            self.delayed.pop_front();
        }
        self.find_next();
        held
    }
}
