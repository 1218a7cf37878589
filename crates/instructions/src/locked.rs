//! Instructions that load and store as one.

use crate::each::of_each;
use iced_x86::{Instruction, Mnemonic, OpKind};
use pagelab_events::CodeBlock;

/// For each of a block's instructions: it has a LOCK prefix, or is an `xchg` with memory, which needs none (Intel,
/// Software Developer's Manual, volume 3, section 9.1.2). False where they are not known.
pub fn locked(block: &CodeBlock) -> Vec<bool> {
    of_each(block, |instruction, _| is_locked(instruction))
}

fn is_locked(instruction: &Instruction) -> bool {
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg
        && (0..2).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    exchanges || instruction.has_lock_prefix()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_told_by_their_bytes() {
        let of = |bytes: &[u8]| {
            let all = locked(&CodeBlock {
                lengths: [1, bytes.len() as u8].into(),
                bytes: [&[0x90], bytes].concat().into(),
                ..CodeBlock::default()
            });
            assert!(!all[0]);
            all[1]
        };
        assert!(of(&[0xf0, 0xff, 0x00])); // lock inc dword [rax]
        assert!(of(&[0xf0, 0x0f, 0xb1, 0x11])); // lock cmpxchg [rcx], edx
        assert!(of(&[0x87, 0x01])); // xchg [rcx], eax
        assert!(!of(&[0x87, 0xc1])); // xchg ecx, eax
        assert!(!of(&[0x0f, 0xb1, 0x11])); // cmpxchg [rcx], edx
        assert!(!of(&[0xe8, 0, 0, 0, 0])); // call
        assert!(!of(&[0x50])); // push rax
        assert!(locked(&CodeBlock::default()).is_empty());
    }
}
