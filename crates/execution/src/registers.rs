//! When a core's registers are there.

use crate::between_accesses::Ran;
use crate::pieces::{ADDRESS, FOUND, PLACES, Pieces, RESULT};
use pagelab_cpu::Computed;
use pagelab_registers::REGISTERS;

/// Words of 8 bytes whose last store is remembered, by the last bits of their addresses.
const STORED: usize = 256;

/// When a core's registers are there, if all loads hit the first level.
#[derive(Clone, Debug)]
pub struct Registers {
    ready: [u64; PLACES],
    /// Addresses and when what was stored there last was computed.
    stored: Box<[(u64, u64); STORED]>,
    ran: Ran,
}

impl Registers {
    /// All are there, on a core with such a reorder buffer.
    pub fn new(reorder_buffer: u32) -> Self {
        Registers {
            ready: [0; PLACES],
            stored: Box::new([(0, 0); STORED]),
            ran: Ran::new(reorder_buffer),
        }
    }

    /// Executes pieces whose instructions are dispatched one a slot after `dispatched`, the last of which ends
    /// with an access.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        pieces: &Pieces,
        numbers: &[u32],
        dispatched: u64,
        addr: u64,
        store: bool,
    ) -> Computed {
        let word = (addr / 8) as usize % STORED;
        let (stored, when) = self.stored[word];
        self.ready[FOUND] = if stored == addr { when } else { 0 };
        let address = self.run(pieces, numbers, dispatched);
        if store {
            self.stored[word] = (addr, self.ready[RESULT]);
        }
        Computed {
            address,
            done: self.ran.end(),
        }
    }

    /// Executes pieces behind the last access, whose instructions are dispatched one a slot after that and what
    /// has run since; returns when the access has its address in which they end, if they do.
    #[inline(always)]
    pub(crate) fn run(&mut self, pieces: &Pieces, numbers: &[u32], dispatched: u64) -> u64 {
        let Registers { ready, ran, .. } = self;
        let mut from = dispatched + ran.slots;
        let (mut address, mut all_done) = (0, ran.done);
        for &number in numbers {
            let Some(piece) = pieces.get(number) else {
                ready[..REGISTERS].fill(0);
                continue;
            };
            for &(place, copy) in pieces.copies(piece) {
                ready[usize::from(copy)] = ready[usize::from(place)];
            }
            for row in pieces.rows(piece) {
                let time = |of: usize| ready[usize::from(row.of[of])] + u64::from(row.slots[of]);
                let latest = (from + u64::from(row.after_dispatch))
                    .max(time(0))
                    .max(time(1));
                ready[usize::from(row.place)] = latest;
                let done = if row.computes { latest } else { 0 };
                all_done = all_done.max(done);
            }
            from += u64::from(piece.instructions);
            if piece.accesses {
                // After many instructions it is dispatched when they leave it room.
                address = ready[ADDRESS].max(if ran.bounds() { from } else { 0 });
            }
            ran.instructions += u64::from(piece.instructions);
            if ran.instructions >= ran.look {
                ran.done = all_done;
                from = ran.room(from);
            }
        }
        ran.slots = from - dispatched;
        ran.done = all_done;
        address
    }
}

#[cfg(test)]
mod tests;
