//! Traces of other tools, as sources of events.

mod lackey;
mod lines;

pub use lackey::LackeyReader;
