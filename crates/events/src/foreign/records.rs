//! Common parts of the readers of foreign traces: they read record by record, and yield batches.

use crate::{Batch, Control, Source, SourceError};

/// Accesses of a batch, at most.
const BATCH: usize = 4096;

/// Outcome of reading one record.
pub enum Progress {
    /// There may be more for this batch.
    More,
    /// The batch must end here: what follows is of another process.
    Break,
    /// The trace has ended.
    End,
}

/// A foreign trace, record by record.
pub trait Records {
    /// Starts a batch: names its process and thread.
    fn begin(&mut self, batch: &mut Batch) {
        batch.push_control(Control::Thread { thread: 0 });
    }

    /// True if it says which instructions make the accesses.
    fn has_code(&self) -> bool {
        false
    }

    /// Lines so far that are not of the trace, and were passed over.
    fn passed_over(&self) -> u64 {
        0
    }

    /// Reads the next record and appends its events.
    ///
    /// # Errors
    /// What is wrong with the record, or why it cannot be read.
    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError>;
}

/// A foreign trace as a source of events. An error comes after the events before it.
pub struct Batched<R> {
    records: R,
    ended: bool,
    error: Option<SourceError>,
}

impl<R: Records> Batched<R> {
    pub fn new(records: R) -> Self {
        Batched {
            records,
            ended: false,
            error: None,
        }
    }
}

impl<R: Records> Source for Batched<R> {
    fn has_code(&self) -> bool {
        self.records.has_code()
    }

    fn passed_over(&self) -> u64 {
        self.records.passed_over()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        loop {
            batch.clear();
            if let Some(error) = self.error.take() {
                self.ended = true;
                return Err(error);
            }
            if self.ended {
                return Ok(false);
            }
            self.records.begin(batch);
            let named = batch.controls.len();
            while batch.len() < BATCH && batch.controls.len() < BATCH {
                match self.records.next(batch) {
                    Ok(Progress::More) => {}
                    Ok(Progress::Break) => break,
                    Ok(Progress::End) => {
                        self.ended = true;
                        break;
                    }
                    Err(error) => {
                        self.error = Some(error);
                        break;
                    }
                }
            }
            if !batch.addr.is_empty() || batch.controls.len() > named {
                return Ok(true);
            }
        }
    }
}
