//! Building small programs and recording them.

#![allow(dead_code, reason = "each test file uses a part of this")]

pub mod processor;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pagelab_events::{Access, Batch, Control, Mispredicted};
use pagelab_recorder::{Outcome, PLACED_OTHERWISE, Request, record_into};

/// A program of tests/record, built.
pub struct Program {
    pub path: PathBuf,
    pub source: String,
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/record")
}

/// Builds `name` with gcc and these flags.
pub fn build(name: &str, flags: &[&str]) -> Program {
    let source = sources().join(name);
    let kind = format!("{name}{}", flags.concat()).replace(['.', '=', ','], "_");
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(kind);
    // Tests run side by side: none may see another's half-written file.
    let unfinished = path.with_extension(format!("{:?}", std::thread::current().id()));
    let status = Command::new("gcc")
        .args(flags)
        .arg(&source)
        .arg("-o")
        .arg(&unfinished)
        .status()
        .expect("gcc runs");
    assert!(status.success(), "gcc cannot build {name}");
    std::fs::rename(&unfinished, &path).expect("the program can be renamed");
    Program {
        path,
        source: std::fs::read_to_string(source).expect("the source can be read"),
    }
}

/// Builds an assembly program without a library.
pub fn assemble(name: &str) -> Program {
    build(name, &["-nostdlib", "-static"])
}

/// Builds an assembly program from its text.
pub fn assemble_text(name: &str, source: &str) -> Program {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let file = path.with_extension("s");
    std::fs::write(&file, source).expect("the source can be written");
    let status = Command::new("gcc")
        .args(["-nostdlib", "-static", "-o"])
        .args([&path, &file])
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "gcc cannot build {name}"
    );
    Program {
        path,
        source: source.to_owned(),
    }
}

impl Program {
    /// Addresses of its symbols, by nm.
    pub fn symbols(&self) -> HashMap<String, u64> {
        let output = Command::new("nm")
            .arg(&self.path)
            .output()
            .expect("nm runs");
        let text = String::from_utf8(output.stdout).expect("nm writes text");
        text.lines()
            .filter_map(|line| {
                let mut fields = line.split_whitespace();
                let address = u64::from_str_radix(fields.next()?, 16).ok()?;
                Some((fields.nth(1)?.to_owned(), address))
            })
            .collect()
    }

    /// A request to record it.
    pub fn request(&self) -> Request {
        Request {
            program: self.path.clone().into(),
            qemu: emulator(),
            words: words(),
            ..Request::default()
        }
    }

    /// Records it.
    pub fn record(&self) -> Recorded {
        run(&self.request())
    }
}

/// A recording.
pub struct Recorded {
    pub outcome: Outcome,
    pub events: Vec<Event>,
}

/// An event and who it is of: process and thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub process: u32,
    pub thread: u32,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Access(Access),
    Control(Control),
    /// A mispredicted branch before the next access.
    Mispredicted(Mispredicted),
}

/// The QEMU that the environment variable PAGELAB_TEST_QEMU names, if it is set: there need not be
/// another.
pub fn emulator() -> Option<PathBuf> {
    std::env::var_os("PAGELAB_TEST_QEMU").map(PathBuf::from)
}

/// File for the words of a recording if the environment variable PAGELAB_TEST_WORDS names a directory: all tests can
/// be run with traces that are made afterwards.
pub fn words() -> Option<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let directory = std::env::var_os("PAGELAB_TEST_WORDS")?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}-{number}.words", std::process::id());
    Some(Path::new(&directory).join(name))
}

/// Records, with that QEMU.
pub fn run(request: &Request) -> Recorded {
    let request = Request {
        qemu: emulator(),
        words: request.words.clone().or_else(words),
        ..request.clone()
    };
    let (mut outcome, batches) =
        record_into(&request, Vec::new(), &mut |_| ControlFlow::Continue(())).expect("it records");
    // It depends on the emulator that tests run with.
    outcome.notes.retain(|note| note != PLACED_OTHERWISE);
    let batches = batches.expect("the sink comes back");
    let mut events = Vec::new();
    for batch in &batches {
        flatten(batch, &mut events);
    }
    Recorded { outcome, events }
}

/// Result of this, unless it takes longer than anything that does not hang.
pub fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(what()));
    wait.recv_timeout(PATIENCE).expect("it ends")
}

/// Nothing takes so long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for a child, no longer than that: then it is killed.
pub fn ends_in_time(child: &mut Child) -> ExitStatus {
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it can be killed");
    panic!("it does not end");
}

fn flatten(batch: &Batch, events: &mut Vec<Event>) {
    let process = batch.process;
    let mut thread = None;
    let mut controls = batch.controls.iter().peekable();
    let mut mispredicted = batch.mispredicted.iter().peekable();
    for index in 0..=batch.len() {
        while let Some((_, control)) = controls.next_if(|(at, _)| *at as usize == index) {
            if let Control::Thread { thread: number } = control {
                thread = Some(*number);
            } else {
                events.push(Event {
                    process,
                    thread: thread.expect("a batch starts with its thread"),
                    what: What::Control(*control),
                });
            }
        }
        while let Some((_, branch)) = mispredicted.next_if(|(at, _)| *at as usize == index) {
            events.push(Event {
                process,
                thread: thread.expect("a batch starts with its thread"),
                what: What::Mispredicted(*branch),
            });
        }
        if index < batch.len() {
            events.push(Event {
                process,
                thread: thread.expect("a batch starts with its thread"),
                what: What::Access(batch.access(index)),
            });
        }
    }
}

impl Recorded {
    /// All accesses, in order.
    pub fn accesses(&self) -> impl Iterator<Item = Access> {
        self.events.iter().filter_map(|event| match event.what {
            What::Access(access) => Some(access),
            What::Control(_) | What::Mispredicted(_) => None,
        })
    }

    /// Accesses made by the program itself.
    pub fn program_accesses(&self) -> Vec<Access> {
        self.accesses()
            .filter(|access| !access.op.is_kernel())
            .collect()
    }

    /// Control events of a process.
    pub fn controls(&self, process: u32) -> Vec<Control> {
        self.events
            .iter()
            .filter(|event| event.process == process)
            .filter_map(|event| match event.what {
                What::Control(control) => Some(control),
                What::Access(_) | What::Mispredicted(_) => None,
            })
            .collect()
    }
}

/// "symbol", "symbol+8" or "symbol-8".
pub fn address(text: &str, symbols: &HashMap<String, u64>) -> u64 {
    let at = text.find(['+', '-']).unwrap_or(text.len());
    let (symbol, offset) = text.split_at(at);
    let offset: i64 = if offset.is_empty() {
        0
    } else {
        offset.parse().expect("an offset")
    };
    symbols[symbol].wrapping_add_signed(offset)
}
