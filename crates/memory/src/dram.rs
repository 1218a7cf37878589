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
/// Time is cut into windows in which a fixed number of lines can be moved; a transfer takes a
/// place in the first window from its own on that has one. So transfers may be asked for out of
/// order, as cores that are simulated in turns do, and the bandwidth still holds over time. What
/// comes later than the ledger remembers is charged to the oldest window that it does.
#[derive(Clone, Debug)]
pub struct Dram {
    /// Lines moved in each window, by window number modulo the ledger's length.
    moved: Box<[u16]>,
    /// The first window not yet opened.
    end: u64,
    lines_per_window: u16,
    window_ticks: u64,
    queued_ticks: u64,
}

/// Windows in the ledger.
const SPAN: usize = 4096;
/// Lines per window: large enough that rounding the window's length to whole ticks loses less
/// than a hundredth, small enough that a burst is spread out.
const LINES_PER_WINDOW: u16 = 16;

impl Dram {
    /// An idle memory that moves a line in `ticks_per_line` ticks of the caller's clock.
    pub fn new(ticks_per_line: f64) -> Self {
        let window_ticks = (ticks_per_line * f64::from(LINES_PER_WINDOW)).round();
        Dram {
            moved: vec![0; SPAN].into(),
            end: 0,
            lines_per_window: LINES_PER_WINDOW,
            window_ticks: (window_ticks as u64).max(1),
            queued_ticks: 0,
        }
    }

    /// Moves a line that is asked for at `now`; returns how long it has to wait.
    #[inline]
    pub fn transfer(&mut self, now: u64) -> u64 {
        let mut window = (now / self.window_ticks).max(self.end.saturating_sub(SPAN as u64));
        loop {
            if window >= self.end {
                self.open(window);
            }
            if self.moved[window as usize % SPAN] < self.lines_per_window {
                break;
            }
            window += 1;
        }
        self.moved[window as usize % SPAN] += 1;
        let wait = (window * self.window_ticks).saturating_sub(now);
        self.queued_ticks += wait;
        wait
    }

    fn open(&mut self, window: u64) {
        for opened in self.end.max(window.saturating_sub(SPAN as u64 - 1))..=window {
            self.moved[opened as usize % SPAN] = 0;
        }
        self.end = window + 1;
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
            let ticks = ((ticks_per_line * 16.0).round() as u64).max(1);
            let mut moved: HashMap<u64, u32> = HashMap::new();
            let mut now = 5000;
            for (advance, back) in steps {
                now += advance;
                // Out of order, but never further back than the ledger's span.
                let asked = now - back.min(SPAN as u64 / 2 * ticks);
                let mut window = asked / ticks;
                while moved.get(&window).is_some_and(|&m| m >= 16) {
                    window += 1;
                }
                *moved.entry(window).or_default() += 1;
                let expected = (window * ticks).saturating_sub(asked);
                prop_assert_eq!(dram.transfer(asked), expected);
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
        assert!((99_000..=100_000).contains(&last), "{last}");
    }
}
