use crate::{BASE, BATCH, Parameter, Parameters, Workload};
use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Access, Backing, Batch, Control, Op, Protection, Source, SourceError};

/// The inner loop of HPC Challenge RandomAccess: `t[r] ^= r` at random places of a table.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "random-updates",
    description: "read-modify-write of random 8-byte elements of a table (HPCC RandomAccess)",
    parameters: &[
        Parameter {
            name: "bytes",
            description: "size of the table",
            default: 10 << 30,
            min: PAGE_BYTES,
            max: 1 << 40,
        },
        Parameter {
            name: "updates",
            description: "updates, after one store to each page has stood for its initialisation",
            default: 20_000_000,
            min: 0,
            max: 1 << 60,
        },
    ],
    build: |parameters| Box::new(RandomUpdates::new(parameters)),
};

/// Instructions of the loop besides the update itself: shift, sign mask, exclusive or with the
/// polynomial, index, branch.
const GAP: u32 = 5;

struct RandomUpdates {
    bytes: u64,
    pages: u64,
    next_page: u64,
    updates: u64,
    random: u64,
    started: bool,
}

impl RandomUpdates {
    fn new(parameters: &Parameters) -> Self {
        let bytes = parameters.get("bytes");
        RandomUpdates {
            bytes,
            pages: bytes.div_ceil(PAGE_BYTES),
            next_page: 0,
            updates: parameters.get("updates"),
            random: 1,
            started: false,
        }
    }

    /// The generator of HPC Challenge: x^63 + x^2 + x + 1 over GF(2), one step per update.
    fn random(&mut self) -> u64 {
        const POLYNOMIAL: u64 = 7;
        let carry = if self.random >> 63 != 0 {
            POLYNOMIAL
        } else {
            0
        };
        self.random = (self.random << 1) ^ carry;
        self.random
    }
}

impl Source for RandomUpdates {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if !self.started {
            self.started = true;
            batch.push_control(Control::Map {
                addr: BASE,
                len: self.pages * PAGE_BYTES,
                prot: Protection(Protection::READ | Protection::WRITE),
                backing: Backing::Anonymous,
                populate: false,
            });
        } else if self.next_page == self.pages && self.updates == 0 {
            return Ok(false);
        }
        batch.push_control(Control::Thread { thread: 0 });
        while self.next_page < self.pages && batch.len() < BATCH {
            batch.push(Access {
                addr: BASE + self.next_page * PAGE_BYTES,
                op: Op::store(8),
                gap: GAP,
                dep: 0,
            });
            self.next_page += 1;
        }
        let elements = u128::from(self.bytes / 8);
        while self.updates > 0 && batch.len() < BATCH {
            // Successive values of the generator are shifts of each other; multiplying spreads
            // every bit over the index, whatever the size of the table.
            let mixed = self.random().wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let element = ((u128::from(mixed) * elements) >> 64) as u64;
            let addr = BASE + 8 * element;
            batch.push(Access {
                addr,
                op: Op::load(8),
                gap: GAP,
                dep: 0,
            });
            batch.push(Access {
                addr,
                op: Op::store(8),
                gap: 0,
                dep: 0,
            });
            self.updates -= 1;
        }
        if self.next_page == self.pages && self.updates == 0 {
            batch.push_control(Control::Exit { status: 0 });
        }
        Ok(true)
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.pages - self.next_page + 2 * self.updates)
    }
}
