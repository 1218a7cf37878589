//! Finds the steps of a latency curve and the geometry behind them.
//!
//! A latency curve gives nanoseconds a load against the number of places (pages, lines) that a
//! chain of dependent loads visits. Each cache or TLB level that overflows lifts the curve from
//! one plateau to the next. The work is done in three stages, each in a file of its own:
//!
//! 1. [`Curve`] holds the rounds and removes what moved a whole round (median polish).
//! 2. [`plateaus`] finds the plateaus: optimal partitioning with a robust, penalised likelihood.
//! 3. [`ramp`] measures the region of each step densely and fits the miss ratio of a cyclic walk,
//!    which gives the capacity with a bootstrap interval, and the number of sets.
//!
//! [`search`] puts the three together around anything that can measure a point.

mod curve;
mod plateaus;
mod ramp;
mod search;

pub use curve::Curve;
pub use plateaus::{Plateau, plateaus};
pub use ramp::{RampFit, fit_ramp};
pub use search::{Options, Step, Steps, find_steps, geometric_grid};
