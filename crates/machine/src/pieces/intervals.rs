//! A stream in equal parts.

/// A stream is looked at in so many intervals if it is long enough: a power of two, of which a
/// piece has as many as any other.
const INTERVALS: u64 = 64;

/// An interval has at least so many accesses, unless it is asked for.
const SHORTEST: u64 = 1 << 14;

/// An interval has at most so many accesses.
pub(super) const LONGEST: u64 = 1 << 30;

/// Equal parts of a stream, but for the last, which has the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Intervals {
    pub(super) count: u64,
    /// Accesses of each.
    pub(super) length: u64,
    /// Accesses of the stream.
    pub(super) accesses: u64,
}

impl Intervals {
    /// Those of a stream of so many accesses: `count` of them, if that is said.
    pub(super) fn of(accesses: u64, count: Option<u64>) -> Self {
        let count = count.unwrap_or_else(|| {
            let fit = (accesses / SHORTEST).clamp(1, INTERVALS);
            let fit = 1 << fit.ilog2();
            accesses.div_ceil(LONGEST).next_power_of_two().max(fit)
        });
        let count = count.clamp(1, accesses.max(1));
        Intervals {
            count,
            length: accesses / count,
            accesses,
        }
    }

    pub(super) fn start(&self, interval: u64) -> u64 {
        interval * self.length
    }

    /// The one that an access is in.
    pub(super) fn of_access(&self, number: u64) -> u64 {
        (number / self.length.max(1)).min(self.count - 1)
    }

    /// Where one ends, if not with the stream.
    pub(super) fn end(&self, interval: u64) -> Option<u64> {
        (interval + 1 < self.count).then(|| self.start(interval + 1))
    }
}
