//! Facts of an instruction before it is executed.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess,
    Register,
};

/// ChampSim's numbers of registers by which it tells kinds of branches (its
/// inc/trace_instruction.h). These and the other general-purpose registers are numbered as Intel's
/// Pin numbers them, whose numbers ChampSim's tracer writes.
pub const STACK_POINTER: u8 = 6;
/// The flags.
pub const FLAGS: u8 = 25;
/// The instruction pointer.
pub const INSTRUCTION_POINTER: u8 = 26;

/// rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, then r8 to r15: the order of the instruction set, which
/// iced's numbers have.
const GENERAL: [u8; 16] = [
    10,
    9,
    8,
    7,
    STACK_POINTER,
    5,
    4,
    3,
    11,
    12,
    13,
    14,
    15,
    16,
    17,
    18,
];
const FS: u8 = 23;
const GS: u8 = 24;
/// First numbers of the vector registers, those of x87 and of masks. What ChampSim makes of them is
/// whether two are the same.
const VECTOR: u8 = 64;
const X87: u8 = 96;
const MASK: u8 = 104;

/// Way in which an instruction goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Branch {
    /// With the next one.
    None,
    /// There, whatever happens.
    Always,
    /// There or with the next one.
    Conditional,
}

/// An instruction's registers, partial ones counted as the whole, none twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Registers that it reads, those first by which branches are told.
    pub reads: Vec<u8>,
    /// Registers that it writes, in the same order.
    pub writes: Vec<u8>,
    pub(crate) branch: Branch,
    /// Accesses of one repetition, for a repeated string instruction.
    pub(crate) repeats: Option<usize>,
}

impl Decoded {
    /// The instruction of these bytes; of bytes that are no instruction nothing is known.
    pub(crate) fn of(bytes: &[u8], factory: &mut InstructionInfoFactory) -> Self {
        let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        let mut decoded = Decoded {
            reads: Vec::new(),
            writes: Vec::new(),
            branch: branch(&instruction),
            repeats: None,
        };
        if instruction.is_invalid() {
            return decoded;
        }
        let info = factory.info(&instruction);
        if instruction.has_rep_prefix() || instruction.has_repne_prefix() {
            let operands = info.used_memory().iter().map(|used| match used.access() {
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => 2,
                OpAccess::None | OpAccess::NoMemAccess => 0,
                _ => 1,
            });
            decoded.repeats = instruction
                .is_string_instruction()
                .then(|| operands.sum::<usize>().max(1));
        }
        let is_branch = decoded.branch != Branch::None;
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for used in info.used_registers() {
            let Some(number) = number(used.register()) else {
                continue;
            };
            // A register that is written only perhaps may keep what it was.
            if used.access() != OpAccess::Write && used.access() != OpAccess::None {
                reads.push(number);
            }
            if pagelab_registers::writes(used.access()) {
                writes.push(number);
            }
        }
        let control = instruction.flow_control();
        let relative = instruction.is_ip_rel_memory_operand();
        // A value computed from the address of the instruction itself; a return is not.
        let reads_ip = match control {
            FlowControl::Call | FlowControl::IndirectCall => is_branch,
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => true,
            _ => false,
        };
        if reads_ip || relative {
            reads.push(INSTRUCTION_POINTER);
        }
        if is_branch {
            writes.push(INSTRUCTION_POINTER);
        }
        if instruction.rflags_read() != 0 {
            reads.push(FLAGS);
        }
        if instruction.rflags_modified() != 0 {
            writes.push(FLAGS);
        }
        decoded.reads = ordered(reads, is_branch);
        decoded.writes = ordered(writes, is_branch);
        decoded
    }
}

/// Registers with those that the trace has no room for last: of a branch those that do not say
/// which kind it is, of others the flags.
fn ordered(registers: Vec<u8>, is_branch: bool) -> Vec<u8> {
    let special = |register: &u8| [STACK_POINTER, FLAGS, INSTRUCTION_POINTER].contains(register);
    let rank = |register: &u8| {
        if is_branch {
            !special(register)
        } else {
            [FLAGS, INSTRUCTION_POINTER].contains(register)
        }
    };
    let mut distinct: Vec<u8> = Vec::new();
    for register in registers {
        if !distinct.contains(&register) {
            distinct.push(register);
        }
    }
    distinct.sort_by_key(rank);
    distinct
}

fn branch(instruction: &Instruction) -> Branch {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => Branch::Conditional,
        FlowControl::UnconditionalBranch
        | FlowControl::IndirectBranch
        | FlowControl::Return
        | FlowControl::IndirectCall => Branch::Always,
        // A system call comes back to the next instruction.
        FlowControl::Call
            if !matches!(
                instruction.code(),
                Code::Syscall | Code::Sysenter | Code::Vmcall | Code::Vmmcall
            ) =>
        {
            Branch::Always
        }
        _ => Branch::None,
    }
}

fn number(register: Register) -> Option<u8> {
    let register = register.full_register();
    let place = register.number();
    match register {
        Register::FS => Some(FS),
        Register::GS => Some(GS),
        _ if register.is_gpr() => GENERAL.get(place).copied(),
        _ if register.is_vector_register() => Some(VECTOR + place as u8),
        _ if register.is_st() || register.is_mm() => Some(X87 + place as u8),
        _ if register.is_k() => Some(MASK + place as u8),
        _ => None,
    }
}
