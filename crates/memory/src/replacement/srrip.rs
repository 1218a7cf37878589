use super::Access;
use super::intervals::{Intervals, LONG, MAX_WAYS, NEAR};
use super::policy::Policy;
use crate::simd::{EMPTY, FLAG};

/// See [`super::Replacement::Srrip`]. Lines from a number on may be favoured.
#[derive(Clone, Debug)]
pub(crate) struct Srrip {
    intervals: Intervals,
    favoured: u32,
}

impl Policy for Srrip {
    type Keys = ();
    const DESCRIBED: bool = false;

    fn new((): &(), sets: usize, ways: usize) -> Self {
        Srrip {
            intervals: Intervals::new(sets, ways),
            favoured: EMPTY,
        }
    }

    fn has(ways: u32) -> bool {
        ways <= MAX_WAYS
    }

    fn hit(&mut self, set: usize, way: usize, access: &Access) {
        if access.line >= self.favoured {
            self.intervals.set(set, way, NEAR);
        } else {
            self.intervals.shorten(set, way);
        }
    }

    fn fill(&mut self, set: usize, way: usize, access: &Access) {
        let interval = if access.line >= self.favoured {
            NEAR
        } else {
            LONG
        };
        self.intervals.set(set, way, interval);
    }

    fn victim(&mut self, set: usize, entries: &[u32], _: &Access) -> usize {
        let victim = self.intervals.victim(set);
        let may = |way: usize| entries[way] & !FLAG < self.favoured;
        if may(victim) {
            return victim;
        }
        self.intervals.distant(set, may).unwrap_or(victim)
    }

    fn favour(&mut self, first: u32) {
        self.favoured = first;
    }
}
