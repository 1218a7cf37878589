//! Events as lines of text, `kind,addr,size,gap,dep`: for streams written by hand, and for
//! looking at a trace. docs/trace-format.md defines it.

mod reader;
mod words;
mod writer;

pub use reader::{CsvReader, is_line};
pub use writer::CsvWriter;

/// The first line of what is written.
const TITLE: &str = "kind,addr,size,gap,dep";
