use crate::BusyConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parts that the reads of a memory are divided into, by how long they take.
pub const SIXTEENTHS: usize = 16;

/// Latency and bandwidth of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DramConfig {
    /// Latency of an idle memory in nanoseconds, from the last-level cache's miss on: the mean, where
    /// there is a `spread`.
    pub latency_ns: f64,
    /// Peak bandwidth in 10^9 bytes a second, over all channels.
    pub gigabytes_per_second: f64,
    /// Time of each sixteenth of its reads, the shortest first, in any unit: they are scaled so that their mean is
    /// `latency_ns`. Without, all reads take that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<[f64; SIXTEENTHS]>,
    /// The modified lines that leave the last level take of it, too.
    #[serde(default)]
    pub write_backs: bool,
    /// Its banks, whose open rows answer sooner. Without, none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowsConfig>,
}

/// Banks of a memory, each with a row that is open.
///
/// A read of the open row is sooner by the activation; one of another row later by the precharge
/// (Rixner et al., "Memory access scheduling", ISCA 2000).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RowsConfig {
    /// Banks of all channels and ranks.
    pub banks: u32,
    /// Bytes of a row, a power of two.
    pub row_bytes: u32,
    /// Opening a row (tRCD), which `latency_ns` contains.
    pub activate_ns: f64,
    /// Closing it (tRP), which `latency_ns` does not contain.
    pub precharge_ns: f64,
    /// Times that banks wait for between commands. Without, a bank is never busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<BusyConfig>,
}

/// A memory with a bandwidth: how long a transfer waits for the ones before it.
///
/// Time is cut into windows of about one transfer, and each remembers up to when it is taken. A
/// transfer begins in the first window from its own time on that has room, and goes on in the
/// next ones. So transfers may be asked for out of order, as dependent accesses and cores that
/// are simulated in turns do, and each takes the first time that is left. What comes later than
/// the ledger remembers waits for nothing.
#[derive(Clone, Debug)]
pub struct Dram {
    /// The ledger, by window number modulo its length.
    windows: Box<[Window]>,
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
    /// Number of the window among those that share the place.
    turn: u32,
    /// From its beginning. Of a full window, the room and how many windows from it on are known to
    /// be full, 0 for itself alone: so that what is asked for while much waits need not look at
    /// each (a disjoint-set forest: Tarjan, JACM 22(2), 1975).
    taken: u32,
}

/// Windows in the ledger: further than cores that are simulated in turns are apart.
const SPAN: u64 = 1 << 15;
/// Units of room per tick: a line's share is rounded to these.
const ROOM_PER_TICK: f64 = 256.0;

impl Dram {
    /// The most ticks that a line may take.
    pub const SLOWEST: f64 = (1 << 18) as f64;

    /// An idle memory that moves a line in `ticks_per_line` ticks of the caller's clock, which
    /// must be between 1/256 and [`Dram::SLOWEST`].
    pub fn new(ticks_per_line: f64) -> Self {
        let window_shift = ticks_per_line.log2().floor().max(0.0) as u32;
        Dram {
            windows: vec![Window::default(); SPAN as usize].into(),
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
        let mut window = now >> self.window_shift;
        if window + SPAN <= self.latest {
            return 0;
        }
        let within = now - (window << self.window_shift);
        let mut from = self.taken(window).max(within as u32 * ROOM_PER_TICK as u32);
        if from >= self.room {
            window = self.with_room(window);
            from = self.taken(window);
        }
        let begins = (window << self.window_shift) + u64::from(from / ROOM_PER_TICK as u32);
        let wait = begins.saturating_sub(now);
        self.queued_ticks += wait;
        let mut rest = self.room_per_line;
        loop {
            let here = rest.min(self.room - from.min(self.room));
            self.windows[(window % SPAN) as usize] = Window {
                turn: (window / SPAN) as u32,
                taken: from + here,
            };
            rest -= here;
            if rest == 0 {
                self.latest = self.latest.max(window);
                return wait;
            }
            window += 1;
            from = self.taken(window);
        }
    }

    /// The first window with room, from a full one on; the full ones before it then lead there.
    fn with_room(&mut self, full: u64) -> u64 {
        let mut found = full;
        while let taken = self.taken(found)
            && taken >= self.room
        {
            found += u64::from(taken - self.room).max(1);
        }
        let mut window = full;
        while window < found {
            let place = &mut self.windows[(window % SPAN) as usize];
            let next = window + u64::from(place.taken - self.room).max(1);
            place.taken = self.room + (found - window) as u32;
            window = next;
        }
        found
    }

    /// Moves a line that nobody waits for.
    #[inline]
    pub fn occupy(&mut self, now: u64) {
        let queued = self.queued_ticks;
        self.transfer(now);
        self.queued_ticks = queued;
    }

    /// Taken part of a window, the room or more if all of it is. Its place in the ledger may still
    /// be that of an older one.
    #[inline]
    fn taken(&self, window: u64) -> u32 {
        let place = self.windows[(window % SPAN) as usize];
        if u64::from(place.turn) == window / SPAN {
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

    proptest! {
        /// In the order of time a memory is a queue: a transfer begins when the last one ends.
        #[test]
        fn a_queue_in_the_order_of_time(
            ticks_per_line in 1u64..300,
            steps in proptest::collection::vec(0u64..400, 1..600),
        ) {
            let mut dram = Dram::new(ticks_per_line as f64);
            let (mut now, mut free) = (5000, 0);
            for step in steps {
                now += step;
                let begins = now.max(free);
                prop_assert_eq!(now + dram.transfer(now), begins);
                free = begins + ticks_per_line;
            }
        }

        /// Out of order, transfers fill what is left, and the bandwidth holds.
        #[test]
        fn no_more_than_the_bandwidth_in_any_order(
            ticks_per_line in 0.3f64..40.0,
            asked in proptest::collection::vec(0u64..20_000, 1..600),
        ) {
            let mut dram = Dram::new(ticks_per_line);
            let mut begins: Vec<u64> = asked.iter().map(|&at| at + dram.transfer(at)).collect();
            begins.sort_unstable();
            // From any transfer on, no more have begun than fit, and one that goes on.
            for (first, &from) in begins.iter().enumerate() {
                for (later, &to) in begins.iter().enumerate().skip(first + 1) {
                    let fit = (to - from) as f64 / ticks_per_line;
                    prop_assert!((later - first) as f64 <= fit + 3.0, "{from} {to}");
                }
            }
        }
    }

    /// Waits of the transfers when every window from a transfer's own on is looked at in turn.
    fn one_by_one(ticks_per_line: f64, asked: &[u64]) -> Vec<u64> {
        let Dram {
            window_shift,
            room,
            room_per_line,
            ..
        } = Dram::new(ticks_per_line);
        let mut taken = std::collections::HashMap::new();
        let mut latest = 0;
        let mut wait_of = |&now: &u64| {
            let mut window = now >> window_shift;
            if window + SPAN <= latest {
                return 0;
            }
            let within = (now - (window << window_shift)) as u32 * ROOM_PER_TICK as u32;
            let mut from = within.max(*taken.entry(window).or_default());
            while from == room {
                window += 1;
                from = *taken.entry(window).or_default();
            }
            let begins = (window << window_shift) + u64::from(from / ROOM_PER_TICK as u32);
            let mut rest = room_per_line;
            loop {
                let here = rest.min(room - from);
                taken.insert(window, from + here);
                rest -= here;
                if rest == 0 {
                    latest = latest.max(window);
                    return begins.saturating_sub(now);
                }
                window += 1;
                from = *taken.entry(window).or_default();
            }
        };
        asked.iter().map(&mut wait_of).collect()
    }

    proptest! {
        /// Bursts at one time, and what is asked for before and after them.
        #[test]
        fn windows_that_are_passed_over_are_full(
            ticks_per_line in 0.3f64..40.0,
            bursts in proptest::collection::vec((0u64..5_000, 1usize..60), 1..40),
        ) {
            let asked: Vec<u64> = bursts
                .iter()
                .flat_map(|&(at, count)| std::iter::repeat_n(at, count))
                .collect();
            let mut dram = Dram::new(ticks_per_line);
            let waits: Vec<u64> = asked.iter().map(|&at| dram.transfer(at)).collect();
            prop_assert_eq!(waits, one_by_one(ticks_per_line, &asked));
        }
    }

    #[test]
    fn a_saturated_memory_moves_its_bandwidth() {
        let mut dram = Dram::new(10.0);
        let last = (0..1000).map(|_| dram.transfer(0)).max();
        assert_eq!(last, Some(9990));
        assert_eq!(dram.queued_ticks(), 9990 * 500);
    }

    #[test]
    fn what_is_long_past_waits_for_nothing() {
        let mut dram = Dram::new(10.0);
        for _ in 0..100_000 {
            dram.transfer(0);
        }
        assert_eq!(dram.transfer(0), 0);
    }
}
