//! Registers as sums of an unknown and a constant, and which accesses lie a constant apart.

use iced_x86::{Instruction, InstructionInfo, Mnemonic, OpKind, Register, UsedMemory};

use super::entry::AddressFrom;
use super::operands::general;
use pagelab_registers::writes;

/// A register's value: something unknown, plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    unknown: Unknown,
    constant: i64,
}

/// Stands for a value; two equal ones are the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unknown(u16);

impl Unknown {
    /// Nothing: the value is just the constant.
    const ZERO: Unknown = Unknown(0);
}

/// Terms of an address, apart from a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terms {
    base: Unknown,
    index: Unknown,
    scale: u32,
    segment: Register,
}

/// The general-purpose registers' values, and the accesses so far.
pub(super) struct Addresses {
    registers: [Value; 16],
    unknowns: u16,
    accesses: Vec<(Terms, i64, u16)>,
}

const RSP: usize = 4;
const RBP: usize = 5;

impl Addresses {
    pub(super) fn new() -> Addresses {
        let mut addresses = Addresses {
            registers: [Value {
                unknown: Unknown::ZERO,
                constant: 0,
            }; 16],
            unknowns: 0,
            accesses: Vec::new(),
        };
        addresses.forget();
        addresses
    }

    /// Nothing is known of any register from now on.
    pub(super) fn forget(&mut self) {
        for register in 0..self.registers.len() {
            self.registers[register] = self.fresh();
        }
    }

    fn fresh(&mut self) -> Value {
        self.unknowns += 1;
        Value {
            unknown: Unknown(self.unknowns),
            constant: 0,
        }
    }

    /// Address of an operand, if that follows from earlier accesses.
    pub(super) fn locate(&self, operand: &UsedMemory, next: u16) -> Option<AddressFrom> {
        let (terms, constant) = self.terms(operand)?;
        let nothing = Terms {
            base: Unknown::ZERO,
            index: Unknown::ZERO,
            scale: 1,
            segment: Register::None,
        };
        if terms == nothing {
            return Some(AddressFrom::Fixed(constant as u64));
        }
        self.accesses
            .iter()
            .find(|(known, _, entry)| *known == terms && *entry < next)
            .map(|&(_, at, entry)| AddressFrom::Relative {
                entry,
                offset: constant.wrapping_sub(at),
            })
    }

    /// Notes a reported access, for others to be relative to.
    pub(super) fn remember(&mut self, operand: &UsedMemory, entry: u16) {
        if let Some((terms, constant)) = self.terms(operand) {
            self.accesses.push((terms, constant, entry));
        }
    }

    fn terms(&self, operand: &UsedMemory) -> Option<(Terms, i64)> {
        let mut constant = operand.displacement() as i64;
        // iced gives an operand relative to rip with its absolute address.
        let mut value = |register: Register, scale: i64| -> Option<Unknown> {
            if register == Register::None || register == Register::RIP {
                return Some(Unknown::ZERO);
            }
            if !register.is_gpr64() {
                return None;
            }
            let value = self.registers[register.number()];
            constant = constant.wrapping_add(value.constant.wrapping_mul(scale));
            Some(value.unknown)
        };
        let mut terms = Terms {
            base: value(operand.base(), 1)?,
            index: value(operand.index(), i64::from(operand.scale()))?,
            scale: operand.scale(),
            segment: operand.segment(),
        };
        if terms.index == Unknown::ZERO {
            terms.scale = 1;
        }
        if !matches!(terms.segment, Register::FS | Register::GS) {
            terms.segment = Register::None;
        }
        Some((terms, constant))
    }

    /// Follows an instruction.
    pub(super) fn step(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        if let Some((register, value)) = self.moved(instruction) {
            self.registers[register] = value;
            return;
        }
        let stack = self.stack_pointer(instruction);
        for used in info.used_registers() {
            if writes(used.access())
                && let Some(register) = general(used.register())
            {
                self.registers[register] = self.fresh();
            }
        }
        if let Some(value) = stack {
            self.registers[RSP] = value;
        }
    }

    /// The register that the instruction sets, and its new value, where that is known.
    fn moved(&self, instruction: &Instruction) -> Option<(usize, Value)> {
        use Mnemonic::{Add, Dec, Inc, Lea, Mov, Sub, Xor};
        if instruction.op0_kind() != OpKind::Register {
            return None;
        }
        let target = instruction.op0_register();
        let number = general(target)?;
        let constant = |constant: i64| Value {
            unknown: Unknown::ZERO,
            constant,
        };
        if instruction.mnemonic() == Xor
            && instruction.op1_kind() == OpKind::Register
            && instruction.op1_register() == target
            && (target.is_gpr32() || target.is_gpr64())
        {
            return Some((number, constant(0)));
        }
        if instruction.mnemonic() == Mov && target.is_gpr32() {
            return (instruction.op1_kind() == OpKind::Immediate32)
                .then(|| (number, constant(i64::from(instruction.immediate32()))));
        }
        if !target.is_gpr64() {
            return None;
        }
        let old = self.registers[number];
        let plus = |amount: i64| Value {
            constant: old.constant.wrapping_add(amount),
            ..old
        };
        let value = match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mov, OpKind::Register) => self.registers[general(instruction.op1_register())?],
            (Mov, OpKind::Immediate64 | OpKind::Immediate32to64) => {
                constant(instruction.immediate(1) as i64)
            }
            (Add, OpKind::Immediate8to64 | OpKind::Immediate32to64) => {
                plus(instruction.immediate(1) as i64)
            }
            (Sub, OpKind::Immediate8to64 | OpKind::Immediate32to64) => {
                plus((instruction.immediate(1) as i64).wrapping_neg())
            }
            (Inc, _) => plus(1),
            (Dec, _) => plus(-1),
            (Lea, OpKind::Memory) => self.effective(instruction)?,
            _ => return None,
        };
        Some((number, value))
    }

    /// The result of lea, for a base and a displacement.
    fn effective(&self, instruction: &Instruction) -> Option<Value> {
        if instruction.memory_index() != Register::None {
            return None;
        }
        let displacement = instruction.memory_displacement64() as i64;
        let base = match instruction.memory_base() {
            Register::None | Register::RIP => Value {
                unknown: Unknown::ZERO,
                constant: 0,
            },
            base if base.is_gpr64() => self.registers[base.number()],
            _ => return None,
        };
        Some(Value {
            constant: base.constant.wrapping_add(displacement),
            ..base
        })
    }

    /// The stack pointer after an instruction that moves it by a known amount.
    fn stack_pointer(&self, instruction: &Instruction) -> Option<Value> {
        use Mnemonic::{Call, Leave, Pop, Push, Ret};
        let (from, by) = match instruction.mnemonic() {
            // pop rsp loads the stack pointer.
            Pop if instruction.op0_kind() == OpKind::Register
                && general(instruction.op0_register()) == Some(RSP) =>
            {
                return None;
            }
            Call | Pop | Push | Ret => (RSP, i64::from(instruction.stack_pointer_increment())),
            Leave => (RBP, 8),
            _ => return None,
        };
        let value = self.registers[from];
        Some(Value {
            constant: value.constant.wrapping_add(by),
            ..value
        })
    }
}
