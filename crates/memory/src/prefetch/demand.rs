/// Number of the last requests for data that a cache had to pass on.
///
/// Requests come in chunks, and of a chunk's no answer is known while it is asked for. So that nothing
/// hangs on where chunks end, each request sees those that came [`LAG`] and more before it.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// Misses of the last windows.
    misses: [u32; WINDOWS],
    asked: u64,
    answered: u64,
    /// Misses in as many windows as count from which on the cache is busy.
    limit: u32,
    busy: bool,
}

/// Requests of a window.
const WINDOW: u64 = 64;
/// Windows that count, and that are kept.
const COUNTED: u64 = 8;
const WINDOWS: usize = 32;
const LAG: u64 = MOST_ASKED as u64;

/// The most requests before their answers: twice as many as a chunk's 256 accesses of one or two lines
/// each ask for.
pub const MOST_ASKED: usize = 1024;

impl Demand {
    /// The demand on a cache that is busy when this share of requests misses.
    pub(crate) fn new(share: f64) -> Demand {
        Demand {
            misses: [0; WINDOWS],
            asked: 0,
            answered: 0,
            limit: (share * (COUNTED * WINDOW) as f64).ceil() as u32,
            busy: false,
        }
    }

    /// A request; whether the cache is busy.
    #[inline]
    pub(crate) fn ask(&mut self) -> bool {
        if self.asked.is_multiple_of(WINDOW) && self.asked >= LAG + COUNTED * WINDOW {
            let end = (self.asked - LAG) / WINDOW;
            let counted = (end - COUNTED..end).map(|window| self.misses[window as usize % WINDOWS]);
            self.busy = counted.sum::<u32>() >= self.limit;
        }
        self.asked += 1;
        self.busy
    }

    /// The answer to the oldest request that has none.
    #[inline]
    pub(crate) fn answer(&mut self, missed: bool) {
        let window = (self.answered / WINDOW) as usize % WINDOWS;
        if self.answered.is_multiple_of(WINDOW) {
            self.misses[window] = 0;
        }
        self.misses[window] += u32::from(missed);
        self.answered += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// By the definition: the 512 requests that end 1,024 before the window's first.
        #[test]
        fn busy_is_what_the_definition_says(
            missed in proptest::collection::vec(any::<bool>(), 1..6000),
            share in 0.1..0.9f64,
            mut chunk in 1usize..1024,
        ) {
            let mut demand = Demand::new(share);
            let mut at = 0;
            while at < missed.len() {
                chunk = chunk.min(missed.len() - at);
                for n in at..at + chunk {
                    let first = n / 64 * 64;
                    let seen = first.checked_sub(1536).map(|from| &missed[from..from + 512]);
                    let misses = |seen: &[bool]| seen.iter().filter(|&&m| m).count();
                    let expected = seen.is_some_and(|seen| misses(seen) as f64 >= share * 512.0);
                    prop_assert_eq!(demand.ask(), expected, "request {}", n);
                }
                missed[at..at + chunk].iter().for_each(|&missed| demand.answer(missed));
                at += chunk;
            }
        }
    }
}
