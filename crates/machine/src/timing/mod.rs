//! When what a chunk asks for is there: docs/developers/time.md.

mod accesses;
mod chunk;
mod counts;
mod fetch;
mod free;
mod latencies;
mod paths;
mod pending;
mod slow;
mod task;

pub(crate) use accesses::Accesses;
pub(crate) use chunk::time;
pub(crate) use counts::Counts;
pub(crate) use fetch::{Fetched, fetch};
pub(crate) use free::FreeClocks;
pub(crate) use latencies::Latencies;
pub(crate) use paths::Paths;
pub(crate) use pending::Pending;

#[cfg(test)]
mod tests;
