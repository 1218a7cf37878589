//! Statistics of a run: what is counted, and the result that it is given as.

pub(crate) mod allocations;
#[cfg(test)]
mod allocations_tests;
pub(crate) mod by_code;
pub(crate) mod by_program;
pub(crate) mod heat_map;
pub(crate) mod histogram;
pub(crate) mod memory;
pub(crate) mod own_counters;
pub(crate) mod ranges;
pub(crate) mod result;
pub(crate) mod statistics;
pub(crate) mod sums;
pub(crate) mod tally;
pub(crate) mod timeline;
pub(crate) mod totals;
pub(crate) mod windows;
