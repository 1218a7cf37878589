//! A program of which several parts are read at once.

use crate::emitter::{Emitter, Output, Wanted};
use crate::program::{Program, UNDER_WAY, initialisation};
use crate::sparse::Sparse;
use pagelab_events::{Batch, Control, Divisible, Source, SourceError};
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A program, and those of its runs that may go on.
///
/// A part is had by running the program up to it without events. A run that is through with a part
/// waits for a later one, so that reading all parts in order in `n` places takes no more than `n` + 1
/// runs, each part being read by the run that is nearest before it.
pub(crate) struct DivisibleProgram {
    program: Arc<Program>,
    accesses: u64,
    sparsity: u64,
    waiting: Mutex<Vec<Execution>>,
}

/// A run of a program, on a thread of its own.
struct Execution {
    /// Accesses that it has made.
    at: u64,
    /// Channel that says which part is wanted next; `None` to end it.
    wanted: Option<Sender<(u64, u64)>>,
    batches: Option<Receiver<Batch>>,
    used: Sender<Batch>,
    thread: Option<JoinHandle<()>>,
}

impl Execution {
    fn new(program: Arc<Program>) -> Self {
        let (batches, received) = sync_channel(UNDER_WAY);
        let (used, reused) = channel();
        let (wanted, asked) = channel();
        let output = Output {
            batches,
            used: reused,
        };
        let thread = std::thread::spawn(move || {
            let mut emitter = Emitter::wanting(output, Wanted::Asked(asked));
            if emitter.run(&*program.kernel) {
                emitter.finish();
            }
        });
        Execution {
            at: 0,
            wanted: Some(wanted),
            batches: Some(received),
            used,
            thread: Some(thread),
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.wanted = None;
        self.batches = None;
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

impl DivisibleProgram {
    pub(crate) fn new(program: Program, accesses: u64, sparsity: u64) -> Self {
        DivisibleProgram {
            program: Arc::new(program),
            accesses,
            sparsity,
            waiting: Mutex::default(),
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Execution>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run that is nearest before an access, or a new one.
    fn execution(&self, from: u64) -> Execution {
        let mut waiting = self.waiting();
        let before = (0..waiting.len()).filter(|&run| waiting[run].at <= from);
        match before.max_by_key(|&run| waiting[run].at) {
            Some(run) => waiting.swap_remove(run),
            None => Execution::new(Arc::clone(&self.program)),
        }
    }
}

impl Divisible for DivisibleProgram {
    fn accesses(&self) -> u64 {
        self.accesses
    }

    fn interval(
        &self,
        from: u64,
        to: Option<u64>,
    ) -> Result<Box<dyn Source + Send + '_>, SourceError> {
        let execution = self.execution(from);
        let end = to.unwrap_or(u64::MAX);
        if let Some(wanted) = &execution.wanted {
            // It waits for this and nothing else.
            let _ = wanted.send((from, end));
        }
        let start = (from == 0).then(|| initialisation(&self.program.memory));
        let part = Part {
            program: self,
            execution: Some(execution),
            start,
            from,
            end,
        };
        Ok(match self.sparsity {
            1 => Box::new(part),
            sparsity => Box::new(Sparse::new(part, sparsity)),
        })
    }
}

/// A part of a program's events.
struct Part<'a> {
    program: &'a DivisibleProgram,
    /// The run that makes them, until the last has been read.
    execution: Option<Execution>,
    start: Option<Batch>,
    from: u64,
    end: u64,
}

impl Source for Part<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        if let Some(start) = self.start.take() {
            *batch = start;
            return Ok(true);
        }
        batch.clear();
        let Some(execution) = &mut self.execution else {
            return Ok(false);
        };
        if execution.at == self.end {
            self.program.waiting().extend(self.execution.take());
            return Ok(false);
        }
        let received = execution.batches.as_ref().and_then(|from| from.recv().ok());
        let Some(next) = received else {
            // The program has ended.
            self.execution = None;
            return Ok(false);
        };
        let used = std::mem::replace(batch, next);
        let _ = execution.used.send(used);
        if self.from > 0 {
            // Events left out before a part happen in others.
            let left_out = |control: &Control| matches!(control, Control::Skipped { .. });
            batch.controls.retain(|entry| !left_out(&entry.1));
        }
        if !batch.addr.is_empty() {
            execution.at = execution.at.max(self.from) + batch.len() as u64;
        }
        Ok(true)
    }

    fn remaining(&self) -> Option<u64> {
        let at = (self.execution.as_ref()).map_or(self.end, |run| run.at.max(self.from));
        Some(self.end.min(self.program.accesses).saturating_sub(at))
    }
}

#[cfg(test)]
mod tests {
    use crate::{ALL, Workload};
    use pagelab_events::{Access, Batch, Control, Source};

    type Events = (Vec<Access>, Vec<(usize, Control)>);

    /// All that a source says, but how long a thread runs, and where dependences are cut.
    fn read(source: &mut dyn Source, (accesses, controls): &mut Events) {
        let mut batch = Batch::default();
        while source.next_batch(&mut batch).unwrap() {
            for &(at, control) in &batch.controls {
                if !matches!(control, Control::Thread { .. }) {
                    controls.push((accesses.len() + at as usize, control));
                }
            }
            accesses.extend((0..batch.len()).map(|at| batch.access(at)));
        }
    }

    /// Parts of a program, read in any order and several at once, are the program.
    #[test]
    fn parts_add_up() {
        let given = |text: &[(&str, &str)]| -> Vec<(String, String)> {
            let pairs = text.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            pairs.collect()
        };
        for (name, parameters) in [
            (
                "random-updates",
                given(&[("footprint", "64KiB"), ("updates", "7000")]),
            ),
            (
                "bfs",
                given(&[("footprint", "1MiB"), ("windows", "0"), ("sparsity", "3")]),
            ),
        ] {
            let workload = Workload::find(name).unwrap();
            let mut whole = Events::default();
            read(&mut *workload.start(&parameters).unwrap(), &mut whole);
            let divisible = workload.divide(&parameters).unwrap().unwrap();
            let all = divisible.accesses();
            assert_eq!(all, whole.0.len() as u64, "{name}");
            let cuts = [0, all / 3, all / 3 + 1, all / 2, all];
            let mut parts: Vec<Events> = Vec::new();
            for pair in cuts.windows(2) {
                let mut part = Events::default();
                let to = (pair[1] < all).then_some(pair[1]);
                // One that is given up early is in nobody's way.
                let mut given_up = divisible.interval(pair[0], to).unwrap();
                given_up.next_batch(&mut Batch::default()).unwrap();
                let mut source = divisible.interval(pair[0], to).unwrap();
                drop(given_up);
                read(&mut *source, &mut part);
                parts.push(part);
            }
            let mut together = Events::default();
            for (part, from) in parts.into_iter().zip(cuts) {
                let count = together.0.len();
                assert_eq!(count as u64, from, "{name}");
                let controls = part.1.into_iter();
                together
                    .1
                    .extend(controls.map(|(at, event)| (at + count, event)));
                let reaches = |number: usize| number < 1 << 31;
                for (number, mut access) in part.0.into_iter().enumerate() {
                    let of_whole = whole.0[count + number];
                    assert!(access.dep == of_whole.dep || access.dep == 0 && reaches(number));
                    access.dep = of_whole.dep;
                    together.0.push(access);
                }
            }
            assert_eq!(together.0, whole.0, "{name}");
            assert_eq!(together.1, whole.1, "{name}");
        }
    }

    #[test]
    fn what_is_sampled_is_not_divided() {
        let given = [("windows".to_owned(), "5".to_owned())];
        for workload in ALL.iter().filter(|w| w.name == "random-updates") {
            assert!(workload.divide(&given).unwrap().is_none());
        }
    }
}
