//! Rows of memory: which one each bank has open, and when it is free.

use crate::error::BuildError;
use pagelab_addr::{LINE_BYTES, LINE_SHIFT};
use pagelab_memory::{BankCounts, BankTimes, Banks, BusyConfig, RowsConfig};

/// Banks of a node of memory, each with a row that is open.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    /// log2 of the lines of a row.
    shift: u32,
    activate: u64,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// The open row of each bank: references come in the order of the program or nearly so, and a
    /// bank that is busy with one does not hold up the next.
    Open { rows: Box<[u32]>, precharge: u64 },
    /// Banks that take time.
    Busy {
        banks: Banks,
        /// Banks that lines go round, and how often there are so many.
        interleave: u32,
        sets: u32,
    },
}

const NO_ROW: u32 = u32::MAX;

impl Rows {
    pub(crate) fn new(
        config: &RowsConfig,
        latency_ns: f64,
        slots_per_ns: f64,
    ) -> Result<Self, BuildError> {
        let refuse = |key, value: String, expected| {
            Err(BuildError::Value {
                key,
                value,
                expected,
            })
        };
        let RowsConfig {
            banks,
            row_bytes,
            activate_ns,
            precharge_ns,
            busy,
        } = *config;
        if !(1..=1 << 20).contains(&banks) {
            return refuse("dram.rows.banks", banks.to_string(), "between 1 and 2^20");
        }
        if !row_bytes.is_power_of_two() || u64::from(row_bytes) < LINE_BYTES {
            let expected = "a power of two from 64 on";
            return refuse("dram.rows.row_bytes", row_bytes.to_string(), expected);
        }
        if !(0.0..=latency_ns).contains(&activate_ns) {
            let expected = "a time of at most the memory's latency";
            return refuse("dram.rows.activate_ns", activate_ns.to_string(), expected);
        }
        if !(0.0..1e9).contains(&precharge_ns) {
            let expected = "a time from 0 to 10^9 ns";
            return refuse("dram.rows.precharge_ns", precharge_ns.to_string(), expected);
        }
        let slots = |ns: f64| (ns * slots_per_ns).round() as u64;
        let state = match busy {
            None => State::Open {
                rows: vec![NO_ROW; banks as usize].into(),
                precharge: slots(precharge_ns),
            },
            Some(busy) => {
                check(&busy, banks)?;
                let times = BankTimes {
                    activate: slots(activate_ns),
                    precharge: slots(precharge_ns),
                    column: slots(busy.column_ns),
                    read: slots(busy.read_ns),
                    open: slots(busy.open_ns),
                };
                State::Busy {
                    banks: Banks::new(banks, times),
                    interleave: busy.interleave,
                    sets: banks / busy.interleave,
                }
            }
        };
        Ok(Rows {
            shift: row_bytes.ilog2() - LINE_SHIFT,
            activate: slots(activate_ns),
            state,
        })
    }

    /// A read at `now` of memory that takes `closed` when its bank has no row open: from when on it
    /// takes bandwidth, and how long it takes besides.
    #[inline]
    pub(crate) fn read(&mut self, line: u32, closed: u64, now: u64) -> (u64, u64) {
        match &mut self.state {
            State::Open { rows, precharge } => {
                let row = line >> self.shift;
                let bank = spread(row, rows.len() as u32);
                let takes = match std::mem::replace(&mut rows[bank as usize], row) {
                    open if open == row => closed - self.activate,
                    NO_ROW => closed,
                    _ => closed + *precharge,
                };
                (now, takes)
            }
            State::Busy {
                banks,
                interleave,
                sets,
            } => {
                let row = (line / *interleave) >> self.shift;
                let bank = spread(row, *sets) * *interleave + line % *interleave;
                let delay = banks.read(bank, row, now);
                (now + delay, closed - self.activate + delay)
            }
        }
    }

    /// Counts of the banks, where they may be busy.
    pub(crate) fn counts(&self) -> BankCounts {
        match &self.state {
            State::Open { .. } => BankCounts::default(),
            State::Busy { banks, .. } => banks.counts(),
        }
    }
}

/// The bank of a row. Rows that lie a power of two apart shall not all be in one bank (Zhang, Zhu
/// and Zhang, MICRO 2000, for the same end).
#[inline]
fn spread(row: u32, banks: u32) -> u32 {
    (row ^ (row / banks)) % banks
}

/// Refuses impossible values.
fn check(busy: &BusyConfig, banks: u32) -> Result<(), BuildError> {
    let BusyConfig {
        interleave,
        column_ns,
        read_ns,
        open_ns,
    } = *busy;
    if interleave == 0 || !banks.is_multiple_of(interleave) {
        return Err(BuildError::Value {
            key: "dram.rows.busy.interleave",
            value: interleave.to_string(),
            expected: "a number that divides dram.rows.banks",
        });
    }
    for (key, ns) in [
        ("dram.rows.busy.column_ns", column_ns),
        ("dram.rows.busy.read_ns", read_ns),
        ("dram.rows.busy.open_ns", open_ns),
    ] {
        if !(0.0..1e6).contains(&ns) {
            return Err(BuildError::Value {
                key,
                value: ns.to_string(),
                expected: "a time from 0 to 10^6 ns",
            });
        }
    }
    Ok(())
}
