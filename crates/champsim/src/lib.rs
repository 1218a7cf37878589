//! Traces with code in the format of ChampSim, made instruction by instruction: what each reads and writes, and where
//! branches go.

mod champsim;
mod decoded;
mod execution;

pub use champsim::{ExportError, is_champsim, write_champsim};
pub use decoded::{FLAGS, INSTRUCTION_POINTER, STACK_POINTER};
