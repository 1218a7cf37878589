use super::{MAGIC, TraceReader};
use crate::{Divisible, Interval, Source, SourceError};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A trace that is read in several places at once, found by its index.
pub struct DivisibleTrace {
    path: PathBuf,
    accesses: u64,
    has_code: bool,
}

impl DivisibleTrace {
    /// Opens a trace; `None` for what is not a file of pagelab's own format, and can only be read
    /// from its beginning to its end.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Option<Self>, SourceError> {
        let path = path.as_ref().to_owned();
        let io = |error| SourceError::Io {
            name: path.display().to_string(),
            error,
        };
        // Opening a pipe would take what another reads from it.
        if !std::fs::metadata(&path).map_err(io)?.is_file() {
            return Ok(None);
        }
        let mut head = Vec::new();
        let file = File::open(&path).map_err(io)?;
        file.take(MAGIC.len() as u64)
            .read_to_end(&mut head)
            .map_err(io)?;
        if !TraceReader::recognises(&head) {
            return Ok(None);
        }
        let reader = TraceReader::open(&path)?;
        Ok(Some(DivisibleTrace {
            accesses: reader.accesses(),
            has_code: reader.has_code(),
            path,
        }))
    }
}

impl Divisible for DivisibleTrace {
    fn accesses(&self) -> u64 {
        self.accesses
    }

    fn interval(
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
        Ok(Box::new(Interval::new(reader, skip, accesses)))
    }

    fn has_code(&self) -> bool {
        self.has_code
    }
}
