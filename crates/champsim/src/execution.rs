//! From the flow of blocks to executed instructions.

use crate::decoded::{Branch, Decoded};
use iced_x86::InstructionInfoFactory;
use pagelab_events::{Batch, CodeTable, Control, Definition, Flow, NO_SITE, Op};

/// An executed instruction, or one repetition of a repeated one.
#[derive(Clone, Debug)]
pub struct Executed<'a> {
    /// Its address.
    pub ip: u64,
    /// Facts of it beforehand.
    pub decoded: &'a Decoded,
    /// It goes on elsewhere than with the next instruction; `None` for what is no branch.
    pub taken: Option<bool>,
    /// Its accesses: address, and load or store.
    pub accesses: &'a [(u64, Op)],
}

/// One thread's instructions, in the order in which it executes them.
///
/// The thread is the one that makes the first entry of the flow; accesses of others, and those
/// that the kernel makes, are left out.
pub struct Executions {
    table: CodeTable,
    /// By site.
    decoded: Vec<Decoded>,
    factory: InstructionInfoFactory,
    /// The thread that is followed, and the one whose the events are.
    followed: Option<(u32, u32)>,
    flow_of: (u32, u32),
    /// The block that it executes, and its accesses so far with their sites.
    block: Option<u32>,
    made: Vec<(u32, u64, Op)>,
    /// Accesses of an instruction.
    accesses: Vec<(u64, Op)>,
}

impl Default for Executions {
    fn default() -> Self {
        Executions {
            table: CodeTable::default(),
            decoded: Vec::new(),
            factory: InstructionInfoFactory::new(),
            followed: None,
            flow_of: (0, 0),
            block: None,
            made: Vec::new(),
            accesses: Vec::new(),
        }
    }
}

impl Executions {
    /// Takes a batch; what it completes is handed to `each`.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn take<E>(
        &mut self,
        batch: &Batch,
        each: &mut impl FnMut(Executed) -> Result<(), E>,
    ) -> Result<(), E> {
        for definition in &batch.definitions {
            if self.table.define(definition.clone()) && matches!(definition, Definition::Block(_)) {
                let block = self.table.blocks().len() as u32 - 1;
                let instructions = self.table.instructions(block);
                let decoded = instructions.map(|i| Decoded::of(i.bytes, &mut self.factory));
                self.decoded.extend(decoded);
            }
        }
        let mut flow = batch.flow.iter().peekable();
        let mut controls = batch.controls.iter().peekable();
        for access in 0..=batch.len() {
            while let Some(&(_, entry)) = flow.next_if(|(at, _)| *at as usize <= access) {
                self.enter(batch.process, entry, each)?;
            }
            while let Some((_, control)) = controls.next_if(|(at, _)| *at as usize <= access) {
                // The instructions that follow are executed elsewhere, after something unknown.
                if matches!(control, Control::Skipped { .. } | Control::Exec)
                    && self.followed == Some(self.flow_of)
                {
                    self.leave(None, each)?;
                }
            }
            if access < batch.len()
                && self.followed == Some(self.flow_of)
                && !batch.op[access].is_kernel()
                && let Some(&site) = batch.site.get(access)
                && site != NO_SITE
            {
                self.made.push((site, batch.addr[access], batch.op[access]));
            }
        }
        Ok(())
    }

    /// The last block.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn finish<E>(&mut self, each: &mut impl FnMut(Executed) -> Result<(), E>) -> Result<(), E> {
        self.leave(None, each)
    }

    fn enter<E>(
        &mut self,
        process: u32,
        entry: Flow,
        each: &mut impl FnMut(Executed) -> Result<(), E>,
    ) -> Result<(), E> {
        match entry {
            Flow::Thread(thread) => {
                self.flow_of = (process, thread);
                self.followed.get_or_insert((process, thread));
            }
            Flow::Block(block) if self.followed == Some(self.flow_of) => {
                let next = self.table.blocks().get(block as usize).map(|b| b.pc);
                self.leave(next, each)?;
                self.block = Some(block);
            }
            Flow::Block(_) => {}
        }
        Ok(())
    }

    /// Ends the block, after which `next` is executed, if that is known.
    fn leave<E>(
        &mut self,
        next: Option<u64>,
        each: &mut impl FnMut(Executed) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(number) = self.block.take() else {
            self.made.clear();
            return Ok(());
        };
        let block = &self.table.blocks()[number as usize];
        let first = self.table.first_site(number);
        let mut made = self.made.as_slice();
        let mut ip = block.pc;
        for (index, &length) in block.lengths.iter().enumerate() {
            let site = first + index as u32;
            let decoded = &self.decoded[site as usize];
            // QEMU up to 8 makes a block of each repetition of a string instruction, which the flow
            // leaves out: another site of the same address.
            let is_here = |other: u32| {
                other == site
                    || (decoded.repeats.is_some()
                        && self.table.instruction(other).is_some_and(|i| i.pc == ip))
            };
            let own = made.iter().take_while(|access| is_here(access.0)).count();
            let usual = || block.accesses.iter().any(|&by| usize::from(by) == index);
            if made.is_empty() && next.is_none() && decoded.repeats.is_none() && usual() {
                // The end of what was recorded, or a signal, came in the middle.
                break;
            }
            self.accesses.clear();
            self.accesses
                .extend(made[..own].iter().map(|&(_, addr, op)| (addr, op)));
            made = &made[own..];
            let end = ip.wrapping_add(u64::from(length));
            let taken = match decoded.branch {
                Branch::None => None,
                Branch::Always => Some(true),
                Branch::Conditional => Some(next.is_some_and(|next| next != end)),
            };
            let mut rest = self.accesses.as_slice();
            loop {
                let some = decoded.repeats.unwrap_or(rest.len()).min(rest.len());
                let (accesses, later) = rest.split_at(some);
                rest = later;
                each(Executed {
                    ip,
                    decoded,
                    taken,
                    accesses,
                })?;
                if rest.is_empty() {
                    break;
                }
            }
            ip = end;
        }
        self.made.clear();
        Ok(())
    }
}
