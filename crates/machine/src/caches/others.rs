//! Programs outside of the machine that use its last level, too.

use crate::caches::SharedCache;
use crate::config::{CachesConfig, OthersConfig};
use crate::error::BuildError;
use pagelab_addr::LINE_BYTES;

/// Lines that others bring into the last level, as time goes by: into sets at random.
///
/// They come in between two chunks of accesses, as many as the core's clock has gone on. A chunk is
/// short beside the time that a line stays, and where batches end is no matter.
#[derive(Clone, Debug)]
pub(crate) struct Others {
    lines_per_slot: f64,
    /// Lines that are due, less than one after each call.
    due: f64,
    /// The latest time of any core until which lines have come.
    until: u64,
    random: u64,
}

/// Sets that the host fetches at a time.
const AHEAD: usize = 16;

/// Gigabytes a second: more than any last level takes.
const MOST: f64 = 1000.0;

impl Others {
    pub(crate) fn new(
        config: &CachesConfig,
        seed: u64,
        slots_per_ns: f64,
    ) -> Result<Option<Self>, BuildError> {
        let Some(OthersConfig {
            gigabytes_per_second,
        }) = config.others
        else {
            return Ok(None);
        };
        if !(0.0..=MOST).contains(&gigabytes_per_second) {
            return Err(BuildError::Value {
                key: "caches.others.gigabytes_per_second",
                value: gigabytes_per_second.to_string(),
                expected: "between 0 and 1000",
            });
        }
        Ok(Some(Others {
            lines_per_slot: gigabytes_per_second / LINE_BYTES as f64 / slots_per_ns,
            due: 0.0,
            until: 0,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }))
    }

    /// Brings in what came until `now`; tells of each modified line that left.
    pub(crate) fn until(&mut self, now: u64, shared: &mut SharedCache, left: impl FnMut(u32)) {
        let Some(passed) = now.checked_sub(self.until) else {
            return;
        };
        self.until = now;
        self.pass(passed, shared, left);
    }

    /// Brings in what comes in so many slots; tells of each modified line that left.
    pub(crate) fn pass(
        &mut self,
        passed: u64,
        shared: &mut SharedCache,
        mut left: impl FnMut(u32),
    ) {
        self.due += passed as f64 * self.lines_per_slot;
        let sets = shared.llc.sets();
        // A set has as many as others have it, give or take: of n times all that there is room for, a share
        // of e^-n of lines is left where a way or the victim is random. The rest changes nothing.
        let lines = (self.due as usize).min(16 * shared.llc.capacity());
        self.due -= self.due.floor();
        let mut ahead = [0; AHEAD];
        for first in (0..lines).step_by(AHEAD) {
            let ahead = &mut ahead[..AHEAD.min(lines - first)];
            for set in ahead.iter_mut() {
                *set = self.set(sets);
                shared.llc.host_prefetch_set(*set);
            }
            for &set in &*ahead {
                if let Some(line) = shared.llc.intrude(set) {
                    shared.writebacks += 1;
                    left(line);
                }
            }
        }
    }

    fn set(&mut self, sets: usize) -> usize {
        // Xorshift (Marsaglia, Journal of Statistical Software 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * sets as u128) >> 64) as usize
    }
}
