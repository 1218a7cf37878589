use super::TraceReader;
use crate::{Divisible, Source, SourceError, Stretch};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A trace that is read in several places at once, found by its index.
pub struct DivisibleTrace {
    path: PathBuf,
    accesses: u64,
    has_code: bool,
}

impl DivisibleTrace {
    /// Opens a trace, which has to be a file of pagelab's own format.
    ///
    /// # Errors
    /// When it cannot be opened, or is not such a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SourceError> {
        let path = path.as_ref().to_owned();
        let name = path.display().to_string();
        let corrupt = |what: &str| SourceError::Corrupt {
            name: name.clone(),
            what: what.to_owned(),
        };
        let about = std::fs::metadata(&path).map_err(|error| SourceError::Io {
            name: name.clone(),
            error,
        })?;
        if !about.is_file() {
            return Err(corrupt(
                "not a file: what comes through a pipe is read once, from its beginning to its end",
            ));
        }
        let reader = TraceReader::open(&path)?;
        Ok(DivisibleTrace {
            accesses: reader.accesses(),
            has_code: reader.has_code(),
            path,
        })
    }
}

impl Divisible for DivisibleTrace {
    fn accesses(&self) -> u64 {
        self.accesses
    }

    fn stretch(
        &self,
        from: u64,
        to: Option<u64>,
    ) -> Result<Box<dyn Source + Send + '_>, SourceError> {
        let mut reader: TraceReader<File> = TraceReader::open(&self.path)?;
        if reader.accesses() != self.accesses {
            return Err(SourceError::Corrupt {
                name: self.path.display().to_string(),
                what: "it changes while it is read; wait until it is recorded".to_owned(),
            });
        }
        let skip = reader.seek_access(from);
        let accesses = to.map(|to| to.saturating_sub(from));
        Ok(Box::new(Stretch::new(reader, skip, accesses)))
    }

    fn has_code(&self) -> bool {
        self.has_code
    }
}
