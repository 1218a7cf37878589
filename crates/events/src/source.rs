use crate::Batch;

/// Where events come from: a workload, a trace file, a foreign trace, a live recording.
pub trait Source {
    /// Replaces `batch` by the next one; `false` when the stream has ended (the batch is then
    /// empty). The order of batches is the order of events; control events of one process
    /// happen before the accesses of later batches of any process.
    ///
    /// # Errors
    /// [`SourceError`] when the stream cannot be read on. Everything yielded before is good.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError>;

    /// Accesses yet to come, as far as known: for progress bars.
    fn remaining(&self) -> Option<u64> {
        None
    }

    /// Accesses after each [`Control::Skipped`](crate::Control::Skipped) that only warm the
    /// machine up for those that follow, and are not to be measured.
    fn warm_up(&self) -> u64 {
        0
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        (**self).next_batch(batch)
    }

    fn remaining(&self) -> Option<u64> {
        (**self).remaining()
    }

    fn warm_up(&self) -> u64 {
        (**self).warm_up()
    }
}

/// Why a stream of events could not be read on.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The operating system would not read it.
    #[error("cannot read {name}: {error}")]
    Io {
        /// The file.
        name: String,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
    /// The data are not what they should be.
    #[error("{name}: {what}")]
    Corrupt {
        /// The file, and the chunk, line or byte where it goes wrong.
        name: String,
        /// What is wrong, and what was expected.
        what: String,
    },
}
