//! The measuring suite: what virtual memory costs on the machine it runs on.

pub mod chain;
pub mod core_speed;
pub mod detect;
pub mod flushed_lines;
pub mod looks;
pub mod noise;
pub mod parts;
pub mod places;
pub mod programs;
pub mod random_loads;
pub mod rounds;
pub mod stats;
pub mod streams;
pub mod system;
