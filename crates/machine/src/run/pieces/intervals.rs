//! A stream in equal parts.

/// A stream is looked at in so many intervals if it is long enough: a power of two, of which a
/// piece has as many as any other.
const INTERVALS: u64 = 64;

/// An interval has at least so many accesses, unless it is asked for.
const SHORTEST: u64 = 1 << 14;

/// An interval has at most so many accesses.
pub(super) const LONGEST: u64 = 1 << 30;

/// Accesses before a piece that warm it up, after lines that were used before them have been brought
/// in in the order of their last uses: what the first levels see, and walks, is then as it would be.
pub(super) const RECENT: u64 = 24_576;

/// Accesses before each piece that take time, after the warm-up without a clock: by then the reorder
/// buffer, the miss buffers and the queue of memory are as they would be.
pub(super) const TIMED: u64 = 8192;

/// Equal parts of a stream, but for the last, which has the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Intervals {
    pub(super) count: u64,
    /// Accesses of each.
    pub(super) length: u64,
    /// Accesses of the stream.
    pub(super) accesses: u64,
    /// Accesses at the end of an interval, if it has as many, which a piece that begins behind it
    /// simulates: what was used last before these is what it begins with.
    pub(super) tail: u64,
}

impl Intervals {
    /// Intervals of a stream of so many accesses: `count` of them, if that is said.
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
            tail: RECENT + TIMED,
        }
    }

    pub(super) fn start(&self, interval: u64) -> u64 {
        interval * self.length
    }

    /// The one that an access is in.
    pub(super) fn of_access(&self, number: u64) -> u64 {
        (number / self.length.max(1)).min(self.count - 1)
    }

    /// Begin of an interval's tail; at the end of the last, behind which no piece begins.
    pub(super) fn tail(&self, interval: u64) -> u64 {
        match self.end(interval) {
            Some(end) => end.saturating_sub(self.tail).max(self.start(interval)),
            None => self.accesses,
        }
    }

    /// End of an interval, if not with the stream.
    pub(super) fn end(&self, interval: u64) -> Option<u64> {
        (interval + 1 < self.count).then(|| self.start(interval + 1))
    }
}
