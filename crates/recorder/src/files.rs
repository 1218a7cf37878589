//! Which file is mapped where, for saying where code is from.

/// A process's mappings of files, the latest last; what has gone is covered by an entry without
/// a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files(Vec<Mapped>);

#[derive(Clone, Debug)]
struct Mapped {
    start: u64,
    end: u64,
    /// Where in the file the mapping starts.
    offset: u64,
    path: Option<String>,
}

impl Files {
    /// A file has been mapped, or, without a path, something else or nothing.
    pub(crate) fn map(&mut self, start: u64, len: u64, offset: u64, path: Option<String>) {
        let end = start.saturating_add(len);
        self.0
            .retain(|mapped| mapped.start < start || mapped.end > end);
        let covers = |mapped: &Mapped| mapped.start < end && start < mapped.end;
        if path.is_some() || self.0.iter().any(covers) {
            self.0.push(Mapped {
                start,
                end,
                offset,
                path,
            });
        }
    }

    /// The file at an address, and the place in it.
    pub(crate) fn at(&self, address: u64) -> Option<(&str, u64)> {
        let found =
            (self.0.iter().rev()).find(|mapped| (mapped.start..mapped.end).contains(&address))?;
        let path = found.path.as_deref()?;
        Some((path, address - found.start + found.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_mapping_of_an_address_counts() {
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
        files.map(0x1000, 0x5000, 0, None);
        assert_eq!(files.at(0x2010), None);
        assert!(files.0.is_empty());
    }
}
