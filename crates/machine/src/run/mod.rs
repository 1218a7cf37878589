//! Runs: sources of events through machines, whole or in pieces.

pub(crate) mod drive;
pub(crate) mod pieces;
pub(crate) mod programs;
pub(crate) mod progress;
pub(crate) mod simulate;
pub(crate) mod stopped;
