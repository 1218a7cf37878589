use super::TraceReader;
use crate::{Batch, Source, SourceError};
use std::path::Path;
use std::time::Duration;

/// Wait for more to be written.
const WAIT: Duration = Duration::from_millis(20);

/// Reads a trace while it is written, to its end.
///
/// Its writer holds a lock of the file ([`TraceWriter::create`](super::TraceWriter::create)). As long as it does, a
/// batch without events stands for the time that nothing has come. All others are those of [`TraceReader`], but that
/// names of code that the program has made come last.
pub struct Following {
    reader: TraceReader,
    has_code: bool,
    /// The writer has gone.
    ended: bool,
}

impl Following {
    /// Opens a trace file whose writer has begun. Waits for its first chunk.
    ///
    /// # Errors
    /// When it cannot be opened, or is not a trace.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SourceError> {
        let mut following = Following {
            reader: TraceReader::open(path)?,
            has_code: false,
            ended: false,
        };
        following.ended = following.reader.is_complete();
        while !following.look()? && !following.reader.has_chunk() {
            std::thread::sleep(WAIT);
        }
        // Definitions come before what refers to them.
        following.has_code = following.reader.has_code();
        Ok(following)
    }

    /// Looks for more. True if no more will come.
    fn look(&mut self) -> Result<bool, SourceError> {
        if !self.ended {
            // The lock first: all is written when it goes.
            self.ended = !self.reader.is_being_written();
            self.reader.look_further(self.ended)?;
        }
        Ok(self.ended)
    }
}

impl Source for Following {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let process = batch.process;
        while !self.reader.next_batch(batch)? {
            batch.process = process;
            if self.ended {
                batch.definitions = self.reader.rest_of_names()?;
                return Ok(!batch.definitions.is_empty());
            }
            if !self.look()? && !self.reader.has_chunk() {
                std::thread::sleep(WAIT);
                return Ok(true);
            }
        }
        Ok(true)
    }

    fn remaining(&self) -> Option<u64> {
        self.reader.remaining()
    }

    fn has_code(&self) -> bool {
        self.has_code
    }
}
