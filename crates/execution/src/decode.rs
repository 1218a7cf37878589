//! From the bytes of a block to its instructions.

use crate::latency::{latency, unit};
use crate::step::Step;
use crate::taken::taken;
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind,
};
use pagelab_events::CodeBlock;
use pagelab_registers::{
    ARITHMETIC, FLAGS, forgets, is_prefetch, keeps_part, number, reads, stepped, writes,
};

/// An instruction; the default where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) step: Step,
    /// Integer registers that it takes when it is renamed.
    pub(crate) taken: u8,
    /// It loads and stores as one: it has a LOCK prefix, or is an `xchg` with memory, which needs none (Intel,
    /// Software Developer's Manual, volume 3, section 9.1.2).
    pub(crate) locked: bool,
}

/// Instructions of a block, one for each of its lengths.
pub(crate) fn decode(block: &CodeBlock) -> Vec<Decoded> {
    let mut factory = InstructionInfoFactory::new();
    let mut bytes = &block.bytes[..];
    let one = |&length: &u8| {
        let (own, rest) = bytes.split_at_checked(length.into()).unwrap_or_default();
        bytes = rest;
        let instruction = Decoder::new(64, own, DecoderOptions::NONE).decode();
        if own.is_empty() || instruction.is_invalid() {
            return Decoded::default();
        }
        let info = factory.info(&instruction);
        Decoded {
            step: step_of(&instruction, info),
            taken: taken(&instruction, info),
            locked: is_locked(&instruction),
        }
    };
    block.lengths.iter().map(one).collect()
}

fn is_locked(instruction: &Instruction) -> bool {
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg
        && (0..2).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    exchanges || instruction.has_lock_prefix()
}

fn step_of(instruction: &Instruction, info: &InstructionInfo) -> Step {
    let mut step = Step {
        cycles: latency(instruction),
        unit: unit(instruction),
        ..Step::default()
    };
    let bit = |register| number(register).map_or(0, |number| 1 << number);
    if is_prefetch(instruction) {
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        return Step {
            addresses: bit(base) | bit(index),
            scaled: if instruction.memory_index_scale() > 1 {
                bit(index)
            } else {
                0
            },
            prefetches: true,
            ..Step::default()
        };
    }
    for used in info.used_memory() {
        if used.scale() > 1 {
            step.scaled |= bit(used.index());
        }
        step.addresses |= bit(used.base()) | bit(used.index());
    }
    step.loads = info.used_memory().iter().any(|used| reads(used.access()));
    step.stores = info.used_memory().iter().any(|used| writes(used.access()));
    if step.loads {
        // Registers that make an address are no part of what is found there.
        for operand in 0..instruction.op_count() {
            if instruction.op_kind(operand) == OpKind::Register && reads(info.op_access(operand)) {
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
        let taken: Vec<u8> = decode(&block).iter().map(|one| one.taken).collect();
        assert_eq!(taken, expected);
    }

    #[test]
    fn nothing_is_known_of_instructions_without_bytes() {
        let block = CodeBlock {
            lengths: [3, 0, 2].into(),
            ..CodeBlock::default()
        };
        assert_eq!(decode(&block), [Decoded::default(); 3]);
    }

    #[test]
    fn locked_instructions_are_told_by_their_bytes() {
        let of = |bytes: &[u8]| {
            let all = decode(&CodeBlock {
                lengths: [1, bytes.len() as u8].into(),
                bytes: [&[0x90], bytes].concat().into(),
                ..CodeBlock::default()
            });
            assert!(!all[0].locked);
            all[1].locked
        };
        assert!(of(&[0xf0, 0xff, 0x00])); // lock inc dword [rax]
        assert!(of(&[0xf0, 0x0f, 0xb1, 0x11])); // lock cmpxchg [rcx], edx
        assert!(of(&[0x87, 0x01])); // xchg [rcx], eax
        assert!(!of(&[0x87, 0xc1])); // xchg ecx, eax
        assert!(!of(&[0x0f, 0xb1, 0x11])); // cmpxchg [rcx], edx
        assert!(!of(&[0xe8, 0, 0, 0, 0])); // call
        assert!(!of(&[0x50])); // push rax
        assert!(decode(&CodeBlock::default()).is_empty());
    }
}
