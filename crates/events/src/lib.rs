//! The work of a program on memory: one stream of events feeds every part of the laboratory.
//!
//! Events travel in columnar [`Batch`]es of a few thousand accesses. A [`Source`] yields
//! batches; a built-in workload, a trace file and a foreign trace are all sources.

mod batch;
mod code;
pub mod coding;
mod control;
mod convert;
mod csv;
pub mod dependence;
mod foreign;
mod info;
mod regions;
mod source;
mod stores;
mod touched;
mod trace;
mod window;

pub use batch::{Access, Batch, ChainRun, Mispredicted, Op};
pub use code::{
    AllocationCall, AllocationSite, CodeBlock, CodeTable, Definition, Flow, Follows, Frame,
    Instruction, MAX_SITES, NO_SITE, Range,
};
pub use control::{Advice, Backing, Control, HugePages, Protection, Touch};
pub use convert::{ConvertError, cat, convert, discard, write};
pub use csv::CsvWriter;
pub use foreign::{Format, open_any, open_foreign};
pub use info::{Counts, ProcessInfo, ThreadInfo, TraceInfo};
pub use regions::Regions;
pub use source::{Source, SourceError, Unit, WarmUp, WarmedUp};
pub use stores::Stores;
pub use touched::{Touched, pages, say_touched};
pub use trace::{Following, Metadata, TraceReader, TraceWriter};
pub use window::{Selection, Window, period_behind};
