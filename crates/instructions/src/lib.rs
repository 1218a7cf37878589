//! A trace with code, instruction by instruction: what each reads and writes, and where branches
//! go. From it, traces in the format of ChampSim, and the registers that a core needs for it.

mod arithmetic;
mod champsim;
mod decoded;
mod each;
mod execution;
mod latency;
mod locked;
mod registers;
mod unit;

pub use arithmetic::{Arithmetic, Way};
pub use champsim::{ExportError, is_champsim, write_champsim};
pub use decoded::{Decoded, FLAGS, INSTRUCTION_POINTER, STACK_POINTER};
pub use execution::{Executed, Executions};
pub use locked::locked;
pub use registers::integer_registers_taken;
