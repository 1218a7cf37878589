//! Calls and returns.

use crate::each::of_each;
use iced_x86::FlowControl;
use pagelab_events::CodeBlock;

/// What goes to a function and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A call: its store is of where to come back to, a load before that of where to go.
    There,
    /// A return, which loads.
    Back,
}

/// The call or return that a block ends with; none if its instructions are not known.
pub fn last_call(block: &CodeBlock) -> Option<Call> {
    let calls = of_each(block, |instruction, _| match instruction.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall => Some(Call::There),
        FlowControl::Return => Some(Call::Back),
        _ => None,
    });
    calls.last().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_returns_end_blocks() {
        let last = |bytes: &[u8]| {
            last_call(&CodeBlock {
                lengths: [1, bytes.len() as u8].into(),
                bytes: [&[0x90], bytes].concat().into(),
                ..CodeBlock::default()
            })
        };
        assert_eq!(last(&[0xe8, 0, 0, 0, 0]), Some(Call::There)); // call
        assert_eq!(last(&[0xff, 0x10]), Some(Call::There)); // call [rax]
        assert_eq!(last(&[0xc3]), Some(Call::Back)); // ret
        assert_eq!(last(&[0xf3, 0xc3]), Some(Call::Back)); // rep ret
        assert_eq!(last(&[0xff, 0x20]), None); // jmp [rax]
        assert_eq!(last(&[0x75, 0x10]), None); // jne
        assert_eq!(last(&[0x50]), None); // push rax
        assert_eq!(last_call(&CodeBlock::default()), None);
    }
}
