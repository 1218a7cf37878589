use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Banks that are busy: what makes a bank wait between two commands.
///
/// The names are those of JEDEC's standards for DDR4 (JESD79-4) and DDR5 (JESD79-5).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BusyConfig {
    /// Banks that lines go round, one line in each before the next: channels times bank groups.
    pub interleave: u32,
    /// Between two reads of an open row (tCCD_L).
    pub column_ns: f64,
    /// From a read to the closing of its row (tRTP).
    pub read_ns: f64,
    /// The least time that a row is open (tRAS); with the precharge, tRC.
    pub open_ns: f64,
}

/// Times of a bank, in ticks of the caller's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankTimes {
    /// tRCD.
    pub activate: u64,
    /// tRP.
    pub precharge: u64,
    /// tCCD_L.
    pub column: u64,
    /// tRTP.
    pub read: u64,
    /// tRAS.
    pub open: u64,
}

/// Banks of which each serves one access at a time, and leaves its row open.
///
/// An access waits for all that were asked for before it. One that is asked for at an earlier time
/// than the last goes before others where there is room: cores that are simulated in turns are
/// apart. What comes before all that a bank remembers finds it closed and idle, and changes
/// nothing.
#[derive(Clone, Debug)]
pub struct Banks {
    banks: Box<[Bank]>,
    times: BankTimes,
    counts: BankCounts,
}

/// Counts of the banks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BankCounts {
    /// Reads of the row that was open.
    pub hits: u64,
    /// Reads of another row, which closed that one.
    pub conflicts: u64,
    /// Ticks that reads waited for their bank, beyond what opening and closing rows takes.
    pub waited: u64,
}

/// Accesses that a bank remembers.
const REMEMBERED: usize = 8;

/// The last accesses, in the order of time.
#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    uses: [Use; REMEMBERED],
    len: usize,
    /// The latest time that anybody asked at.
    latest: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    asked: u64,
    /// Its first command.
    from: u64,
    /// When its row was opened.
    opened: u64,
    /// When its column was read.
    column: u64,
    row: u32,
}

impl Banks {
    /// Banks that are closed and idle.
    pub fn new(banks: u32, times: BankTimes) -> Self {
        Banks {
            banks: vec![Bank::default(); banks as usize].into(),
            times,
            counts: BankCounts::default(),
        }
    }

    /// Reads a row of a bank that is asked for at `now`; returns how much later its column is
    /// read.
    #[inline]
    pub fn read(&mut self, bank: u32, row: u32, now: u64) -> u64 {
        let times = self.times;
        let bank = &mut self.banks[bank as usize];
        let mut place = bank.len;
        if now < bank.latest {
            let known = &bank.uses[..bank.len];
            place = known.partition_point(|earlier| earlier.from <= now);
            if place == 0 && bank.len == REMEMBERED {
                if now < bank.uses[0].asked {
                    return times.activate;
                }
                place = 1;
            }
        }
        bank.latest = bank.latest.max(now);
        let (mut next, mut before);
        loop {
            before = place.checked_sub(1).map(|at| bank.uses[at]);
            next = times.after(before, row, now);
            let fits = |later: &Use| times.earliest_other(&next) <= later.from;
            if bank.uses[place..bank.len].first().is_none_or(fits) {
                break;
            }
            place += 1;
        }
        bank.insert(place, next);
        let delay = next.column - now;
        let alone = match before {
            None => times.activate,
            Some(before) if before.row == row => {
                self.counts.hits += 1;
                0
            }
            Some(_) => {
                self.counts.conflicts += 1;
                times.precharge + times.activate
            }
        };
        self.counts.waited += delay - alone;
        delay
    }

    /// Counts of the banks so far.
    pub fn counts(&self) -> BankCounts {
        self.counts
    }
}

impl BankTimes {
    /// The use of a row asked for at `now`, when the bank's last use was `before`.
    #[inline]
    fn after(&self, before: Option<Use>, row: u32, now: u64) -> Use {
        let Some(before) = before else {
            return self.opening(now, now, now, row);
        };
        if before.row == row {
            let column = now.max(before.column + self.column);
            return Use {
                asked: now,
                from: column,
                opened: before.opened,
                column,
                row,
            };
        }
        let from = now.max(self.earliest_other(&before));
        self.opening(now, from, from + self.precharge, row)
    }

    #[inline]
    fn opening(&self, asked: u64, from: u64, opened: u64, row: u32) -> Use {
        Use {
            asked,
            from,
            opened,
            column: opened + self.activate,
            row,
        }
    }

    /// When a row may be closed again at the earliest.
    #[inline]
    fn earliest_other(&self, used: &Use) -> u64 {
        (used.opened + self.open).max(used.column + self.read)
    }
}

impl Bank {
    #[inline]
    fn insert(&mut self, place: usize, used: Use) {
        if self.len < REMEMBERED {
            self.uses.copy_within(place..self.len, place + 1);
            self.uses[place] = used;
            self.len += 1;
        } else {
            // The oldest is forgotten; nothing goes in front of it.
            self.uses.copy_within(1..place, 0);
            self.uses[place - 1] = used;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// DDR4-2666 in clocks of 0.75 ns, as DRAMsim3 has it (configs/DDR4_8Gb_x8_2666.ini).
    const DDR4_2666: BankTimes = BankTimes {
        activate: 19,
        precharge: 19,
        column: 7,
        read: 10,
        open: 43,
    };

    /// A bank that is looked at tick by tick: it issues the command that its oldest access needs
    /// next as soon as all times allow it.
    #[derive(Default)]
    struct Slow {
        queue: VecDeque<(u64, u32)>,
        open: Option<u32>,
        /// The last of each command.
        activate: Option<u64>,
        precharge: Option<u64>,
        read: Option<u64>,
    }

    impl Slow {
        /// When the oldest access reads its column, if that is now.
        fn tick(&mut self, times: &BankTimes, now: u64) -> Option<u64> {
            let over = |last: Option<u64>, time| last.is_none_or(|last| now >= last + time);
            let &(asked, row) = self.queue.front()?;
            if asked > now {
                return None;
            }
            match self.open {
                Some(open) if open == row => {
                    if over(self.activate, times.activate) && over(self.read, times.column) {
                        self.read = Some(now);
                        self.queue.pop_front();
                        return Some(now - asked);
                    }
                }
                Some(_) => {
                    if over(self.activate, times.open) && over(self.read, times.read) {
                        (self.precharge, self.open) = (Some(now), None);
                    }
                }
                None => {
                    if over(self.precharge, times.precharge) {
                        (self.activate, self.open) = (Some(now), Some(row));
                    }
                }
            }
            None
        }
    }

    fn times() -> impl Strategy<Value = BankTimes> {
        (1u64..30, 1u64..30, 1u64..12, 1u64..15, 1u64..60).prop_map(
            |(activate, precharge, column, read, open)| BankTimes {
                activate,
                precharge,
                // Columns are as far apart in another row as in the same: opening it takes longer
                // in all memory that there is, and nobody waits for that here.
                column: column.min(read + precharge + activate),
                read,
                open,
            },
        )
    }

    proptest! {
        /// In the order of time, each bank is a queue.
        #[test]
        fn as_a_queue_of_commands(
            times in times(),
            asked in proptest::collection::vec((0u32..3, 0u32..4, 0u64..40), 1..80),
        ) {
            let mut banks = Banks::new(3, times);
            let mut slow = [(); 3].map(|()| Slow::default());
            let mut now = 0;
            let mut delays = [(); 3].map(|()| VecDeque::new());
            for (bank, row, later) in asked {
                now += later;
                delays[bank as usize].push_back(banks.read(bank, row, now));
                slow[bank as usize].queue.push_back((now, row));
            }
            for (bank, delays) in slow.iter_mut().zip(&mut delays) {
                for now in 0..20_000 {
                    if let Some(delay) = bank.tick(&times, now) {
                        prop_assert_eq!(delays.pop_front(), Some(delay));
                    }
                }
                prop_assert!(bank.queue.is_empty() && delays.is_empty());
            }
        }

        /// In any order, a bank does one thing at a time.
        #[test]
        fn one_access_at_a_time_in_any_order(
            times in times(),
            asked in proptest::collection::vec((0u32..4, 0u64..400), 1..REMEMBERED),
        ) {
            let mut banks = Banks::new(1, times);
            let mut columns: Vec<(u64, u32)> = asked
                .iter()
                .map(|&(row, at)| (at + banks.read(0, row, at), row))
                .collect();
            columns.sort_unstable();
            for pair in columns.windows(2) {
                let apart = pair[1].0 - pair[0].0;
                let least = if pair[0].1 == pair[1].1 {
                    times.column.min(times.read)
                } else {
                    times.read
                };
                prop_assert!(apart >= least, "{columns:?}");
            }
        }
    }

    #[test]
    fn ddr4_by_its_command_timings() {
        let mut banks = Banks::new(2, DDR4_2666);
        // Closed: ACT at 0, RD at tRCD.
        assert_eq!(banks.read(0, 1, 0), 19);
        // Hit: tCCD_L after the RD before.
        assert_eq!(banks.read(0, 1, 0), 19 + 7);
        // Conflict: PRE not before tRAS, ACT tRP later, so tRC after the first one; RD tRCD later.
        assert_eq!(banks.read(0, 2, 0), 43 + 19 + 19);
        // The other bank is idle.
        assert_eq!(banks.read(1, 2, 0), 19);
        // Long after: PRE, ACT, RD at once.
        assert_eq!(banks.read(0, 1, 1000), 19 + 19);
        // A hit at 1055, then a conflict: PRE not before tRTP after it, tRAS being over.
        assert_eq!(banks.read(0, 1, 1055), 0);
        assert_eq!(banks.read(0, 2, 1056), 10 - 1 + 19 + 19);
        let BankCounts {
            hits,
            conflicts,
            waited,
        } = banks.counts();
        // Waited: 26 behind the first, 43 for tRAS, 9 for tRTP.
        assert_eq!((hits, conflicts, waited), (2, 3, 26 + 43 + 9));
    }

    #[test]
    fn rows_in_turn_in_one_bank_take_a_row_cycle_each() {
        let mut banks = Banks::new(1, DDR4_2666);
        let last = (0..1000).map(|row| banks.read(0, row % 2, 0)).last();
        assert_eq!(last, Some(19 + 999 * (43 + 19)));
    }

    #[test]
    fn what_is_long_past_finds_the_bank_idle() {
        let mut banks = Banks::new(1, DDR4_2666);
        for row in 0..100 {
            banks.read(0, row, 10_000);
        }
        assert_eq!(banks.read(0, 7, 0), 19);
    }
}
