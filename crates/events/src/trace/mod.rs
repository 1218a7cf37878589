//! The trace file: chunks of events, compressed and checksummed. docs/trace-format.md defines it.

mod accesses;
mod block;
mod chunk;
mod code;
mod contents;
mod controls;
mod definitions;
mod following;
mod metadata;
mod reader;
pub(crate) mod varint;
mod writer;

pub use following::Following;
pub use metadata::Metadata;
pub use reader::TraceReader;
pub use writer::TraceWriter;

/// Begin of a trace file, before the version of the format, a 32-bit number.
const MAGIC: [u8; 8] = *b"pagelab\n";
/// The version that is written. Version 1 had no code; up to version 8 an access waited for one load,
/// up to 16 no branch said that its wrong path joins the right one, up to 32 every access had a code
/// and an address of its own, up to 64 no branch stood for others, up to 128 nothing was a prefetch, and up
/// to 256 no access continued an instruction.
const VERSION: u32 = 512;
/// Versions that are read. No flipped bit makes the one that is written of an older one.
const VERSIONS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, VERSION];
/// End of a complete trace file, after the offset of the index and a checksum.
const TAIL: [u8; 4] = *b"TAIL";
/// Bytes of the end of a complete trace file.
const TAIL_BYTES: usize = 16;
/// The largest metadata block.
const MAX_METADATA: u32 = 1 << 20;
/// Bytes of an entry of the index.
const INDEX_ENTRY_BYTES: usize = 16;

/// Said of a definition that a [`CodeTable`](crate::CodeTable) does not take.
const NO_DEFINITION: &str = "a definition of code contradicts itself, is one too many, or makes names and code more than 1 GiB";

/// Place of a chunk, and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IndexEntry {
    offset: u64,
    accesses: u32,
    controls: u32,
}
