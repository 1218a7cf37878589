use crate::config::{CoreConfig, WINDOW};

/// How far a core looks ahead whose integer registers may run out before its reorder buffer is full.
///
/// An instruction that writes a register takes one, and gives back the one that had the value before
/// when it retires. So with R of them, what is in the reorder buffer has taken at most R: an
/// instruction waits until so much before it has retired that it and what is left have. Which
/// instruction that is does not depend on time, only on what is executed.
#[derive(Clone, Debug)]
pub struct RegisterFile {
    registers: u64,
    reorder_buffer: u64,
    /// Instructions so far and registers that they took, up to and including each of the last accesses.
    taken: Box<[(u64, u64); WINDOW]>,
    accesses: usize,
    /// The first of them up to which enough registers are given back, once it has retired, for the last one.
    oldest: usize,
}

impl RegisterFile {
    /// Of such a core; `None` where nothing is said of its registers.
    pub fn new(config: &CoreConfig) -> Option<Self> {
        Some(RegisterFile {
            registers: config.integer_registers?.into(),
            reorder_buffer: config.reorder_buffer.into(),
            taken: Box::new([(0, 0); WINDOW]),
            // The first has one before it, of nothing.
            accesses: 1,
            oldest: 1,
        })
    }

    /// Takes the instructions of a gap and the access after it, which take so many registers; returns
    /// how many instructions the core holds, with this access as the last of them.
    ///
    /// Registers are taken evenly over the instructions.
    #[inline]
    pub fn look_ahead(&mut self, gap: u32, registers: u32) -> u32 {
        let (mut number, mut taken) = self.taken[(self.accesses - 1) % WINDOW];
        number += u64::from(gap) + 1;
        taken += u64::from(registers);
        self.taken[self.accesses % WINDOW] = (number, taken);
        self.accesses += 1;
        // An access so far back has left the reorder buffer.
        self.oldest = self.oldest.max((self.accesses + 1).saturating_sub(WINDOW));
        let given_back = taken.saturating_sub(self.registers);
        if given_back == 0 {
            return self.reorder_buffer as u32;
        }
        while self.taken[self.oldest % WINDOW].1 < given_back {
            self.oldest += 1;
        }
        let (before, had) = self.taken[(self.oldest - 1) % WINDOW];
        let (until, has) = self.taken[self.oldest % WINDOW];
        let (count, got) = (until - before, (has - had).max(1));
        // The oldest that is remembered may be younger than needed.
        let share = given_back.saturating_sub(had) * count;
        let left = before + share.div_ceil(got);
        (number - left).clamp(1, self.reorder_buffer) as u32
    }
}
