//! Loads that made the value in each register, and what is stored.

use iced_x86::{
    Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register, RflagsBits, UsedMemory,
};
use pagelab_registers::{
    ARITHMETIC, FLAGS, RBP, REGISTERS, RSP, forgets, keeps_part, number, reads, stepped, writes,
};

/// The youngest two loads that a value depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Loads of this block, script entries: the younger first.
    pub entries: [Option<u16>; 2],
    /// Registers of which the youngest loads at the block's beginning count where those are less than two: one bit
    /// each.
    pub registers: u32,
}

impl Source {
    /// No load.
    pub const NONE: Source = Source {
        entries: [None; 2],
        registers: 0,
    };

    /// A load of this block.
    pub(super) fn entry(entry: u16) -> Source {
        Source {
            entries: [Some(entry), None],
            ..Source::NONE
        }
    }

    /// Value of a register at the block's beginning.
    pub fn register(register: usize) -> Source {
        Source {
            registers: 1 << register,
            ..Source::NONE
        }
    }

    /// The youngest two of both: loads of this block are younger than what was there before.
    #[must_use]
    pub fn or(self, other: Source) -> Source {
        let [a, b] = self.entries;
        let [c, d] = other.entries;
        let first = a.max(c);
        let rest = [a, b, c, d].into_iter().filter(|&entry| entry != first);
        let second = rest.max().flatten();
        Source {
            entries: [first, second],
            registers: match second {
                Some(_) => 0,
                None => self.registers | other.registers,
            },
        }
    }
}

/// The source of each register's value.
pub(super) struct Producers {
    registers: [Source; REGISTERS],
}

impl Producers {
    pub(super) fn new() -> Producers {
        Producers {
            registers: std::array::from_fn(Source::register),
        }
    }

    /// Nothing is known of any register from now on.
    pub(super) fn forget(&mut self) {
        self.registers = [Source::NONE; REGISTERS];
    }

    /// The load that produced the address of an operand.
    pub(super) fn address(&self, operand: &UsedMemory) -> Source {
        self.of(operand.base()).or(self.of(operand.index()))
    }

    /// The load that produced what the instruction stores; `load` is the access by which it loads.
    pub(super) fn stored(
        &self,
        instruction: &Instruction,
        info: &InstructionInfo,
        load: Option<u16>,
    ) -> Source {
        use Mnemonic::{Call, Enter, Xchg};
        match (instruction.mnemonic(), load) {
            // The return address.
            (Call, _) => Source::NONE,
            (Enter, _) => self.registers[RBP],
            (Xchg, _) | (_, None) => self.operands(instruction, info),
            (_, Some(entry)) => Source::entry(entry).or(self.operands(instruction, info)),
        }
    }

    /// The loads behind the registers that an instruction names and reads other than for an address, and
    /// behind the flags.
    fn operands(&self, instruction: &Instruction, info: &InstructionInfo) -> Source {
        (0..instruction.op_count())
            .filter(|&operand| {
                instruction.op_kind(operand) == OpKind::Register && reads(info.op_access(operand))
            })
            .map(|operand| self.of(instruction.op_register(operand)))
            .fold(self.flags_for(instruction), Source::or)
    }

    fn of(&self, register: Register) -> Source {
        number(register).map_or(Source::NONE, |number| self.registers[number])
    }

    /// Follows an instruction; `load` is the access by which it loads, if it does. Returns the source
    /// of what it computes.
    pub(super) fn step(
        &mut self,
        instruction: &Instruction,
        info: &InstructionInfo,
        load: Option<u16>,
    ) -> Source {
        let result = match load {
            Some(entry) => Source::entry(entry).or(self.operands(instruction, info)),
            None if forgets(instruction) => Source::NONE,
            None => info
                .used_registers()
                .iter()
                .filter(|used| reads(used.access()))
                .fold(self.flags_for(instruction), |youngest, used| {
                    youngest.or(self.of(used.register()))
                }),
        };
        let before = self.registers;
        for used in info.used_registers() {
            let Some(number) = number(used.register()).filter(|_| writes(used.access())) else {
                continue;
            };
            if stepped(instruction, number) {
                continue;
            }
            let conditional =
                matches!(used.access(), OpAccess::CondWrite | OpAccess::ReadCondWrite);
            self.registers[number] = if conditional || keeps_part(used.register()) {
                result.or(before[number])
            } else {
                result
            };
        }
        if instruction.mnemonic() == Mnemonic::Leave {
            self.registers[RSP] = before[RBP];
        }
        let flags = &mut self.registers[FLAGS];
        *flags = match instruction.rflags_modified() {
            RflagsBits::NONE => *flags,
            all if all & ARITHMETIC == ARITHMETIC => result,
            _ => result.or(*flags),
        };
        result
    }

    /// The source of the flags, if the instruction makes something of them.
    fn flags_for(&self, instruction: &Instruction) -> Source {
        if instruction.rflags_read() & ARITHMETIC == 0 {
            Source::NONE
        } else {
            self.registers[FLAGS]
        }
    }

    /// The registers whose source is another than at the block's beginning.
    ///
    /// Who moves by the flags has compared just before: they are left to a block that follows
    /// without a jump, as where a page ends between the two. Nearly all blocks end with a jump,
    /// and would have the flags besides; one that reads them after a jump finds older ones, if any.
    pub(super) fn updates(&self, jumps: bool) -> Vec<(u8, Source)> {
        (0..REGISTERS as u8)
            .zip(self.registers)
            .filter(|&(register, source)| source != Source::register(register.into()))
            .filter(|&(register, _)| usize::from(register) != FLAGS || !jumps)
            .collect()
    }
}
