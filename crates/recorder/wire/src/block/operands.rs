use iced_x86::{Instruction, MemorySize, OpAccess, UsedMemory};

pub(super) fn operands(used: &[UsedMemory], which: fn(OpAccess) -> bool) -> Vec<UsedMemory> {
    used.iter()
        .filter(|operand| which(operand.access()))
        .copied()
        .collect()
}

/// Bytes of one access of the instruction; 0 for gathers and scatters, which access each element.
pub(super) fn size(instruction: &Instruction, operand: &UsedMemory) -> u16 {
    if instruction.is_vsib() || operand.memory_size() == MemorySize::Unknown {
        return 0;
    }
    operand.memory_size().size() as u16
}

/// A register's number among the general-purpose ones.
pub(super) fn general(register: iced_x86::Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}
