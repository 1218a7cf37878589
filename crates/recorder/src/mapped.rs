//! Mappings of files, for saying what memory is.

use std::collections::HashMap;

use pagelab_events::{Definition, Range};

/// Limit of what is kept: a program may map files without end.
const MAX: usize = 1 << 18;
/// Ranges of one definition, which must not become too large.
const MAX_RANGES: usize = 1 << 16;

/// All mappings of files.
#[derive(Debug)]
pub(crate) struct Mapped {
    wanted: bool,
    /// When each was made last, as a number: of two at an address the later one counts.
    ranges: HashMap<(String, Range), u64>,
    made: u64,
}

impl Mapped {
    /// None yet; if they are not `wanted`, none ever.
    pub(crate) fn new(wanted: bool) -> Mapped {
        Mapped {
            wanted,
            ranges: HashMap::new(),
            made: 0,
        }
    }

    /// A file has been mapped.
    pub(crate) fn add(&mut self, process: u32, addr: u64, len: u64, path: &str) {
        if !self.wanted {
            return;
        }
        let key = (path.to_owned(), Range { process, addr, len });
        if self.ranges.len() < MAX || self.ranges.contains_key(&key) {
            self.ranges.insert(key, self.made);
            self.made += 1;
        }
    }

    /// Definitions that say so, in the order in which they were made.
    pub(crate) fn definitions(&self) -> Vec<Definition> {
        let mut ranges: Vec<_> = self.ranges.iter().collect();
        ranges.sort_unstable_by_key(|&(_, &made)| made);
        ranges
            .chunk_by(|((one, _), _), ((other, _), _)| one == other)
            .flat_map(|of_one_file| of_one_file.chunks(MAX_RANGES))
            .map(|ranges| Definition::Mapping {
                path: ranges[0].0.0.clone(),
                ranges: ranges.iter().map(|((_, range), _)| *range).collect(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_events::{Batch, Metadata, TraceWriter};

    fn found(mapped: &Mapped) -> Vec<(String, Box<[Range]>)> {
        let all = mapped.definitions().into_iter();
        let all = all.map(|definition| match definition {
            Definition::Mapping { path, ranges } => (path, ranges),
            other => panic!("{other:?}"),
        });
        all.collect()
    }

    #[test]
    fn what_is_mapped_again_comes_after_what_was_there_meanwhile() {
        let mut mapped = Mapped::new(true);
        for (addr, path) in [(1, "/a"), (2, "/a"), (1, "/b"), (1, "/a")] {
            mapped.add(0, addr << 12, 0x1000, path);
        }
        let range = |addr| Range {
            process: 0,
            addr,
            len: 0x1000,
        };
        let expected = [("/a", 0x2000), ("/b", 0x1000), ("/a", 0x1000)];
        let expected = expected.map(|(path, addr)| (path.to_owned(), [range(addr)].into()));
        assert_eq!(found(&mapped), expected);
    }

    #[test]
    fn a_file_that_is_mapped_without_end_has_definitions_that_can_be_written() {
        let mut mapped = Mapped::new(true);
        let far = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for number in 0..MAX as u64 + 5 {
            mapped.add(u32::MAX, far(number), u64::MAX, "/a");
        }
        let definitions = mapped.definitions();
        assert_eq!(definitions.len(), MAX / MAX_RANGES);
        let batch = Batch {
            definitions,
            ..Batch::default()
        };
        let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    }

    #[test]
    fn without_code_nothing_is_kept() {
        let mut mapped = Mapped::new(false);
        mapped.add(0, 0x1000, 0x1000, "/a");
        assert_eq!(found(&mapped), []);
    }
}
