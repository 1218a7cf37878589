//! What a program does to memory: one stream of events feeds every part of the laboratory.
//!
//! Events travel in columnar [`Batch`]es of a few thousand accesses. A [`Source`] yields
//! batches; a built-in workload, a trace file and a foreign trace are all sources.

mod batch;
mod control;
mod foreign;
mod source;
mod trace;

pub use batch::{Access, Batch, Op};
pub use control::{Advice, Backing, Control, Protection};
pub use foreign::LackeyReader;
pub use source::{Source, SourceError};
pub use trace::{Metadata, TraceReader, TraceWriter};
