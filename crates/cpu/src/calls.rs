//! Rate at which calls and returns can be predicted.

/// Calls and returns that are predicted before the instructions up to them are dispatched.
const AHEAD: u64 = 16;

/// Predictor of the targets of calls and returns: one after the other, and ahead of dispatch.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    /// Slots that a call or a return takes; 0 for none.
    each: u64,
    /// When the last one could be dispatched.
    last: u64,
}

impl Calls {
    /// A call and its return take so many slots.
    pub(crate) fn new(pair: u64) -> Self {
        Calls {
            each: pair / 2,
            last: 0,
        }
    }

    /// One that nothing else would hold back at `time`: when it can be dispatched.
    #[inline(always)]
    pub(crate) fn next(&mut self, time: u64) -> u64 {
        self.last = self.last.max(time.saturating_sub(AHEAD * self.each)) + self.each;
        self.last.max(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_something_else_is_predicted_meanwhile() {
        let mut calls = Calls::new(8);
        // One after the other.
        assert_eq!([0; 5].map(|time| calls.next(time)), [4, 8, 12, 16, 20]);
        // Nobody asked for a long time: sixteen are there at once.
        let times = [(); 20].map(|()| calls.next(1000));
        assert_eq!(times[15], 1000);
        assert_eq!(times[16..], [1004, 1008, 1012, 1016]);
        // Slower than that they take nothing.
        assert!((2..40).all(|round| calls.next(1000 + round * 10) == 1000 + round * 10));
    }
}
