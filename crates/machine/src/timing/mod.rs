//! When what a chunk asks for is there: docs/developers/time.md.

mod accesses;
pub(crate) mod arithmetic;
mod chunk;
mod counts;
mod fetch;
mod free;
mod latencies;
pub(crate) mod look_ahead;
mod paths;
mod pending;
pub(crate) mod sampled;
mod slow;
mod task;

pub(crate) use accesses::{Accesses, Executed};
pub(crate) use chunk::time;
pub(crate) use counts::Counts;
pub(crate) use fetch::{Fetched, fetch};
pub(crate) use free::FreeClocks;
pub(crate) use latencies::Latencies;
pub(crate) use paths::Paths;
pub(crate) use pending::Pending;

#[cfg(test)]
mod tests;
