//! A program with its memory, and the thread that runs it.

use crate::emitter::{Emitter, Output};
use crate::memory::Memory;
use crate::schedule::{Sampling, Schedule};
use pagelab_events::{Backing, Batch, Control, Protection, Source, SourceError, Unit, WarmUp};
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// A workload, built.
pub(crate) struct Program {
    /// Memory that its initialisation has allocated and written.
    pub(crate) memory: Memory,
    /// Number of accesses that its kernel makes, where that is known without running it.
    pub(crate) accesses: Option<u64>,
    /// The kernel. It may be run more than once, and does the same each time.
    pub(crate) kernel: Box<dyn Fn(&mut Emitter) + Send + Sync>,
}

impl Program {
    /// A program whose kernel makes `accesses`, if that is known.
    pub(crate) fn new(
        memory: Memory,
        accesses: Option<u64>,
        kernel: impl Fn(&mut Emitter) + Send + Sync + 'static,
    ) -> Program {
        Program {
            memory,
            accesses,
            kernel: Box::new(kernel),
        }
    }
}

/// Batches on their way: enough that neither side waits for the other at every batch.
const UNDER_WAY: usize = 8;

/// A program that runs on a thread of its own, as far ahead of its reader as the batches under
/// way. Kernels are then plain loops, and the host's second core makes the events.
///
/// An empty batch says that the program is running and has nothing to say.
///
/// The stream begins with the program's memory, populated: its initialisation stands in the page
/// table, and [`Control::Skipped`] says that its stores are left out.
pub(crate) struct Running {
    start: Option<Batch>,
    batches: Option<Receiver<Batch>>,
    used: Sender<Batch>,
    thread: Option<JoinHandle<()>>,
    /// Known once the thread has found out how long the program is.
    schedule: Arc<OnceLock<Schedule>>,
    /// Accesses that the program makes, if known.
    accesses: Option<u64>,
    /// Accesses read so far.
    read: u64,
}

/// Accesses of programs that had to be run to count them, by what they were made from: the designs
/// of a comparison run the same one.
static COUNTED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

impl Running {
    /// Starts a program, which `name` and nothing else is made from.
    pub(crate) fn new(name: String, program: Program, sampling: Sampling) -> Self {
        let (batches, received) = sync_channel(UNDER_WAY);
        let (used, reused) = channel();
        let output = Output {
            batches,
            used: reused,
        };
        let start = initialisation(&program.memory);
        let accesses = program.accesses;
        let schedule = Arc::new(OnceLock::new());
        let found = Arc::clone(&schedule);
        let thread = std::thread::spawn(move || run(&name, &program, sampling, output, &found));
        Running {
            start: Some(start),
            batches: Some(received),
            used,
            thread: Some(thread),
            schedule,
            accesses,
            read: 0,
        }
    }

    /// Waits for the thread, which has nobody to write to any more.
    fn join(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

/// The memory of a program as it is before its kernel starts.
fn initialisation(memory: &Memory) -> Batch {
    let mut batch = Batch::default();
    for mapping in memory.mappings() {
        batch.push_control(Control::Map {
            addr: mapping.addr,
            len: mapping.len,
            prot: Protection(Protection::READ | Protection::WRITE),
            backing: Backing::Anonymous,
            populate: true,
        });
    }
    batch
}

fn run(
    name: &str,
    program: &Program,
    sampling: Sampling,
    mut output: Output,
    found: &OnceLock<Schedule>,
) {
    let counted = || COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = program.accesses.or_else(|| counted().get(name).copied());
    let accesses = match known {
        Some(accesses) => accesses,
        None if sampling.is_whole() => u64::MAX,
        None => {
            // Only running it tells how long it is, and so where the windows are to be.
            let mut counting = Emitter::counting(output, sampling.region);
            let ended = counting.run(&*program.kernel);
            let accesses = counting.count();
            output = counting.into_output();
            if ended || accesses == sampling.region {
                counted().insert(name.to_owned(), accesses);
            }
            accesses
        }
    };
    let schedule = found.get_or_init(|| sampling.schedule(accesses));
    let mut emitter = Emitter::new(output, schedule.windows.clone());
    emitter.run(&*program.kernel);
    emitter.finish();
}

impl Source for Running {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        if let Some(start) = self.start.take() {
            *batch = start;
            return Ok(true);
        }
        let received = self.batches.as_ref().and_then(|from| from.recv().ok());
        let Some(next) = received else {
            batch.clear();
            self.join();
            return Ok(false);
        };
        let used = std::mem::replace(batch, next);
        self.read += batch.len() as u64;
        // A program that has ended takes no batches back.
        let _ = self.used.send(used);
        Ok(true)
    }

    fn remaining(&self) -> Option<u64> {
        let wanted = self.schedule.get()?.accesses(self.accesses)?;
        Some(wanted.saturating_sub(self.read))
    }

    fn warm_up(&self) -> WarmUp {
        WarmUp {
            length: self.schedule.get().map_or(0, |schedule| schedule.warm_up),
            unit: Unit::Accesses,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.join();
    }
}
