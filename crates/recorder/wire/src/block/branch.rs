//! The branch at a block's end.

use iced_x86::{FlowControl, Instruction};

use super::dependence::Source;

/// A branch that a processor may mispredict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Address of the instruction after it, where the program goes on when it is not taken.
    pub next: u64,
    /// Target when it is taken; `None` when that is in a register or in memory.
    pub target: Option<u64>,
    /// The loads that decide it.
    pub decided_by: Source,
}

impl Branch {
    /// That of an instruction, if it is one: a conditional jump, or a jump or call to an address that
    /// is computed. Returns are not: each goes where the last call came from.
    pub(super) fn of(instruction: &Instruction, decided_by: Source) -> Option<Branch> {
        let target = match instruction.flow_control() {
            FlowControl::ConditionalBranch => Some(instruction.near_branch_target()),
            FlowControl::IndirectBranch | FlowControl::IndirectCall => None,
            _ => return None,
        };
        Some(Branch {
            next: instruction.next_ip(),
            target,
            decided_by,
        })
    }
}
