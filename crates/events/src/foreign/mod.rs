//! Traces of other tools, as sources of events.

mod champsim;
mod compression;
mod lackey;
mod lackey_writer;
mod lines;
mod open;
mod records;
mod unsupported;

pub use lackey_writer::LackeyWriter;
pub use lines::{CANONICAL, Lines, is_canonical};
pub use open::{Format, open_any, open_foreign, open_with_format};
pub use records::{Progress, Records};
