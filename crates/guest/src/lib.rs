//! The work of a guest's processor, as linux/guest/system.c reports it: every access becomes an
//! event of a trace, every page walk a line of a list, which the simulator's page table is then
//! compared with. See docs/dpt-linux.md.

mod frames;
mod judge;
mod list;
mod physical;
mod record;
mod spaces;
mod stream;
mod symbols;
#[cfg(test)]
mod tests;

pub use judge::{Judged, judge};
pub use list::{WalkLines, WalkList};
pub use record::{Recorded, record};
pub use symbols::symbols;

use pagelab_addr::PageSize;
use std::io;

/// One page walk of the guest's processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestWalk {
    /// Purpose of the walk.
    pub purpose: Purpose,
    /// The address that was translated.
    pub addr: u64,
    /// The root of the tree: CR3 without its low bits. It names the address space also where the
    /// tree is not walked.
    pub root: u64,
    /// Address that it was translated to, and the size of the page; `None` for a fault.
    pub found: Option<(u64, PageSize)>,
    /// Distributed page table that was walked; `None` for the tree.
    pub hashed: Option<Hashed>,
    /// The entries read, in order; before that of a distributed page table the lines of metadata.
    pub reads: Vec<EntryRead>,
}

/// Key, memory and metadata that led a walk of a distributed page table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// The address space's key, which seeds the hash.
    pub key: u64,
    /// The memory whose frames the hash may name.
    pub ranges: Vec<Range>,
    /// The metadata by which the entry was found, the last read; `None` where there were none.
    pub metadata: Option<u8>,
}

/// A piece of the guest's memory without a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The number of its first page.
    pub start: u64,
    /// Number of its pages.
    pub frames: u64,
}

impl Hashed {
    /// Number of frames that the hash may name.
    fn frames(&self) -> u64 {
        let frames = |sum: u64, range: &Range| sum.saturating_add(range.frames);
        self.ranges.iter().fold(0, frames)
    }

    /// The number that a page has among them: memory is numbered without its holes.
    fn frame_of(&self, page: u64) -> Option<u64> {
        let mut before = 0u64;
        for range in &self.ranges {
            match page.checked_sub(range.start) {
                Some(within) if within < range.frames => return before.checked_add(within),
                _ => before = before.checked_add(range.frames)?,
            }
        }
        None
    }
}

impl GuestWalk {
    /// Number of levels of the tree, by a walk of it that found a page of this size.
    fn levels(&self, size: PageSize) -> u32 {
        self.reads.len() as u32 + size.order() / LEVEL_BITS
    }

    /// The reads without those of metadata, of a walk that found a page.
    fn entries(&self) -> &[EntryRead] {
        match (&self.hashed, self.reads.len()) {
            (Some(_), length) => &self.reads[length.saturating_sub(1)..],
            (None, _) => &self.reads,
        }
    }
}

/// Bits of an address by which a level's entry is chosen.
const LEVEL_BITS: u32 = 9;

/// An entry of a page table that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryRead {
    /// Its physical address.
    pub entry: u64,
    /// Value that was read.
    pub value: u64,
}

/// Purpose of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// A load.
    #[default]
    Load,
    /// A store.
    Store,
    /// Fetching an instruction.
    Fetch,
}

impl Purpose {
    const ALL: [(Purpose, &str); 3] = [
        (Purpose::Load, "load"),
        (Purpose::Store, "store"),
        (Purpose::Fetch, "fetch"),
    ];
}

/// Reason for which a recording of a guest could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The stream of the guest, a trace or a list of walks.
    #[error("{what}: {error}")]
    Io {
        /// Part of it.
        what: String,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
    /// The guest's report is not what linux/guest/system.c writes.
    #[error("the guest's report is not understood: {0}")]
    Stream(&'static str),
    /// A line of a list of walks.
    #[error("line {line} is no walk: {what}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// Error in it.
        what: &'static str,
    },
    /// The simulator does not number so much.
    #[error("{0}")]
    TooMuch(String),
}

fn failed(what: impl ToString) -> impl FnOnce(io::Error) -> GuestError {
    move |error| GuestError::Io {
        what: what.to_string(),
        error,
    }
}
