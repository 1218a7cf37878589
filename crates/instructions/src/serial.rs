//! Instructions of which a core takes one after the other.

use crate::each::of_each;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};
use pagelab_events::CodeBlock;

/// Kinds of instructions that a core does not overlap with others of their kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serial {
    /// A call: its store is of where to come back to, a load before that of where to go.
    Call,
    /// A return, which loads.
    Return,
    /// It loads and stores as one: with a LOCK prefix, or `xchg`, which needs none (Intel, Software Developer's
    /// Manual, volume 3, section 9.1.2).
    Locked,
}

impl Serial {
    /// True if it is what the instruction does with the access.
    pub fn is_with(self, store: bool) -> bool {
        match self {
            Serial::Call | Serial::Locked => store,
            Serial::Return => true,
        }
    }
}

/// Kind of each of a block's instructions; nothing if these are not known.
pub fn serial(block: &CodeBlock) -> Vec<Option<Serial>> {
    of_each(block, |instruction, _| of(instruction))
}

fn of(instruction: &Instruction) -> Option<Serial> {
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg
        && (0..2).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    match instruction.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall => Some(Serial::Call),
        FlowControl::Return => Some(Serial::Return),
        _ if exchanges || instruction.has_lock_prefix() => Some(Serial::Locked),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_told_by_their_bytes() {
        let of = |bytes: &[u8]| {
            let kinds = serial(&CodeBlock {
                lengths: [1, bytes.len() as u8].into(),
                bytes: [&[0x90], bytes].concat().into(),
                ..CodeBlock::default()
            });
            assert_eq!(kinds[0], None);
            kinds[1]
        };
        assert_eq!(of(&[0xe8, 0, 0, 0, 0]), Some(Serial::Call)); // call
        assert_eq!(of(&[0xff, 0x10]), Some(Serial::Call)); // call [rax]
        assert_eq!(of(&[0xc3]), Some(Serial::Return)); // ret
        assert_eq!(of(&[0xf3, 0xc3]), Some(Serial::Return)); // rep ret
        assert_eq!(of(&[0xf0, 0xff, 0x00]), Some(Serial::Locked)); // lock inc dword [rax]
        assert_eq!(of(&[0xf0, 0x0f, 0xb1, 0x11]), Some(Serial::Locked)); // lock cmpxchg [rcx], edx
        assert_eq!(of(&[0x87, 0x01]), Some(Serial::Locked)); // xchg [rcx], eax
        assert_eq!(of(&[0x87, 0xc1]), None); // xchg ecx, eax
        assert_eq!(of(&[0x0f, 0xb1, 0x11]), None); // cmpxchg [rcx], edx
        assert_eq!(of(&[0xff, 0x20]), None); // jmp [rax]
        assert_eq!(of(&[0x75, 0x10]), None); // jne
        assert_eq!(of(&[0x50]), None); // push rax
        assert!(serial(&CodeBlock::default()).is_empty());
    }
}
