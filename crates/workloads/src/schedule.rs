//! Schedule of the accesses of a program that are simulated.

use crate::Parameters;
use crate::hash::{below, random};

/// Systematic sampling, after SMARTS (Wunderlich, Wenisch, Falsafi and Hoe, ISCA 2003): the
/// program runs whole, without events; in windows spread over it every access is an event. The
/// first `warm_up` of a window only warm the machine, the `measured` that follow are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampling {
    /// Windows; `None`: as many as usual if the program is long, else all of it.
    windows: Option<u64>,
    warm_up: u64,
    measured: u64,
    /// The windows lie in the first so many accesses.
    pub(crate) region: u64,
    seed: u64,
}

/// Windows unless it is said how many: enough for a confidence interval from Student's t.
const WINDOWS: u64 = 30;

/// A program is sampled unasked when the windows would be a smaller part of it than 1 in so many.
const LONG: u64 = 4;

/// Accesses to simulate: those of each `(start, end)`, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) windows: Vec<(u64, u64)>,
    /// Accesses of each window.
    pub(crate) warm_up: u64,
}

impl Schedule {
    /// All of it.
    pub(crate) fn whole() -> Self {
        Schedule {
            windows: vec![(0, u64::MAX)],
            warm_up: 0,
        }
    }

    /// Number of accesses that it takes of a program that makes so many.
    pub(crate) fn accesses(&self, program: Option<u64>) -> Option<u64> {
        match self.windows.as_slice() {
            [(0, u64::MAX)] => program,
            windows => Some(windows.iter().map(|(start, end)| end - start).sum()),
        }
    }
}

impl Sampling {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Sampling {
            windows: parameters.given("windows"),
            warm_up: parameters.get("warm_up"),
            measured: parameters.get("measured"),
            region: parameters.get("region"),
            seed: parameters.get("seed"),
        }
    }

    /// True if all of the program is wanted, however long it is.
    pub(crate) fn is_whole(&self) -> bool {
        self.windows == Some(0)
    }

    /// Places the windows in a program of so many accesses: one at random in each of as many
    /// equal parts, so that no period of the program can be in step with them.
    pub(crate) fn schedule(&self, accesses: u64) -> Schedule {
        let accesses = accesses.min(self.region);
        let window = self.warm_up + self.measured;
        let windows = self.windows.unwrap_or(WINDOWS);
        let least = windows.saturating_mul(window);
        let long = if self.windows.is_none() { LONG } else { 1 };
        if windows == 0 || accesses < least.saturating_mul(long) {
            return Schedule::whole();
        }
        let part = accesses / windows;
        let start = |index| index * part + below(random(self.seed, index), part - window + 1);
        Schedule {
            windows: (0..windows)
                .map(|i| (start(i), start(i) + window))
                .collect(),
            warm_up: self.warm_up,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sampling(windows: Option<u64>) -> Sampling {
        Sampling {
            windows,
            warm_up: 300,
            measured: 100,
            region: 1 << 40,
            seed: 7,
        }
    }

    #[test]
    fn short_programs_and_windows_of_0_mean_all_of_it() {
        assert_eq!(sampling(Some(0)).schedule(1 << 30), Schedule::whole());
        assert_eq!(sampling(Some(10)).schedule(3_999), Schedule::whole());
        assert_eq!(sampling(Some(10)).schedule(4_000).windows.len(), 10);
        assert_eq!(sampling(None).schedule(47_999), Schedule::whole());
        assert_eq!(sampling(None).schedule(48_000).windows.len(), 30);
    }

    proptest! {
        #[test]
        fn each_equal_part_holds_one_window(
            windows in 1u64..200,
            spare in 0u64..1_000_000,
            seed: u64,
        ) {
            let sampling = Sampling { seed, ..sampling(Some(windows)) };
            let accesses = windows * 400 + spare;
            let part = accesses / windows;
            let schedule = sampling.schedule(accesses);
            prop_assert_eq!(schedule.windows.len() as u64, windows);
            for (index, &(start, end)) in (0..).zip(&schedule.windows) {
                prop_assert_eq!(end - start, 400);
                prop_assert!(start >= index * part && end <= (index + 1) * part);
            }
        }
    }
}
