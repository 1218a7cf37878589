//! The measuring suite: what virtual memory costs on the machine it runs on.

pub mod detect;
pub mod stats;
