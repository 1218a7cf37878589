//! Runs: sources of events through machines.

pub(crate) mod drive;
pub(crate) mod programs;
pub(crate) mod progress;
pub(crate) mod simulate;
pub(crate) mod stopped;
