//! Runs a program under QEMU's user-mode emulation and records what it does to memory.
//!
//! A plugin in QEMU reports into shared memory; [`record`] reads there, brings the events into
//! one order and writes them as a trace. docs/record.md describes what is recorded and how exact it is.

#![allow(unexpected_cfgs, reason = "fuzz/run.sh sets `fuzzing`")]

mod afterwards;
mod allocations;
mod branches;
mod chains;
mod code;
mod controls;
mod destination;
mod elf;
mod files;
mod following;
#[cfg(test)]
mod handed_over;
mod in_order;
mod jitdump;
mod joined;
mod kernel;
mod launch;
mod left_out;
mod loads;
mod mapped;
mod maps;
mod memory_map;
mod output;
mod perf_map;
mod place;
mod plan;
mod position;
mod predictor;
mod process;
mod processor;
mod program;
mod programs;
mod qemu;
mod reconvergence;
mod recording;
mod refusals;
mod room;
mod shared;
mod signals;
mod thread;
mod touches;
mod window;
mod words;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub use loads::MAX_DEP;
pub use output::Sink;
use pagelab_events::{Batch, Metadata, TraceWriter};
use pagelab_recorder_wire::elf::Program;
pub use processor::Processor;
pub use qemu::{Emulator, Origin, PLACED_OTHERWISE, emulator};
pub use refusals::Refused;
pub use window::Window;

/// Bytes of a page on x86-64.
const PAGE: u64 = 4096;

/// A recording that is asked for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The program: a path, or a name to be found in PATH.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables to add to its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables of ours that it is not to have.
    pub without: Vec<OsString>,
    /// Part of its execution.
    pub window: Window,
    /// Programs that it starts (by execve) are recorded, too. Forked children always are.
    pub follow_exec: bool,
    /// QEMU; [`emulator`] finds it otherwise.
    pub qemu: Option<PathBuf>,
    /// The QEMU that comes with pagelab, preferred to the one in PATH.
    pub bundled: Option<PathBuf>,
    /// The processor that QEMU emulates, as its `-cpu` option understands it; its default otherwise.
    pub cpu: Option<String>,
    /// Folder of libpagelab_plugin.so; beside the running program otherwise.
    pub plugins: Option<PathBuf>,
    /// The preloaded library that tells of calls of allocators, if these are recorded: needs `with_code`, and dynamic
    /// linking.
    pub allocations: Option<PathBuf>,
    /// Keep the code as well: which blocks are executed, and which instruction makes each access.
    pub with_code: bool,
    /// Have every access reported by QEMU, none worked out from others: slower, and the same
    /// events. For tests.
    pub verbatim: bool,
    /// Write what QEMU reports to this file while the program runs, and make the trace of it afterwards:
    /// the program waits for less.
    pub words: Option<PathBuf>,
    /// Keep that file when the trace has been made.
    pub keep_words: bool,
}

/// Progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Accesses recorded.
    pub accesses: u64,
    /// Instructions executed in what was recorded.
    pub instructions: u64,
    /// Seconds since the program was started.
    pub seconds: f64,
    /// Stage that is going on.
    pub stage: Stage,
}

/// Stage of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The program runs, and what it does is written to the trace.
    #[default]
    Recording,
    /// The program runs, and so many words that it reports were written.
    Words(u64),
    /// The trace is made of its words: of so many bytes of them, so many were read.
    Making {
        /// Bytes read.
        read: u64,
        /// Bytes there are.
        of: u64,
    },
}

/// End of a recorded program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this exit status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// It is not known: the recorder was killed, or could write no more.
    Unknown,
}

impl Ended {
    /// The exit status, or 128 plus the signal: what a shell says. 0 if it is not known.
    pub fn code(self) -> i32 {
        match self {
            Ended::Status(status) => status,
            Ended::Signal(signal) => 128 + signal,
            Ended::Unknown => 0,
        }
    }
}

/// Outcome of a recording.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// End of the program.
    pub ended: Ended,
    /// The signal to the recorder that ended the program, or that the program obeyed by ending.
    pub ended_by: Option<i32>,
    /// Accesses recorded.
    pub accesses: u64,
    /// Instructions executed in what was recorded.
    pub instructions: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Seconds from the program's start until everything was written.
    pub seconds: f64,
    /// Seconds until the program had ended, if the trace was made afterwards.
    pub running: Option<f64>,
    /// Processes recorded.
    pub processes: u64,
    /// Threads recorded, over all processes.
    pub threads: u64,
    /// Programs recorded: the first one, and those that were started and followed.
    pub programs: u64,
    /// Programs that recorded ones have started and that were not recorded, by path: how often.
    pub unrecorded: BTreeMap<String, u64>,
    /// System calls that the emulator refused though a kernel may have them.
    pub refused: Vec<Refused>,
    /// Reason for which the recording ends before the program does, if so.
    pub incomplete: Option<String>,
    /// Places where the program called allocators, if that was recorded.
    pub allocation_sites: usize,
    /// Further notes for the user.
    pub notes: Vec<String>,
    /// The words that the trace is made of, if they were kept.
    pub words: Option<PathBuf>,
}

impl Outcome {
    /// The program has run, and nothing is recorded of it.
    fn without_trace(why: &RecordError) -> Outcome {
        Outcome {
            ended: Ended::Unknown,
            ended_by: None,
            accesses: 0,
            instructions: 0,
            bytes: 0,
            seconds: 0.0,
            running: None,
            processes: 0,
            threads: 0,
            programs: 0,
            unrecorded: BTreeMap::new(),
            refused: Vec::new(),
            incomplete: Some(why.to_string()),
            allocation_sites: 0,
            notes: Vec::new(),
            words: None,
        }
    }
}

/// Reason for which nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is no QEMU that loads the plugin.
    #[error(
        "no emulator to record with: {}; get one with `pip install pagelab-qemu`, or `make qemu` in a checkout",
        reasons(.passed_over)
    )]
    NoQemu {
        /// Faults of those that are there.
        passed_over: Vec<String>,
    },
    /// QEMU cannot be run.
    #[error("cannot run {path}: {error}")]
    Qemu {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
    /// QEMU and the plugin do not fit.
    #[error(
        "{path} ({version}) cannot load the recorder's plugin, which speaks QEMU's plugin interfaces 1 to 5 (QEMU 6.0 to 10.2): {said}"
    )]
    Interface {
        /// The file.
        path: PathBuf,
        /// QEMU's name of itself.
        version: String,
        /// Words of QEMU.
        said: String,
    },
    /// The plugin is missing.
    #[error("the recorder's plugin libpagelab_plugin.so is not in {}: build it with `cargo build --release -p pagelab-recorder-plugin`", list(.directories))]
    NoPlugin {
        /// Folders that were searched.
        directories: Vec<PathBuf>,
    },
    /// The program cannot be recorded.
    #[error("cannot record {program}: {what}")]
    Program {
        /// The program.
        program: String,
        /// Reason.
        what: String,
    },
    /// The output cannot be created.
    #[error("cannot write {path}: {error}")]
    Output {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
    /// No trace can be made of words.
    #[error("cannot make a trace of {path}: {error}")]
    Words {
        /// The file.
        path: PathBuf,
        /// Reason.
        #[source]
        error: io::Error,
    },
    /// Something that should not fail did.
    #[error("cannot {what}: {error}")]
    System {
        /// Attempt that failed.
        what: &'static str,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
}

fn reasons(passed_over: &[String]) -> String {
    if passed_over.is_empty() {
        return "pagelab-qemu is not installed, and qemu-x86_64 is not in PATH".to_owned();
    }
    passed_over.join("; ")
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(" or ")
}

/// Runs a program and records it into a trace file.
///
/// Returns when the program and every process it has forked have ended. The program's standard
/// streams are those of the caller. `progress` is called about ten times a second; when it
/// breaks, the program is ended and the trace ends there.
///
/// # Errors
/// When the program was not started. Whatever goes wrong later is told in [`Outcome::incomplete`],
/// and the trace is readable up to there.
pub fn record(
    request: &Request,
    output: &Path,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, RecordError> {
    let program = program::resolve(&request.program)?;
    let qemu = find_emulator(request)?;
    let about = about(request, &qemu, &program);
    for file in request.words.iter().map(PathBuf::as_path).chain([output]) {
        destination::check_beside(file, &program)?;
    }
    let there = output.exists();
    let recorded = FileSink::create(output, &about)
        .and_then(|sink| run(request, &qemu, &program, about, sink, progress));
    if recorded.is_err() && !there {
        // The error says more than a trace of nothing.
        let _ = std::fs::remove_file(output);
    }
    let (mut outcome, _) = recorded?;
    match output.metadata() {
        // Also when writing failed on the way.
        Ok(file) => outcome.bytes = file.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let gone = format!(
                "{} was removed meanwhile: the trace is gone",
                output.display()
            );
            outcome.notes.push(gone);
        }
        Err(_) => {}
    }
    Ok(outcome)
}

/// Makes the trace of words that [`record`] has left behind: because it was to keep them, or was interrupted. They are
/// removed when all of them are in the trace, unless `keep`.
///
/// # Errors
/// When no trace was made. Whatever goes wrong later is told in [`Outcome::incomplete`],
/// and the trace is readable up to there.
pub fn finish(
    words: &Path,
    output: &Path,
    keep: bool,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, RecordError> {
    let began = Instant::now();
    destination::check(output)?;
    let read = afterwards::Words::open(words)?;
    let sink = FileSink::create(output, &read.head.about)?;
    let (outcome, _) = read.make(sink, Ok(()), began, progress)?;
    let mut outcome = kept(outcome, words, keep);
    if let Ok(file) = output.metadata() {
        outcome.bytes = file.len();
    }
    Ok(outcome)
}

/// Makes the events of words, from anywhere, and hands them to `sink`. As [`finish`] otherwise, and removes nothing.
///
/// # Errors
/// As [`finish`].
pub fn finish_into<S: Sink + 'static>(
    words: impl Read + Send,
    sink: S,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Outcome, Option<S>), RecordError> {
    let began = Instant::now();
    afterwards::Words::new(words, Path::new("words"), 0)?.make(sink, Ok(()), began, progress)
}

/// Records; says where the recording is unlike a native run for the emulator's sake.
fn run<S: Sink + 'static>(
    request: &Request,
    qemu: &Emulator,
    program: &Program,
    about: Vec<(String, String)>,
    sink: S,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Outcome, Option<S>), RecordError> {
    let (mut outcome, sink) = run_to_end(request, qemu, program, about, sink, progress)?;
    if qemu.places_as_linux() {
        // It is built here, and has vfork, too.
        outcome
            .refused
            .retain(|refused| refused.error != refusals::AS_FORK);
    } else {
        outcome.notes.push(PLACED_OTHERWISE.to_owned());
    }
    if request.allocations.is_some() && outcome.allocation_sites == 0 {
        let none = "no allocation was told: the program is linked statically, or has an allocator of its own";
        outcome.notes.push(none.to_owned());
    }
    Ok((outcome, sink))
}

/// Records, by way of words in a file if that is wanted.
fn run_to_end<S: Sink + 'static>(
    request: &Request,
    qemu: &Emulator,
    program: &Program,
    about: Vec<(String, String)>,
    sink: S,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Outcome, Option<S>), RecordError> {
    let Some(words) = &request.words else {
        return launch::run(request, qemu, program, sink, progress);
    };
    let mut stopped = false;
    let drained = launch::drain(request, qemu, program, words, about, &mut |now| {
        let answer = progress(now);
        stopped |= answer.is_break();
        answer
    })?;
    let written = drained.written.map(|_| ());
    // A program that was ended leaves a trace of what it has done so far.
    let progress = &mut |now| match progress(now) {
        ControlFlow::Break(()) if !stopped => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let made = afterwards::Words::of(drained.words, words)
        .and_then(|read| read.make(sink, written, drained.began, progress));
    // The program has run, and how it ended is to be told whatever becomes of its words.
    let (mut outcome, sink) = made.unwrap_or_else(|error| (Outcome::without_trace(&error), None));
    outcome.ended = drained.ended;
    outcome.ended_by = drained.ended_by;
    outcome.running = Some(drained.seconds);
    outcome.seconds = drained.began.elapsed().as_secs_f64();
    Ok((kept(outcome, words, request.keep_words), sink))
}

/// Removes words that are all in the trace, unless they are to be kept.
fn kept(mut outcome: Outcome, words: &Path, keep: bool) -> Outcome {
    let path = words.display();
    if keep || outcome.incomplete.is_some() {
        if words.exists() {
            outcome.words = Some(words.to_owned());
        } else {
            let gone = format!("{path} was removed meanwhile: its words are gone");
            outcome.notes.push(gone);
        }
    } else if let Err(error) = std::fs::remove_file(words)
        && error.kind() != io::ErrorKind::NotFound
    {
        outcome
            .notes
            .push(format!("{path} was not removed: {error}"));
    }
    outcome
}

/// Statements of a trace about itself.
fn about(request: &Request, qemu: &Emulator, program: &Program) -> Vec<(String, String)> {
    let cpu = request.cpu.as_deref().unwrap_or("QEMU's default");
    let about = [
        (Metadata::PROGRAM, program.path.display().to_string()),
        (Metadata::QEMU, qemu.version.clone()),
        (Metadata::CPU, cpu.to_owned()),
        (Metadata::PAGE_SIZE, PAGE.to_string()),
    ];
    about.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Runs a program and hands what it does to `sink`, batch by batch, on a thread of its own. As
/// [`record`] otherwise; returns the sink as well, unless it panicked.
///
/// # Errors
/// As [`record`].
pub fn record_into<S: Sink + 'static>(
    request: &Request,
    sink: S,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Outcome, Option<S>), RecordError> {
    let program = program::resolve(&request.program)?;
    let qemu = find_emulator(request)?;
    let about = about(request, &qemu, &program);
    run(request, &qemu, &program, about, sink, progress)
}

fn find_emulator(request: &Request) -> Result<Emulator, RecordError> {
    let [qemu, bundled, plugins] =
        [&request.qemu, &request.bundled, &request.plugins].map(Option::as_deref);
    emulator(qemu, bundled, plugins)
}

/// A trace file; `None` once it has been ended or given up.
struct FileSink(Option<TraceWriter<File>>);

impl FileSink {
    fn create(output: &Path, about: &[(String, String)]) -> Result<FileSink, RecordError> {
        let with = |metadata: Metadata, (name, value): &(String, String)| {
            metadata.with(name.as_str(), value.as_str())
        };
        let metadata = about.iter().fold(Metadata::new(), with);
        let writer = TraceWriter::create(output, &metadata);
        let writer = writer.map_err(|error| RecordError::Output {
            path: output.to_owned(),
            error,
        })?;
        Ok(FileSink(Some(writer)))
    }
}

impl Sink for FileSink {
    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let Some(writer) = &mut self.0 else {
            return Ok(());
        };
        let written = writer.write(batch);
        if written.is_err()
            && let Some(writer) = self.0.take()
        {
            // A device or a pipe cannot be cut back; the first error is the one to tell.
            let _ = writer.cut_back();
        }
        written
    }

    fn finish(&mut self) -> io::Result<u64> {
        let Some(writer) = self.0.take() else {
            return Ok(0);
        };
        let mut file = writer.finish()?;
        file.stream_position()
    }
}
