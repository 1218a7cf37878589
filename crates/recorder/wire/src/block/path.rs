//! Ways out of a block, instruction by instruction.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory};

use pagelab_registers::{number, writes};

/// The instructions of a block, as far as there is one way through them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The address of each, and the registers that it writes: one bit each, of
    /// [`REGISTERS`](super::REGISTERS).
    pub steps: Vec<(u64, u32)>,
    /// Next instructions after them, as long as they are in the same function: of a branch forwards where it is not
    /// taken, and else where it is; of one backwards where it is taken.
    pub then: [Option<u64>; 2],
}

impl Path {
    /// That of the first `most` instructions of the block at `pc`, with these lengths and bytes.
    pub fn of(pc: u64, lengths: &[u8], bytes: &[u8], most: usize) -> Path {
        let mut path = Path {
            steps: Vec::new(),
            then: [Some(pc), None],
        };
        let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
        let mut info = InstructionInfoFactory::new();
        let mut instruction = Instruction::default();
        for &length in lengths.iter().take(most) {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() || instruction.len() != usize::from(length) {
                path.then = [None; 2];
                return path;
            }
            let written = (info.info(&instruction).used_registers().iter())
                .filter(|used| writes(used.access()))
                .filter_map(|used| number(used.register()))
                .fold(0, |mask, register| mask | 1 << register);
            path.steps.push((instruction.ip(), written));
            path.then = match instruction.flow_control() {
                FlowControl::Next => [Some(instruction.next_ip()), None],
                FlowControl::UnconditionalBranch => [Some(instruction.near_branch_target()), None],
                FlowControl::ConditionalBranch => {
                    let target = instruction.near_branch_target();
                    let forwards = target > instruction.ip();
                    match forwards {
                        true => [Some(instruction.next_ip()), Some(target)],
                        false => [Some(target), None],
                    }
                }
                _ => [None; 2],
            };
        }
        path
    }
}
