//! The out-of-order core: what a latency costs in time.
//!
//! An interval-style model in the sense of Genbrugge, Eyerman and Eeckhout ("Interval
//! simulation", HPCA 2010) and of Carlson et al. (Sniper, TACO 2014): instructions dispatch
//! `width` a cycle into a reorder buffer and retire from it in order; memory accesses take time, and
//! arithmetic where the code is known; an access waits for the loads that made its address and for what is
//! computed from them and from registers, and what follows a mispredicted branch or a line of code for those.
//! What it leaves out: arithmetic that decides a branch, and what a wrong path does.

mod config;
mod core_model;
mod front_end;
mod in_flight;
mod servers;
mod stalls;
mod store_buffer;
mod under_way;
mod waits;
mod wrong_paths;

pub use config::{ArithmeticConfig, CoreConfig, CoreError, ExecutionConfig, WINDOW};
pub use core_model::{Core, RobEntry, Trapped, UNKNOWN};
pub use in_flight::InFlight;
pub use servers::{Grant, Idle};
pub use stalls::Stalls;
pub use under_way::UnderWay;
pub use waits::{Computed, Waits};
