//! One stream in pieces that run side by side. docs/scale.md says what a piece needs.

mod apart;
mod bad;
mod bound;
mod code;
mod crew;
mod event;
mod fills;
mod intervals;
mod join;
mod kept;
mod names;
mod piece;
mod plan;
mod recent;
mod removed_pages;
mod state;
mod survey;
mod together;

#[cfg(test)]
mod kept_tests;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod recent_tests;
#[cfg(test)]
mod tests;

pub use apart::{PieceApart, PiecesApart, check_in_pieces, look_at_interval, simulate_piece};
pub use bad::BadSurvey;
pub use kept::SurveyFile;
pub(crate) use piece::{Ended, OnePiece};
pub(crate) use plan::Plan;
pub(crate) use together::{Pieces, check_design, put_together, run, run_one};
