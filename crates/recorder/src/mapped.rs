//! Where files were mapped, for saying what memory is.

use std::collections::HashSet;

use pagelab_events::{Definition, Range};

/// What is kept at most: a program may map files without end.
const MAX: usize = 1 << 18;

/// All mappings of files, in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct Mapped {
    ranges: Vec<(String, Range)>,
    known: HashSet<(String, u32, u64, u64)>,
}

impl Mapped {
    /// A file has been mapped.
    pub(crate) fn add(&mut self, process: u32, addr: u64, len: u64, path: &str) {
        if self.ranges.len() < MAX && self.known.insert((path.to_owned(), process, addr, len)) {
            let range = Range { process, addr, len };
            self.ranges.push((path.to_owned(), range));
        }
    }

    /// What says so.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = Definition> {
        let of_one_file = self.ranges.chunk_by(|(one, _), (other, _)| one == other);
        of_one_file.map(|ranges| Definition::Mapping {
            path: ranges[0].0.clone(),
            ranges: ranges.iter().map(|&(_, range)| range).collect(),
        })
    }
}
