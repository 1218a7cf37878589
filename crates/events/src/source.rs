use crate::Batch;

/// Unit of a [`crate::Selection`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Accesses.
    #[default]
    Accesses,
    /// Instructions: [`Op::instructions`](crate::Op::instructions).
    Instructions,
}

/// Beginning of a piece of a stream that only warms the machine up for what follows, and is not to
/// be measured. A piece begins where the stream does, and wherever accesses were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmUp {
    /// Number of units: an access before which there are as many in the piece is measured.
    pub length: u64,
    /// Unit of that.
    pub unit: Unit,
}

/// Source of events: a workload, a trace file, a foreign trace, a live recording.
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

    /// Part of each piece that is not to be measured.
    fn warm_up(&self) -> WarmUp {
        WarmUp::default()
    }

    /// True if it may say which instructions make the accesses.
    fn has_code(&self) -> bool {
        false
    }

    /// Lines of a text read so far that are not the trace's: what a program has printed among them.
    fn passed_over(&self) -> u64 {
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

    fn warm_up(&self) -> WarmUp {
        (**self).warm_up()
    }

    fn has_code(&self) -> bool {
        (**self).has_code()
    }

    fn passed_over(&self) -> u64 {
        (**self).passed_over()
    }
}

/// A source with a warm-up of its own.
pub struct WarmedUp<S> {
    source: S,
    warm_up: WarmUp,
}

impl<S: Source> WarmedUp<S> {
    /// `source`, of which this much is not to be measured.
    pub fn new(source: S, warm_up: WarmUp) -> Self {
        WarmedUp { source, warm_up }
    }
}

impl<S: Source> Source for WarmedUp<S> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        self.source.next_batch(batch)
    }

    fn remaining(&self) -> Option<u64> {
        self.source.remaining()
    }

    fn warm_up(&self) -> WarmUp {
        self.warm_up
    }

    fn has_code(&self) -> bool {
        self.source.has_code()
    }
}

/// Reason for which a stream of events could not be read on.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The operating system would not read it.
    #[error("cannot read {name}: {error}")]
    Io {
        /// The file.
        name: String,
        /// Error of the system.
        #[source]
        error: std::io::Error,
    },
    /// The data are not what they should be.
    #[error("{name}: {what}")]
    Corrupt {
        /// The file, and the chunk, line or byte where it goes wrong.
        name: String,
        /// Error, and what was expected.
        what: String,
    },
}
