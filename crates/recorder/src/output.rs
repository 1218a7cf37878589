//! Output of the events.

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use pagelab_events::{Batch, Control, Flow};

/// Takes the batches of a recording.
pub trait Sink: Send {
    /// Takes the next batch.
    ///
    /// # Errors
    /// When it cannot be kept; the recording then stops.
    fn write(&mut self, batch: &Batch) -> io::Result<()>;

    /// Nothing more comes; returns the bytes written.
    ///
    /// # Errors
    /// When the end cannot be kept.
    fn finish(&mut self) -> io::Result<u64> {
        Ok(0)
    }
}

impl Sink for Vec<Batch> {
    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        self.push(batch.clone());
        Ok(())
    }
}

/// A batch is handed on when it holds so many accesses.
const BATCH: usize = 16 * 1024;

/// Batches on the way to the sink at most: enough for it to have one while the next is filled.
const QUEUE: usize = 8;

/// A place in a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// Accesses before it.
    pub(crate) access: usize,
    /// Entries of the flow before it.
    pub(crate) flow: usize,
    pub(crate) mispredicted: usize,
}

/// Collects events into batches and hands them to the sink, on a thread of its own.
pub(crate) struct Output<S> {
    batch: Batch,
    pub(crate) with_code: bool,
    current: Option<(u32, u32)>,
    accesses: u64,
    full: Option<SyncSender<Batch>>,
    empty: Receiver<Batch>,
    writer: Option<JoinHandle<Written<S>>>,
}

/// Result of the writing thread.
type Written<S> = (S, io::Result<u64>);

impl<S: Sink + 'static> Output<S> {
    /// Hands the events to `sink`; with the flow of the code if `with_code`.
    pub(crate) fn new(mut sink: S, with_code: bool) -> Output<S> {
        let (full, batches) = sync_channel::<Batch>(QUEUE);
        let (spare, empty): (Sender<Batch>, _) = channel();
        let writer = std::thread::spawn(move || {
            for mut batch in batches {
                if let Err(error) = sink.write(&batch) {
                    return (sink, Err(error));
                }
                batch.clear();
                // Nobody wants it any more at the end.
                let _ = spare.send(batch);
            }
            let end = sink.finish();
            (sink, end)
        });
        Output {
            batch: Batch::default(),
            with_code,
            current: None,
            accesses: 0,
            full: Some(full),
            empty,
            writer: Some(writer),
        }
    }

    /// The events that follow are of this thread of this process.
    pub(crate) fn select(&mut self, process: u32, thread: u32) -> io::Result<()> {
        let other_process = self.current.is_some_and(|(current, _)| current != process);
        if other_process || self.batch.len() >= BATCH {
            self.flush()?;
        }
        if self.current != Some((process, thread)) || self.batch.is_empty() {
            self.batch.process = process;
            self.batch.push_control(Control::Thread { thread });
            if self.with_code {
                let at = self.batch.len() as u32;
                self.batch.flow.push((at, Flow::Thread(thread)));
                self.batch.regular.push(false);
            }
            self.current = Some((process, thread));
        }
        Ok(())
    }

    /// The batch being filled.
    pub(crate) fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// The end of what the batch holds.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            access: self.batch.len(),
            flow: self.batch.flow.len(),
            mispredicted: self.batch.mispredicted.len(),
        }
    }

    /// Adds a control event.
    pub(crate) fn control(&mut self, control: Control) {
        self.batch.push_control(control);
    }

    /// Accesses so far.
    pub(crate) fn accesses(&self) -> u64 {
        self.accesses + self.batch.len() as u64
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.batch.is_empty() && self.batch.definitions.is_empty() {
            return Ok(());
        }
        self.accesses += self.batch.len() as u64;
        let next = self.empty.try_recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, next);
        match &self.full {
            Some(full) if full.send(batch).is_ok() => Ok(()),
            _ => Err(self.failure()),
        }
    }

    /// Reason for which the writing thread has stopped.
    fn failure(&mut self) -> io::Error {
        match self.close() {
            Some((_, Err(error))) => error,
            _ => io::Error::other("the writer has stopped"),
        }
    }

    fn close(&mut self) -> Option<Written<S>> {
        self.full = None;
        self.writer.take()?.join().ok()
    }

    /// Hands on what is left; returns the sink (unless it has panicked) and the bytes written.
    pub(crate) fn finish(mut self) -> (Option<S>, io::Result<u64>) {
        let flushed = self.flush();
        match self.close() {
            Some((sink, written)) => (Some(sink), flushed.and(written)),
            None => (None, flushed.and(Ok(0))),
        }
    }
}
