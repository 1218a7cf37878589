use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory};
use pagelab_events::CodeBlock;

/// Something of each instruction of a block; the default where the instruction is not known.
pub(crate) fn of_each<T: Default>(
    block: &CodeBlock,
    mut of: impl FnMut(&Instruction, &mut InstructionInfoFactory) -> T,
) -> Vec<T> {
    let mut factory = InstructionInfoFactory::new();
    let mut bytes = &block.bytes[..];
    let one = |&length: &u8| {
        let (own, rest) = bytes.split_at_checked(length.into()).unwrap_or_default();
        bytes = rest;
        let instruction = Decoder::new(64, own, DecoderOptions::NONE).decode();
        if own.is_empty() || instruction.is_invalid() {
            T::default()
        } else {
            of(&instruction, &mut factory)
        }
    };
    block.lengths.iter().map(one).collect()
}
