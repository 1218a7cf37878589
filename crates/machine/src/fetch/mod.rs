//! The instruction side: which lines of code a thread needs, from the blocks that it executes, and
//! what it costs to have them.
//!
//! First-level TLB and cache of the instructions are asked as far ahead as a chunk of accesses
//! reaches. What they do not have ends the chunk: it is fetched, through what data and instructions
//! share, when all before it has been simulated, and dispatch goes on when it has come.

mod config;
mod counts;
mod front_end;
mod instruction_side;
mod lines;

pub use config::{FetchCacheConfig, FetchConfig};
pub(crate) use counts::FetchCounts;
pub(crate) use front_end::{FrontEnd, Held, LINES_SHIFT, Lookup};
pub(crate) use instruction_side::Fetch;
pub(crate) use lines::{Block, BlockLines, FollowingLine};
