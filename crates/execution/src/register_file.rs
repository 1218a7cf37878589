use pagelab_cpu::{CoreConfig, WINDOW};

/// Look-ahead of a core whose integer registers may run out before its reorder buffer is full.
///
/// An instruction that writes a register takes one, and gives back the one that had the value before
/// when it retires. So with R of them, what is in the reorder buffer has taken at most R: an
/// instruction waits until so much before it has retired that it and what is left have. Which
/// instruction that is does not depend on time, only on what is executed.
#[derive(Clone, Debug)]
pub struct RegisterFile {
    registers: u64,
    reorder_buffer: u64,
    /// For each of the last accesses, instructions with its gap and registers that these take.
    last: Box<[(u32, u32); WINDOW]>,
    accesses: usize,
    /// The access up to which enough registers are given back, once it has retired, for the last one; and
    /// instructions and registers from it on.
    oldest: usize,
    instructions: u64,
    taken: u64,
}

impl RegisterFile {
    /// Register file of such a core; `None` where nothing is said of its registers.
    pub fn new(config: &CoreConfig) -> Option<Self> {
        Some(RegisterFile {
            registers: config.integer_registers()?.into(),
            reorder_buffer: config.reorder_buffer.into(),
            last: Box::new([(0, 0); WINDOW]),
            accesses: 0,
            oldest: 0,
            instructions: 0,
            taken: 0,
        })
    }

    /// Takes the instructions of a gap and the access after it, which take so many registers; returns
    /// how many instructions the core holds, with this access as the last of them.
    ///
    /// Registers are taken evenly over the instructions.
    #[inline]
    pub fn look_ahead(&mut self, gap: u32, registers: u32) -> u32 {
        let instructions = gap.saturating_add(1);
        if self.accesses - self.oldest == WINDOW {
            // An access so far back has left the reorder buffer.
            self.give_back();
        }
        self.last[self.accesses % WINDOW] = (instructions, registers);
        self.accesses += 1;
        self.instructions += u64::from(instructions);
        self.taken += u64::from(registers);
        if self.taken <= self.registers {
            return self.reorder_buffer as u32;
        }
        while self.taken - u64::from(self.last[self.oldest % WINDOW].1) > self.registers {
            self.give_back();
        }
        // As many of the oldest instructions leave as take what there is too much.
        let (count, taken) = self.last[self.oldest % WINDOW];
        let retired = (self.taken - self.registers) * u64::from(count);
        let held = self.instructions - retired.div_ceil(u64::from(taken).max(1));
        held.clamp(1, self.reorder_buffer) as u32
    }

    #[inline(always)]
    fn give_back(&mut self) {
        let (instructions, taken) = self.last[self.oldest % WINDOW];
        self.instructions -= u64::from(instructions);
        self.taken -= u64::from(taken);
        self.oldest += 1;
    }
}
