//! Mappings of files, for saying what memory is.

use std::collections::HashMap;

use pagelab_events::{Definition, Range};

use crate::files::Files;

/// Limit of what is told: a program may map files without end.
const MAX: usize = 1 << 18;

/// Files and where they were mapped last, as far as it was told.
#[derive(Debug)]
pub(crate) struct Mapped {
    wanted: bool,
    processes: HashMap<u32, Files>,
    told: usize,
}

impl Mapped {
    /// None yet; if they are not `wanted`, none ever.
    pub(crate) fn new(wanted: bool) -> Mapped {
        Mapped {
            wanted,
            processes: HashMap::new(),
            told: 0,
        }
    }

    /// A file has been mapped: the definition that says so, unless one has said it.
    pub(crate) fn add(
        &mut self,
        process: u32,
        addr: u64,
        len: u64,
        path: &str,
    ) -> Option<Definition> {
        if !self.wanted || self.told == MAX {
            return None;
        }
        let files = self.processes.entry(process).or_default();
        if files.covers(addr, len, path) {
            return None;
        }
        files.map(addr, len, 0, Some(path.to_owned()));
        self.told += 1;
        Some(Definition::Mapping {
            path: path.to_owned(),
            ranges: [Range { process, addr, len }].into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_told_again_after_another_at_its_place_only() {
        let mut mapped = Mapped::new(true);
        let mut told = |addr: u64, pages: u64, path| {
            let told = mapped.add(0, addr << 12, pages << 12, path);
            told.map(|definition| match definition {
                Definition::Mapping { path, ranges } => (path, ranges[0].addr >> 12),
                other => panic!("{other:?}"),
            })
        };
        let new = |path: &str, addr| Some((path.to_owned(), addr));
        assert_eq!(told(1, 4, "/a"), new("/a", 1));
        assert_eq!(told(1, 4, "/a"), None);
        assert_eq!(told(2, 1, "/a"), None);
        assert_eq!(told(2, 1, "/b"), new("/b", 2));
        assert_eq!(told(3, 1, "/a"), None);
        assert_eq!(told(1, 4, "/a"), new("/a", 1));
        assert_eq!(told(4, 2, "/a"), new("/a", 4));
    }

    #[test]
    fn a_program_that_maps_without_end_is_told_of_up_to_a_limit() {
        let mut mapped = Mapped::new(true);
        let far = |number: u64| number << 40 >> 20;
        let told = (0..MAX as u64 + 5).filter(|&n| mapped.add(0, far(n), 1, "/a").is_some());
        assert_eq!(told.count(), MAX);
    }

    #[test]
    fn without_code_nothing_is_told() {
        assert_eq!(Mapped::new(false).add(0, 0x1000, 0x1000, "/a"), None);
    }
}
