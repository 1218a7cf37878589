//! Which load made the value in each register, and what is stored.

use iced_x86::{
    Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register, RflagsBits, UsedMemory,
};

use super::{reads, writes};

/// Registers followed: 16 general-purpose ones, then 16 vector ones.
pub const REGISTERS: usize = 32;

/// The youngest load that a value depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A load of this block: a script entry.
    Entry(u16),
    /// The youngest of the loads that produced these registers at the block's beginning: one
    /// bit each. No bit: no load.
    Registers(u32),
}

impl Source {
    /// No load.
    pub const NONE: Source = Source::Registers(0);

    /// The younger of the two: loads of this block are younger than what was there before.
    pub(super) fn or(self, other: Source) -> Source {
        match (self, other) {
            (Source::Entry(a), Source::Entry(b)) => Source::Entry(a.max(b)),
            (Source::Entry(_), Source::Registers(_)) => self,
            (Source::Registers(_), Source::Entry(_)) => other,
            (Source::Registers(a), Source::Registers(b)) => Source::Registers(a | b),
        }
    }
}

/// The source of each register's value.
pub(super) struct Producers {
    registers: [Source; REGISTERS],
    /// That of the flags. They are not followed from block to block: who moves by them has
    /// compared just before.
    flags: Source,
}

impl Producers {
    pub(super) fn new() -> Producers {
        Producers {
            registers: std::array::from_fn(|register| Source::Registers(1 << register)),
            flags: Source::NONE,
        }
    }

    /// Nothing is known of any register from now on.
    pub(super) fn forget(&mut self) {
        self.registers = [Source::NONE; REGISTERS];
        self.flags = Source::NONE;
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
            (Xchg, _) | (_, None) => (0..instruction.op_count())
                .filter(|&operand| {
                    instruction.op_kind(operand) == OpKind::Register
                        && reads(info.op_access(operand))
                })
                .map(|operand| self.of(instruction.op_register(operand)))
                .fold(self.flags_for(instruction), Source::or),
            (_, Some(entry)) => Source::Entry(entry),
        }
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
            Some(entry) => Source::Entry(entry),
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
        self.flags = match instruction.rflags_modified() {
            RflagsBits::NONE => self.flags,
            all if all & ARITHMETIC == ARITHMETIC => result,
            _ => result.or(self.flags),
        };
        result
    }

    /// The source of the flags, if the instruction makes something of them.
    fn flags_for(&self, instruction: &Instruction) -> Source {
        if instruction.rflags_read() & ARITHMETIC == 0 {
            Source::NONE
        } else {
            self.flags
        }
    }

    /// The registers whose source is another than at the block's beginning.
    pub(super) fn updates(&self) -> Vec<(u8, Source)> {
        (0..REGISTERS as u8)
            .zip(self.registers)
            .filter(|&(register, source)| source != Source::Registers(1 << register))
            .collect()
    }
}

/// The flags that arithmetic sets and conditional instructions read.
const ARITHMETIC: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

const RCX: usize = 1;
const RSP: usize = 4;
const RBP: usize = 5;
const RSI: usize = 6;
const RDI: usize = 7;

/// Whether the instruction only moves this register by a constant, as push moves the stack pointer.
fn stepped(instruction: &Instruction, register: usize) -> bool {
    if instruction.is_string_instruction() {
        return matches!(register, RCX | RSI | RDI);
    }
    let pops_rsp = instruction.op0_kind() == OpKind::Register
        && number(instruction.op0_register()) == Some(RSP);
    register == RSP && instruction.is_stack_instruction() && !pops_rsp
}

/// Whether the result does not depend on the registers that the instruction reads.
fn forgets(instruction: &Instruction) -> bool {
    use Mnemonic::{Pxor, Sub, Syscall, Vpxor, Vxorps, Xor, Xorpd, Xorps};
    match instruction.mnemonic() {
        Xor | Sub | Pxor | Xorps | Xorpd => {
            instruction.op1_kind() == OpKind::Register
                && instruction.op0_register() == instruction.op1_register()
        }
        Vpxor | Vxorps => {
            instruction.op2_kind() == OpKind::Register
                && instruction.op1_register() == instruction.op2_register()
        }
        Syscall => true,
        _ => false,
    }
}

/// Whether writing this register leaves a part of the larger one as it was.
fn keeps_part(register: Register) -> bool {
    register.is_gpr8() || register.is_gpr16()
}

/// The register's place among those followed.
fn number(register: Register) -> Option<usize> {
    if register.is_gpr() {
        Some(register.full_register().number())
    } else if register.is_vector_register() && register.number() < 16 {
        Some(16 + register.number())
    } else {
        None
    }
}
