//! Execution: what a core computes between accesses, and when an access has what it waits for.
//!
//! An access waits for its address: the data of the loads that made it, plus the arithmetic between, and the
//! registers that it is computed from. [`Execution::chunk`] takes what is executed up to each access of a chunk;
//! [`UpTo::next`] then says access by access what the clock has to know.
//!
//! Bottom up: `decode` makes a [`Step`] of an instruction, `program` keeps a program's blocks and sites, `pieces`
//! turns the code between two accesses into a max-plus matrix, `registers` multiplies by it, `register_file` says
//! when integer registers run out, and `sampled` where registers are worth following.

mod between_accesses;
mod decode;
mod execution;
mod follow;
mod latency;
mod pieces;
mod program;
mod register_file;
mod registers;
mod sampled;
mod step;
mod taken;
mod up_to;
mod way;

pub use execution::{Execution, Next};
pub use pieces::{Pieces, Times};
pub use register_file::RegisterFile;
pub use registers::Registers;
pub use sampled::TURN;
pub use step::{Step, Unit};
pub use up_to::{Executed, UpTo};
