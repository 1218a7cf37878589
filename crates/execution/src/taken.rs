//! Integer registers that instructions take from those that a core renames to.

use iced_x86::{Instruction, InstructionInfo, Mnemonic, OpKind, Register};
use pagelab_registers::{reads, writes};

/// Physical integer registers that an instruction takes when it is renamed: one for each general-purpose register
/// that it writes, and one for what it loads if that goes through the integer part and into no register, as with
/// `cmp [m], r`: a Zen 5 looks as far ahead over these as over additions, with or without a load.
///
/// None is taken for what renaming does by itself: moves between registers of 32 and 64 bits, zeros by
/// `xor` and `sub`, and the stack pointer of `push`, `pop`, `call` and `ret` (AMD's software optimization
/// guides for families 17h to 1Ah; Intel's optimization reference manual, on zero idioms, move elimination
/// and the stack pointer tracker).
pub(crate) fn taken(instruction: &Instruction, info: &InstructionInfo) -> u8 {
    if renamed_away(instruction) {
        return 0;
    }
    let mut written: Vec<Register> = Vec::new();
    let mut elsewhere = false;
    for used in info.used_registers() {
        let register = used.register().full_register();
        elsewhere |= register.is_vector_register() || register.is_st() || register.is_mm();
        let tracked = register == Register::RSP && instruction.is_stack_instruction();
        if writes(used.access()) && register.is_gpr() && !tracked && !written.contains(&register) {
            written.push(register);
        }
    }
    let loads = info.used_memory().iter().any(|used| reads(used.access()));
    written.len().max(usize::from(loads && !elsewhere)) as u8
}

/// True if it gets its result by renaming alone.
fn renamed_away(instruction: &Instruction) -> bool {
    let registers = instruction.op_count() == 2
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register;
    let [to, from] = [instruction.op0_register(), instruction.op1_register()];
    match instruction.mnemonic() {
        Mnemonic::Mov => registers && (to.is_gpr32() || to.is_gpr64()) && from.is_gpr(),
        Mnemonic::Xor | Mnemonic::Sub => {
            registers && to == from && (to.is_gpr32() || to.is_gpr64())
        }
        _ => false,
    }
}
