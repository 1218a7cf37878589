//! Files and their mappings, for saying where code is from.

use std::collections::BTreeMap;

/// A process's mappings of files, by their first address. None overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files(BTreeMap<u64, Mapped>);

#[derive(Clone, Debug)]
struct Mapped {
    end: u64,
    /// Begin of the mapping in the file.
    offset: u64,
    path: String,
}

impl Files {
    /// A file has been mapped, or, without a path, something else or nothing.
    pub(crate) fn map(&mut self, start: u64, len: u64, offset: u64, path: Option<String>) {
        let end = start.saturating_add(len);
        let covered = self.0.range(..end).rev();
        let covered = covered.take_while(|(_, mapped)| start < mapped.end);
        let covered: Vec<u64> = covered.map(|(&at, _)| at).collect();
        for at in covered {
            let Some(mut mapped) = self.0.remove(&at) else {
                continue;
            };
            if end < mapped.end {
                let offset = mapped.offset + (end - at);
                let path = mapped.path.clone();
                self.0.insert(
                    end,
                    Mapped {
                        offset,
                        path,
                        ..mapped
                    },
                );
            }
            if at < start {
                mapped.end = start;
                self.0.insert(at, mapped);
            }
        }
        if let Some(path) = path {
            self.0.insert(start, Mapped { end, offset, path });
        }
    }

    /// True if a range lies in one mapping of a file.
    pub(crate) fn covers(&self, start: u64, len: u64, path: &str) -> bool {
        let before = self.0.range(..=start).next_back();
        before.is_some_and(|(_, mapped)| {
            mapped.path == path && start.saturating_add(len) <= mapped.end
        })
    }

    /// First address, length and path of each.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, u64, &str)> {
        let all = self.0.iter();
        all.map(|(&start, mapped)| (start, mapped.end - start, mapped.path.as_str()))
    }

    /// The file at an address, and the place in it.
    pub(crate) fn at(&self, address: u64) -> Option<(&str, u64)> {
        let (start, mapped) = self.0.range(..=address).next_back()?;
        let inside = address < mapped.end;
        inside.then(|| (mapped.path.as_str(), address - start + mapped.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_mapping_of_an_address_counts_and_what_it_leaves_of_others_stays() {
        let mut files = Files::default();
        files.map(0x1000, 0x5000, 0, Some("/a".to_owned()));
        files.map(0x2000, 0x1000, 0x800, Some("/b".to_owned()));
        files.map(0x4000, 0x1000, 0, None);
        assert_eq!(files.at(0x1010), Some(("/a", 0x10)));
        assert_eq!(files.at(0x2010), Some(("/b", 0x810)));
        assert_eq!(files.at(0x3000), Some(("/a", 0x2000)));
        assert_eq!(files.at(0x4000), None);
        assert_eq!(files.at(0x5fff), Some(("/a", 0x4fff)));
        assert_eq!(files.at(0x6000), None);
        files.map(0x1800, 0x1000, 0, None);
        assert_eq!(files.at(0x17ff), Some(("/a", 0x7ff)));
        assert_eq!(files.at(0x2000), None);
        assert_eq!(files.at(0x2810), Some(("/b", 0x1010)));
        files.map(0x1000, 0x5000, 0, None);
        assert_eq!(files.at(0x2810), None);
        assert!(files.0.is_empty());
    }
}
