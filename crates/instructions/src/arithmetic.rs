//! Cycles that arithmetic takes from what a load brings to an address that is computed from it.

use crate::each::of_each;
use crate::latency::latency;
use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, OpKind};
use pagelab_dataflow::{
    ARITHMETIC, FLAGS, REGISTERS, forgets, keeps_part, number, reads, stepped, writes,
};
use pagelab_events::CodeBlock;

/// What the instructions of a block do with registers.
#[derive(Clone, Debug)]
pub struct Arithmetic {
    steps: Box<[Step]>,
}

/// What an instruction does: sets of registers, one bit each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// Addresses are made of these.
    pub addresses: u32,
    /// And of these after they were scaled.
    pub scaled: u32,
    /// And what it computes of these.
    pub data: u32,
    /// These have what it computes.
    pub writes: u32,
    /// These have what it computes and what they had before.
    pub merges: u32,
    /// From its operands to what it computes; of one that loads, from its data on.
    pub cycles: u8,
    /// Whether it loads from memory.
    pub loads: bool,
    /// Whether it stores to memory.
    pub stores: bool,
}

/// The longest ways from a load to an address that is computed from it, in cycles of the instructions
/// between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// To any part of the address.
    pub cycles: u32,
    /// To an index that is scaled, if there is one.
    pub to_scaled: Option<u32>,
}

impl Way {
    /// Cycles until the address is there, where scaling an index takes so many.
    pub fn with(&self, scaling: u32) -> u32 {
        let scaled = self.to_scaled.map_or(0, |cycles| cycles + scaling);
        self.cycles.max(scaled)
    }
}

/// By register, cycles since the load; negative where the load has no part in its value.
type Since = [i32; REGISTERS];
const NO_PART: i32 = -1;

impl Arithmetic {
    /// Nothing is known of instructions without bytes.
    pub fn of(block: &CodeBlock) -> Self {
        Arithmetic {
            steps: of_each(block, Step::of).into(),
        }
    }

    /// Instruction by instruction.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Registers that may be read behind a block: compilers do not keep flags so long.
    pub const LIVE_BEHIND: u32 = !(1 << FLAGS);

    /// Behind each instruction, the registers that may be read before they are written.
    pub fn live(&self) -> Vec<u32> {
        let mut live = vec![Self::LIVE_BEHIND; self.steps.len()];
        for (number, step) in self.steps.iter().enumerate().skip(1).rev() {
            let read = step.addresses | step.data | step.merges;
            live[number - 1] = live[number] & !step.writes | read;
        }
        live
    }

    /// From the data of the load by one of its instructions to an address of a later one. `None` if there is
    /// no way.
    pub fn within(&self, load: usize, access: usize) -> Option<Way> {
        let between = self.steps.get(load + 1..access)?;
        self.steps.get(access)?.way(self.loaded(load)?, between)
    }

    /// The same where what is executed after the block of the load, sooner or later, is `next` with the
    /// access. Blocks between the two take no time, and leave registers as they are.
    pub fn across(&self, load: usize, next: &Arithmetic, access: usize) -> Option<Way> {
        let rest = self.steps.get(load + 1..)?;
        let between = rest.iter().chain(next.steps.get(..access)?);
        next.steps.get(access)?.way(self.loaded(load)?, between)
    }

    /// When a load has its data.
    fn loaded(&self, load: usize) -> Option<Since> {
        let step = self.steps.get(load)?;
        let mut since = [NO_PART; REGISTERS];
        for register in registers(step.writes | step.merges) {
            since[register] = step.cycles.into();
        }
        Some(since)
    }
}

impl Step {
    fn of(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Self {
        let info = factory.info(instruction);
        let mut step = Step {
            cycles: latency(instruction),
            ..Step::default()
        };
        let bit = |register| number(register).map_or(0, |number| 1 << number);
        for used in info.used_memory() {
            if used.scale() > 1 {
                step.scaled |= bit(used.index());
            }
            step.addresses |= bit(used.base()) | bit(used.index());
        }
        step.loads = info.used_memory().iter().any(|used| reads(used.access()));
        step.stores = info.used_memory().iter().any(|used| writes(used.access()));
        if step.loads {
            // What an address is made of is no part of what is found there.
            for operand in 0..instruction.op_count() {
                if instruction.op_kind(operand) == OpKind::Register
                    && reads(info.op_access(operand))
                {
                    step.data |= bit(instruction.op_register(operand));
                }
            }
        } else if !forgets(instruction) {
            for used in info.used_registers() {
                if reads(used.access()) {
                    step.data |= bit(used.register());
                }
            }
        }
        if instruction.rflags_read() & ARITHMETIC != 0 {
            step.data |= 1 << FLAGS;
        }
        for used in info.used_registers() {
            let Some(place) = number(used.register()).filter(|_| writes(used.access())) else {
                continue;
            };
            if stepped(instruction, place) {
                continue;
            }
            let perhaps = matches!(used.access(), OpAccess::CondWrite | OpAccess::ReadCondWrite);
            if perhaps || keeps_part(used.register()) {
                step.merges |= 1 << place;
            } else {
                step.writes |= 1 << place;
            }
        }
        match instruction.rflags_modified() {
            0 => {}
            all if all & ARITHMETIC == ARITHMETIC => step.writes |= 1 << FLAGS,
            _ => step.merges |= 1 << FLAGS,
        }
        step
    }

    fn take(&self, since: &mut Since) {
        let after =
            |latest: Option<i32>| latest.map_or(NO_PART, |latest| latest + i32::from(self.cycles));
        let result = after(self.latest(self.data, since));
        for register in registers(self.merges) {
            since[register] = after(self.latest(1 << register, since)).max(result);
        }
        for register in registers(self.writes) {
            since[register] = result;
        }
    }

    /// To its address, after those between.
    fn way<'a>(
        &self,
        mut since: Since,
        between: impl IntoIterator<Item = &'a Step>,
    ) -> Option<Way> {
        for step in between {
            step.take(&mut since);
        }
        Some(Way {
            cycles: self.latest(self.addresses, &since)?.unsigned_abs(),
            to_scaled: self.latest(self.scaled, &since).map(i32::unsigned_abs),
        })
    }

    fn latest(&self, of: u32, since: &Since) -> Option<i32> {
        let all = registers(of).map(|register| since[register]);
        all.max().filter(|&latest| latest != NO_PART)
    }
}

fn registers(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (next < REGISTERS).then_some(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arithmetic(code: &[&[u8]]) -> Arithmetic {
        Arithmetic::of(&CodeBlock {
            lengths: code.iter().map(|bytes| bytes.len() as u8).collect(),
            bytes: code.concat().into(),
            ..CodeBlock::default()
        })
    }

    fn unscaled(cycles: u32) -> Option<Way> {
        Some(Way {
            cycles,
            to_scaled: None,
        })
    }

    const LOAD: &[u8] = &[0x48, 0x8b, 0x00]; // mov rax, [rax]
    const ADD: &[u8] = &[0x48, 0x83, 0xc0, 0x08]; // add rax, 8
    const MULTIPLY: &[u8] = &[0x48, 0x0f, 0xaf, 0xc1]; // imul rax, rcx

    #[test]
    fn a_chain_takes_what_its_links_take() {
        let block = arithmetic(&[LOAD, ADD, MULTIPLY, LOAD, LOAD]);
        assert_eq!(block.within(0, 3), unscaled(4));
        assert_eq!(block.within(3, 4), unscaled(0));
        // What the second load brings is no value of the first.
        assert_eq!(block.within(0, 4), None);
        // Around a loop: from the first load to itself there is always another in between.
        assert_eq!(block.across(0, &block, 0), None);
        assert_eq!(block.across(4, &block, 0), unscaled(0));
        assert_eq!(
            block.across(4, &arithmetic(&[ADD, ADD, LOAD]), 2),
            unscaled(2)
        );
    }

    #[test]
    fn a_binary_search_takes_three_cycles_a_step() {
        let search = arithmetic(&[
            &[0x48, 0x89, 0xd6],       // mov rsi, rdx
            &[0x48, 0xd1, 0xee],       // shr rsi
            &[0x4c, 0x8d, 0x0c, 0x06], // lea r9, [rsi+rax]
            &[0x4e, 0x39, 0x04, 0xcb], // cmp [rbx+r9*8], r8
            &[0x49, 0x0f, 0x42, 0xc1], // cmovb rax, r9
            &[0x48, 0x29, 0xf2],       // sub rdx, rsi
            &[0x48, 0x83, 0xfa, 0x01], // cmp rdx, 1
            &[0x77, 0xe5],             // ja
        ]);
        // The comparison, the move by its flags, and the next place, which is an index of eight bytes each.
        let way = search.across(3, &search, 3).unwrap();
        assert_eq!((way.cycles, way.to_scaled), (3, Some(3)));
        assert_eq!((way.with(0), way.with(1)), (3, 4));
    }

    #[test]
    fn the_longest_way_counts() {
        let block = arithmetic(&[
            LOAD,
            &[0x48, 0x89, 0xc1],       // mov rcx, rax
            &[0x48, 0x8d, 0x50, 0x08], // lea rdx, [rax+8]
            &[0x48, 0x0f, 0xaf, 0xd2], // imul rdx, rdx
            &[0x48, 0x8b, 0x04, 0x11], // mov rax, [rcx+rdx]
        ]);
        assert_eq!(block.within(0, 4), unscaled(4));
        // The base is two cycles later than the index that is scaled.
        let base = arithmetic(&[
            LOAD,
            &[0x48, 0x89, 0xc1],
            ADD,
            ADD,
            &[0x48, 0x8b, 0x04, 0xc8],
        ]);
        let way = base.within(0, 4).unwrap();
        assert_eq!([0, 1, 2, 3].map(|scaling| way.with(scaling)), [2, 2, 2, 3]);
    }

    #[test]
    fn what_is_overwritten_is_forgotten_and_what_is_kept_in_part_is_not() {
        let zero: &[u8] = &[0x31, 0xc0]; // xor eax, eax
        assert_eq!(arithmetic(&[LOAD, zero, LOAD]).within(0, 2), None);
        let part: &[u8] = &[0x88, 0xc8]; // mov al, cl
        assert_eq!(
            arithmetic(&[LOAD, ADD, part, LOAD]).within(0, 3),
            unscaled(2)
        );
        let constant: &[u8] = &[0xb8, 1, 0, 0, 0]; // mov eax, 1
        assert_eq!(arithmetic(&[LOAD, constant, LOAD]).within(0, 2), None);
    }

    #[test]
    fn what_a_load_is_added_to_goes_on() {
        let block = arithmetic(&[
            LOAD,
            &[0x48, 0x03, 0x01], // add rax, [rcx]
            LOAD,
        ]);
        // One addition after either load.
        assert_eq!(block.within(0, 2), unscaled(1));
        assert_eq!(block.within(1, 2), unscaled(1));
        // The stack pointer that push moves is no value.
        let push = arithmetic(&[LOAD, &[0x50], &[0x48, 0x8b, 0x04, 0x24]]);
        assert_eq!(push.within(0, 2), None);
    }

    #[test]
    fn a_register_is_live_until_it_is_written() {
        let (rax, rcx, flags) = (1, 2, 1 << FLAGS);
        let block = arithmetic(&[
            ADD,
            &[0x48, 0x39, 0xc8],       // cmp rax, rcx
            &[0x48, 0x0f, 0x42, 0xc1], // cmovb rax, rcx
            &[0xb8, 1, 0, 0, 0],       // mov eax, 1
            ADD,
        ]);
        let live: Vec<u32> = (block.live().iter())
            .map(|live| live & (rax | rcx | flags))
            .collect();
        let expected = [rax | rcx, rax | rcx | flags, rcx, rax | rcx, rax | rcx];
        assert_eq!(live, expected);
    }

    #[test]
    fn nothing_is_known_without_bytes_or_beyond_the_block() {
        let block = Arithmetic::of(&CodeBlock {
            lengths: [3, 0, 2].into(),
            ..CodeBlock::default()
        });
        assert_eq!(block.within(0, 2), None);
        assert_eq!(block.within(0, 9), None);
        assert_eq!(block.across(9, &block, 0), None);
    }
}
