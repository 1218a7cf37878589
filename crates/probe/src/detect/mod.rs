//! Finds the steps of a latency curve and the geometry behind them.
//!
//! A latency curve gives nanoseconds a load against the number of places (pages, lines) that a
//! chain of dependent loads visits. Each cache or TLB level that overflows lifts the curve from
//! one plateau to the next. The work is done in three stages, each in a file of its own:
//!
//! 1. [`Curve`] holds the rounds and removes what moved a whole round (median polish).
//! 2. [`plateaus`] finds the plateaus: optimal partitioning with a robust, penalised likelihood.
//! 3. [`fit_step`] fits the miss ratio of a cyclic walk ([`Shape`]) to a dense sweep over the
//!    region of a step, which gives the capacity with a bootstrap interval.
//!
//! [`find_steps`] puts the three together around anything that can measure a point.

mod crossing;
mod curve;
mod fit;
mod plateaus;
mod search;
mod shape;
mod sharing;

pub use crossing::{Crossing, crossing};
pub use curve::{Curve, Summary};
pub use fit::{Rival, StepFit, fit_step};
pub use plateaus::{Plateau, plateaus};
pub use search::{Options, Step, Steps, find_steps, geometric_grid};
pub use shape::Shape;
pub use sharing::{SharedLevel, shared_level};
