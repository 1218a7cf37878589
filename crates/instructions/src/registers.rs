//! Integer registers that instructions take from those that a core renames to.

use crate::each::of_each;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};
use pagelab_dataflow::{reads, writes};
use pagelab_events::CodeBlock;

/// For each instruction of a block, how many physical integer registers it takes when it is renamed:
/// one for each general-purpose register that it writes, and one for what it loads if that goes through
/// the integer part and into no register, as with `cmp [m], r`: a Zen 5 looks as far ahead over these as
/// over additions, with or without a load. Zeros where the instructions are not known.
///
/// None is taken for what renaming does by itself: moves between registers of 32 and 64 bits, zeros by
/// `xor` and `sub`, and the stack pointer of `push`, `pop`, `call` and `ret` (AMD's software optimization
/// guides for families 17h to 1Ah; Intel's optimization reference manual, on zero idioms, move elimination
/// and the stack pointer tracker).
pub fn integer_registers_taken(block: &CodeBlock) -> Vec<u8> {
    of_each(block, taken)
}

fn taken(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> u8 {
    if renamed_away(instruction) {
        return 0;
    }
    let mut written: Vec<Register> = Vec::new();
    let mut elsewhere = false;
    let info = factory.info(instruction);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_taken_by_what_writes_them() {
        // Assembled by hand, from Intel's manual; how many each takes.
        let code: [(&[u8], u8); 21] = [
            (&[0x01, 0xc8], 1),             // add eax, ecx
            (&[0x39, 0xc8], 0),             // cmp eax, ecx: flags only
            (&[0x48, 0x89, 0xc8], 0),       // mov rax, rcx: the same register by another name
            (&[0x66, 0x89, 0xc8], 1),       // mov ax, cx: the rest of rax stays
            (&[0x31, 0xc0], 0),             // xor eax, eax
            (&[0x31, 0xc8], 1),             // xor eax, ecx
            (&[0xb8, 1, 0, 0, 0], 1),       // mov eax, 1
            (&[0x48, 0x8b, 0x00], 1),       // mov rax, [rax]
            (&[0x48, 0x89, 0x08], 0),       // mov [rax], rcx
            (&[0x48, 0x39, 0x08], 1),       // cmp [rax], rcx: what it loads
            (&[0x48, 0x01, 0x08], 1),       // add [rax], rcx
            (&[0x48, 0x03, 0x08], 1),       // add rcx, [rax]
            (&[0x66, 0x0f, 0xfe, 0x00], 0), // paddd xmm0, [rax]
            (&[0xc3], 1),                   // ret
            (&[0x50], 0),                   // push rax
            (&[0x58], 1),                   // pop rax
            (&[0x48, 0x83, 0xec, 0x08], 1), // sub rsp, 8
            (&[0x48, 0xf7, 0xe1], 2),       // mul rcx
            (&[0x66, 0x0f, 0xfe, 0xc1], 0), // paddd xmm0, xmm1
            (&[0x48, 0x0f, 0x42, 0xc1], 1), // cmovb rax, rcx
            (&[0xe8, 0, 0, 0, 0], 0),       // call
        ];
        let block = CodeBlock {
            lengths: code.iter().map(|(bytes, _)| bytes.len() as u8).collect(),
            bytes: code
                .iter()
                .flat_map(|(bytes, _)| bytes.iter().copied())
                .collect(),
            ..CodeBlock::default()
        };
        let expected: Vec<u8> = code.iter().map(|one| one.1).collect();
        assert_eq!(integer_registers_taken(&block), expected);
    }

    #[test]
    fn nothing_is_known_of_instructions_without_bytes() {
        let block = CodeBlock {
            lengths: [3, 0, 2].into(),
            ..CodeBlock::default()
        };
        assert_eq!(integer_registers_taken(&block), [0, 0, 0]);
    }
}
