//! Threads that take turns on one core.

use pagelab_events::{Mispredicted, dependence};
use std::collections::{HashMap, VecDeque};

/// A thread: its process and its number there.
type Thread = (u32, u32);

/// Threads whose turn it is on a core, and whose it was.
///
/// A stream says how many accesses of its thread back the loads are that an access waits for; a clock
/// counts the accesses of its core, whoever makes them. The two are the same but just after a turn's
/// beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sharing {
    running: Option<Thread>,
    /// The access of the core with which the turn began.
    since: u64,
    /// The last turns of each thread, from an access up to another, the latest at the back.
    turns: HashMap<Thread, VecDeque<(u64, u64)>>,
}

/// More accesses than a core remembers: what is further back has long ended.
const REACH: u64 = 1024;

impl Sharing {
    /// A thread has its turn, from access `at` of the core on.
    pub(crate) fn switch(&mut self, to: Thread, at: u64) {
        if self.running == Some(to) {
            return;
        }
        if let Some(before) = self.running.replace(to)
            && at > self.since
        {
            let turns = self.turns.entry(before).or_default();
            turns.push_back((self.since, at));
            while turns.front().is_some_and(|turn| turn.1 + REACH < at) {
                turns.pop_front();
            }
        }
        self.since = at;
    }

    /// The process that runs.
    pub(crate) fn process(&self) -> Option<u32> {
        self.running.map(|(process, _)| process)
    }

    /// The thread that runs, if it is of this process.
    pub(crate) fn running(&self, process: u32) -> Option<u32> {
        let running = self.running.filter(|thread| thread.0 == process);
        running.map(|thread| thread.1)
    }

    /// True if accesses from `at` on may wait for loads that are further back on the core than in their thread.
    #[inline]
    pub(crate) fn mixes(&self, at: u64) -> bool {
        self.since > 0 && at - self.since < REACH
    }

    /// Distances on the core of the loads that its access `at` waits for.
    pub(crate) fn on_core(&self, at: u64, dep: u32) -> u32 {
        dependence::of_two(
            self.back(at, dependence::near(dep)),
            self.back(at, dependence::far(dep)),
        )
    }

    /// The same of a branch before that access.
    pub(crate) fn branch(&self, at: u64, branch: Mispredicted) -> Mispredicted {
        Mispredicted {
            dep: self.on_core(at, branch.dep),
            ..branch
        }
    }

    /// Distance on the core of an access that is so far back in the thread; 0 for one that has ended.
    fn back(&self, at: u64, distance: u32) -> u32 {
        let Some(mut left) = u64::from(distance).checked_sub(at - self.since) else {
            return distance;
        };
        if left == 0 {
            return distance;
        }
        let turns = self.running.and_then(|thread| self.turns.get(&thread));
        for &(from, until) in turns.into_iter().flatten().rev() {
            if left <= until - from {
                let back = at - (until - left);
                return if back <= REACH { back as u32 } else { 0 };
            }
            left -= until - from;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Beside a list of who has made each access.
        #[test]
        fn distances_are_those_of_the_list(
            turns in proptest::collection::vec((0u32..3, 0u32..2, 0u64..40), 1..40),
            distances in proptest::collection::vec((0u32..90, 0u32..90), 1600),
        ) {
            let mut sharing = Sharing::default();
            let mut made: Vec<Thread> = Vec::new();
            for (process, thread, accesses) in turns {
                let own = (process, thread);
                sharing.switch(own, made.len() as u64);
                for _ in 0..accesses {
                    let at = made.len();
                    let back = |distance: u32| {
                        let of_thread = (0..at).rev().filter(|&before| made[before] == own);
                        let load = of_thread.take(distance as usize).nth((distance as usize).wrapping_sub(1));
                        let back = load.map_or(0, |load| (at - load) as u32);
                        if u64::from(back) > REACH { 0 } else { back }
                    };
                    let (one, other) = distances[at];
                    let dep = dependence::of_two(one, other);
                    let expected = dependence::of_two(back(one), back(other));
                    let got = if sharing.mixes(at as u64) {
                        sharing.on_core(at as u64, dep)
                    } else {
                        dep
                    };
                    // Before the first access there is nothing, however it is said.
                    let known = dependence::within(got, at as u32);
                    prop_assert_eq!(known, expected, "access {} of {:?}", at, own);
                    made.push(own);
                }
            }
        }
    }
}
