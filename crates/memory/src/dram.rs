use serde::{Deserialize, Serialize};

/// Latency and bandwidth of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramConfig {
    /// Latency of an idle memory in nanoseconds, from the last-level cache's miss on.
    pub latency_ns: f64,
    /// Peak bandwidth in 10^9 bytes a second, over all channels.
    pub gigabytes_per_second: f64,
}

/// A memory with a bandwidth: how long a transfer waits for the ones before it.
///
/// Time is cut into windows, each with room for as many lines as the memory can move in it; a
/// transfer takes room in the first window from its own on that has any. So transfers may be
/// asked for out of order, as cores that are simulated in turns do, and the bandwidth still holds
/// over time. What comes later than the ledger remembers is charged to the oldest window that it
/// does.
#[derive(Clone, Debug)]
pub struct Dram {
    /// The ledger, by window number modulo its length.
    windows: Box<[Window; SPAN]>,
    /// The latest window that was ever used.
    latest: u64,
    window_shift: u32,
    /// Room of a window, and what a line takes of it.
    room: u32,
    room_per_line: u32,
    queued_ticks: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    number: u64,
    taken: u32,
}

/// Windows in the ledger.
const SPAN: usize = 4096;
/// Units of room per tick: a line's share is rounded to these.
const ROOM_PER_TICK: f64 = 256.0;

impl Dram {
    /// An idle memory that moves a line in `ticks_per_line` ticks of the caller's clock, which
    /// must be between 1/256 and 2^18.
    pub fn new(ticks_per_line: f64) -> Self {
        // A window of 8 to 16 lines: fine enough to spread a burst.
        let window_shift = (ticks_per_line * 16.0).log2().floor().max(0.0) as u32;
        Dram {
            windows: Box::new([Window::default(); SPAN]),
            latest: 0,
            window_shift,
            room: (1 << window_shift) * ROOM_PER_TICK as u32,
            room_per_line: (ticks_per_line * ROOM_PER_TICK).round().max(1.0) as u32,
            queued_ticks: 0,
        }
    }

    /// Moves a line that is asked for at `now`; returns how long it has to wait.
    #[inline]
    pub fn transfer(&mut self, now: u64) -> u64 {
        let oldest = (self.latest + 1).saturating_sub(SPAN as u64);
        let mut window = (now >> self.window_shift).max(oldest);
        while self.taken(window) >= self.room {
            window += 1;
        }
        let wait = (window << self.window_shift).saturating_sub(now);
        self.queued_ticks += wait;
        // A line that does not fit in whole goes on in the next window.
        let mut rest = self.room_per_line;
        loop {
            let taken = self.taken(window);
            let here = rest.min(self.room.saturating_sub(taken));
            self.windows[window as usize % SPAN] = Window {
                number: window,
                taken: taken + here,
            };
            rest -= here;
            if rest == 0 {
                self.latest = self.latest.max(window);
                return wait;
            }
            window += 1;
        }
    }

    /// Room taken in a window. Its place in the ledger may still be that of an older one.
    #[inline]
    fn taken(&self, window: u64) -> u32 {
        let place = self.windows[window as usize % SPAN];
        if place.number == window {
            place.taken
        } else {
            0
        }
    }

    /// Ticks that transfers have waited in all.
    pub fn queued_ticks(&self) -> u64 {
        self.queued_ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// The twin keeps every window for ever.
        #[test]
        fn takes_the_first_window_with_room(
            ticks_per_line in 0.5f64..40.0,
            steps in proptest::collection::vec((0u64..3000, 0u64..200), 1..600),
        ) {
            let mut dram = Dram::new(ticks_per_line);
            let window = 1u64 << (ticks_per_line * 16.0).log2().floor() as u32;
            let line = (ticks_per_line * 256.0).round() as u64;
            let mut taken: HashMap<u64, u64> = HashMap::new();
            let mut now = 5000;
            for (advance, back) in steps {
                now += advance;
                let asked = now - back;
                let room = |taken: &HashMap<u64, u64>, at: u64| {
                    window * 256 - taken.get(&at).copied().unwrap_or(0)
                };
                let mut at = asked / window;
                while room(&taken, at) == 0 {
                    at += 1;
                }
                prop_assert_eq!(dram.transfer(asked), (at * window).saturating_sub(asked));
                let mut rest = line;
                while rest > 0 {
                    let here = rest.min(room(&taken, at));
                    *taken.entry(at).or_default() += here;
                    rest -= here;
                    at += 1;
                }
            }
        }
    }

    #[test]
    fn a_saturated_memory_moves_its_bandwidth() {
        let mut dram = Dram::new(10.0);
        let mut last = 0;
        for _ in 0..10_000 {
            last = last.max(dram.transfer(0));
        }
        // 10,000 lines of 10 ticks each, less the last window's own length.
        assert!((99_800..=100_000).contains(&last), "{last}");
    }
}
