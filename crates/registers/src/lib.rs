//! Registers of x86-64 by number, and what an instruction does with them: who follows values through a program asks
//! this, when it is recorded, simulated and exported.

use iced_x86::{Instruction, Mnemonic, OpAccess, OpKind, Register, RflagsBits};

/// Registers followed: 16 general-purpose ones, 15 vector ones, of which the last stands for two, and
/// the flags.
pub const REGISTERS: usize = 32;
/// The flags' place among them.
pub const FLAGS: usize = 31;
/// The stack pointer's.
pub const RSP: usize = 4;
/// The frame pointer's.
pub const RBP: usize = 5;
const RCX: usize = 1;
const RSI: usize = 6;
const RDI: usize = 7;
const LAST_VECTOR: usize = 30;
/// The set of the vector registers.
pub const VECTORS: u32 = (1 << (LAST_VECTOR + 1)) - (1 << 16);

/// The flags that arithmetic sets and conditional instructions read.
pub const ARITHMETIC: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

/// True if an instruction asks for a line of data to be fetched. Its operand is no access to iced, and the registers
/// of its address are read as others are.
pub fn is_prefetch(instruction: &Instruction) -> bool {
    use Mnemonic::{
        Prefetch, Prefetchnta, Prefetcht0, Prefetcht1, Prefetcht2, Prefetchw, Prefetchwt1,
    };
    matches!(
        instruction.mnemonic(),
        Prefetch | Prefetchnta | Prefetcht0 | Prefetcht1 | Prefetcht2 | Prefetchw | Prefetchwt1
    )
}

/// The registers of a set.
pub fn members(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (next < REGISTERS).then_some(next)
    })
}

/// The register's place among those followed.
pub fn number(register: Register) -> Option<usize> {
    if register.is_gpr() {
        Some(register.full_register().number())
    } else if register.is_vector_register() && register.number() < 16 {
        Some((16 + register.number()).min(LAST_VECTOR))
    } else {
        None
    }
}

/// True if writing this register leaves a part of what stands for it as it was.
pub fn keeps_part(register: Register) -> bool {
    register.is_gpr8() || register.is_gpr16() || number(register) == Some(LAST_VECTOR)
}

/// True if the instruction only moves this register by a constant, as push moves the stack pointer.
pub fn stepped(instruction: &Instruction, register: usize) -> bool {
    if instruction.is_string_instruction() {
        return matches!(register, RCX | RSI | RDI);
    }
    let pops_rsp = instruction.op0_kind() == OpKind::Register
        && number(instruction.op0_register()) == Some(RSP);
    register == RSP && instruction.is_stack_instruction() && !pops_rsp
}

/// True if the result does not depend on the registers that the instruction reads.
pub fn forgets(instruction: &Instruction) -> bool {
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

/// True if that reads, or may.
pub fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// True if that writes, or may.
pub fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}
