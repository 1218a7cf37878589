//! Starting the program under QEMU, and recording until it and its children have ended.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use pagelab_recorder_wire::elf::Program;
use pagelab_recorder_wire::option::{self, HandedOn};
use pagelab_recorder_wire::region::{Abandoned, Header, State};

use crate::following::Following;
use crate::output::{Output, Sink};
use crate::qemu::{self, Emulator};
use crate::recording::Recording;
use crate::shared::{HeldLife, Shared, fresh};
use crate::signals::{self, Forwarding};
use crate::window::Windows;
use crate::words::{Drain, FrameWriter, Head, Limit};
use crate::{Ended, Outcome, Progress, RecordError, Request};

/// Time to sleep when there is nothing to read. The largest ring holds some milliseconds of a fast
/// program's accesses.
const NAP: Duration = Duration::from_micros(200);

/// Time after which to look whether processes have ended, and to tell of progress.
const TICK: Duration = Duration::from_millis(100);

/// Time that a program may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// Records `program` into `sink`.
pub(crate) fn run<S: Sink + 'static>(
    request: &Request,
    qemu: &Emulator,
    program: &Program,
    sink: S,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Outcome, Option<S>), RecordError> {
    let windows = Windows::new(request.window, qemu.can_translate_anew());
    let mut started = start(request, qemu, program, &windows)?;
    let output = Output::new(sink, request.with_code);
    let (pid, began) = (started.child.id(), started.at);
    let shared = started.shared.clone();
    let mut recording = Recording::new(&shared, windows, output, pid, began);
    recording.watch();
    let (status, stopped) = started.follow(&mut recording, qemu, progress)?;
    let (mut outcome, sink) = told(recording, ended(status), stopped, started.began);
    outcome.ended_by = started.ended_by;
    Ok((outcome, sink))
}

/// Runs `program` and writes its words to a file, with what they are of; what became of it, and of its words.
pub(crate) fn drain(
    request: &Request,
    qemu: &Emulator,
    program: &Program,
    path: &Path,
    about: Vec<(String, String)>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Drained, RecordError> {
    let unwritten = |error| RecordError::Output {
        path: path.to_owned(),
        error,
    };
    let mut head = Head {
        about,
        window: request.window,
        with_code: request.with_code,
        verbatim: request.verbatim,
        pid: 0,
        began: SystemTime::now(),
    };
    // A place where nothing can be written is told before the program runs.
    let file = (File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true))
    .open(path)
    .map_err(unwritten)?;
    // They are read by it, whatever becomes of the path.
    let words = file.try_clone().map_err(unwritten)?;
    FrameWriter::try_out(&file, &head.bytes()).map_err(unwritten)?;
    let windows = Windows::new(request.window, qemu.can_translate_anew());
    let mut started = start(request, qemu, program, &windows)?;
    head.pid = started.child.id();
    head.began = started.at;
    let shared = started.shared.clone();
    let reporting = shared.reporting();
    let limit = Limit::of(&request.window, reporting).filter(|_| qemu.can_translate_anew());
    let mut drain = match FrameWriter::new(file, &head.bytes()) {
        Ok(writer) => Drain::new(&shared, writer, head.pid, limit),
        Err(error) => {
            // It has hardly begun.
            started
                .child
                .kill()
                .and_then(|()| started.child.wait())
                .map_err(unwritten)?;
            return Err(unwritten(error));
        }
    };
    let (status, stopped) = started.follow(&mut drain, qemu, progress)?;
    let ended = ended(status);
    let written = drain.finish(ended);
    Ok(Drained {
        ended,
        ended_by: started.ended_by,
        words,
        began: started.began,
        seconds: started.began.elapsed().as_secs_f64(),
        // Once writing has failed nothing more can be written: the first error counts.
        written: stopped.and(written),
    })
}

/// A program whose words were written.
pub(crate) struct Drained {
    pub(crate) ended: Ended,
    pub(crate) ended_by: Option<i32>,
    /// File to which they were written.
    pub(crate) words: File,
    pub(crate) began: Instant,
    /// From its start to its end.
    pub(crate) seconds: f64,
    /// The bytes of its words, or why there are not all.
    pub(crate) written: io::Result<u64>,
}

/// Ends a recording, and says what was recorded; `stopped` is why it is not whole.
pub(crate) fn told<S: Sink + 'static>(
    recording: Recording<'_, S>,
    ended: Ended,
    stopped: io::Result<()>,
    began: Instant,
) -> (Outcome, Option<S>) {
    let counts = (
        recording.accesses(),
        recording.instructions(),
        recording.processes(),
        recording.threads(),
    );
    let programs = 1 + recording.programs().followed();
    let unrecorded = recording.programs().unrecorded();
    let refused = recording.refusals().all();
    let allocation_sites = recording.allocation_sites();
    let (notes, output) = recording.finish();
    let (sink, written) = output.finish();
    let bytes = written.as_ref().copied().unwrap_or(0);
    let mut incomplete = stopped.and(written).err();
    // A signal may have ended it first.
    let exited = matches!(ended, Ended::Status(_));
    if counts.3 == 0 && exited && incomplete.is_none() {
        incomplete = Some(io::Error::other(
            "QEMU did not run the program, and said why",
        ));
    }
    let outcome = Outcome {
        ended,
        ended_by: None,
        accesses: counts.0,
        instructions: counts.1,
        bytes,
        seconds: began.elapsed().as_secs_f64(),
        running: None,
        processes: counts.2,
        threads: counts.3,
        programs,
        unrecorded,
        refused,
        incomplete: incomplete.map(|error| error.to_string()),
        allocation_sites,
        notes,
        words: None,
    };
    (outcome, sink)
}

/// A program that was started.
struct Started {
    _life: HeldLife,
    shared: Rc<Shared>,
    child: Child,
    began: Instant,
    at: SystemTime,
    /// As in [`Outcome`], once it has ended.
    ended_by: Option<i32>,
}

fn start(
    request: &Request,
    qemu: &Emulator,
    program: &Program,
    windows: &Windows,
) -> Result<Started, RecordError> {
    let system = |what| move |error| RecordError::System { what, error };
    let shared = Shared::new(|header| set_up(header, request, windows));
    let shared = Rc::new(shared.map_err(system("make shared memory"))?);
    let life = shared.begin_life().map_err(system("make a robust mutex"))?;
    shared
        .ring(0)
        .state
        .0
        .store(State::Claimed as u32, Ordering::Release);
    let at = SystemTime::now();
    let child = command(request, qemu, program, &shared)
        .spawn()
        .map_err(|error| RecordError::Qemu {
            path: qemu.path.clone(),
            error,
        })?;
    Ok(Started {
        _life: life,
        shared,
        child,
        began: Instant::now(),
        at,
        ended_by: None,
    })
}

impl Started {
    /// Follows the program to its end; what became of it, and why it was not followed so far.
    fn follow(
        &mut self,
        following: &mut impl Following,
        qemu: &Emulator,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(ExitStatus, io::Result<()>), RecordError> {
        let forwarding = Forwarding::to(&self.child);
        let (shared, child) = (&self.shared, &mut self.child);
        let stopped = follow(following, shared, child, self.began, progress);
        if stopped.is_err() {
            self.abandon(qemu);
        }
        let status = self.child.wait().map_err(|error| RecordError::System {
            what: "wait for the program",
            error,
        })?;
        drop(forwarding);
        self.ended_by = signals::ended_by();
        // Processes that are still there go on without a word.
        let stopped_reading = Abandoned::Stopped as u32;
        (self.shared.header().abandoned.0).store(stopped_reading, Ordering::Release);
        Ok((status, stopped))
    }

    /// Has the program go on unrecorded, and as fast as it can if QEMU may translate it anew.
    fn abandon(&self, qemu: &Emulator) {
        let header = self.shared.header();
        header.left.0.store(i64::MAX, Ordering::Release);
        if qemu.can_translate_anew() {
            header.reporting.0.store(0, Ordering::Release);
        }
        let stopped = Abandoned::Stopped as u32;
        header.abandoned.0.store(stopped, Ordering::Release);
        header.epoch.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn set_up(header: &mut Header, request: &Request, windows: &Windows) {
    *header = Header {
        follow_exec: u32::from(request.follow_exec),
        verbatim: u32::from(request.verbatim),
        ..fresh()
    };
    windows.set_up(header);
}

/// QEMU with the plugin and the program. Its standard streams are ours.
fn command(request: &Request, qemu: &Emulator, program: &Program, shared: &Shared) -> Command {
    let cpu = request.cpu.as_deref();
    let path = option::no_option(&program.path);
    let none = HandedOn::default();
    let called = Path::new(&request.program);
    let memory = shared.path();
    let option = option::recording(&qemu.plugin, &memory, none, 0, &path, called, cpu);
    let mut environment = request.environment.clone();
    environment.extend(preloaded(request));
    let mut command = qemu::command(&qemu.path, &environment);
    for name in &request.without {
        command.env_remove(name);
    }
    command.arg("-plugin").arg(option);
    if let Some(cpu) = cpu {
        command.arg("-cpu").arg(cpu);
    }
    command.arg("-0").arg(&program.arguments[0]);
    command.arg(&path);
    command.args(&program.arguments[1..]);
    command.args(&request.arguments);
    let recorder = std::process::id();
    let blocked = signals::blocked();
    // SAFETY: signal(), pthread_sigmask(), prctl(), getppid() and personality() are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            // Nobody could stop it any more. The thread that starts it also waits for it.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() as u32 != recorder {
                return Err(io::Error::other("the recorder has died"));
            }
            // Rust and Python programs ignore them, and do not know what was done about them before; what they start
            // should not. Other signals are as the recorder was started with them, which Command would change.
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut());
            // The same addresses each time, as far as the kernel allows it (not in some sandboxes).
            let personality = libc::personality(0xffff_ffff);
            libc::personality((personality | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong);
            Ok(())
        });
    }
    command
}

/// Variables that have the program load the library which tells of allocations, before others that it preloads.
fn preloaded(request: &Request) -> Vec<(OsString, OsString)> {
    const PRELOAD: &str = "LD_PRELOAD";
    let Some(library) = &request.allocations else {
        return Vec::new();
    };
    let set = request.environment.iter().rev();
    let before = set
        .filter(|(name, _)| name == PRELOAD)
        .map(|(_, value)| value.clone())
        .next()
        .or_else(|| std::env::var_os(PRELOAD));
    let mut value = library.clone().into_os_string();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        value.push(":");
        value.push(before);
    }
    vec![
        (PRELOAD.into(), value),
        ("PAGELAB_SITES".into(), "mark".into()),
    ]
}

/// Reads until every process has ended. When `progress` asks to stop, ends the program; when a
/// signal does that has come after the program's end, what it has left behind.
fn follow(
    recording: &mut impl Following,
    shared: &Shared,
    child: &mut Child,
    began: Instant,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut tick = Instant::now();
    let mut stopping = None;
    let mut asked = None;
    loop {
        let busy = recording.round()?;
        let ticked = tick.elapsed() > TICK;
        if ticked {
            tick = Instant::now();
            let progress = progress(Progress {
                seconds: began.elapsed().as_secs_f64(),
                ..recording.progress()
            });
            if progress.is_break() {
                stopping.get_or_insert_with(Instant::now);
            }
            signals::stop_with(child);
        }
        if busy && !ticked {
            continue;
        }
        let root = child.try_wait()?.map(|status| ended(status).code());
        match (root, stopping) {
            (Some(_), _) => Forwarding::stop(),
            (None, Some(since)) if ticked => end(child, since),
            (None, _) => {}
        }
        if let Some((signal, by_terminal)) = signals::asked() {
            pass_to_all(&recording.living(), shared, signal, by_terminal);
            asked.get_or_insert_with(Instant::now);
        }
        if recording.bury(root)? {
            // The last words may not have come.
            return shared.check_written();
        }
        let in_vain = asked.is_some_and(|since: Instant| since.elapsed() > GRACE);
        if root.is_some() && (stopping.is_some() || in_vain) {
            return Err(io::Error::other("stopped while children were running"));
        }
        if !busy {
            std::thread::sleep(NAP);
        }
    }
}

/// Sends a signal to these processes, but for those that the terminal has sent it to.
fn pass_to_all(processes: &[u32], shared: &Shared, signal: i32, by_terminal: bool) {
    for &process in processes.iter().filter(|&&pid| shared.is_mapped_by(pid)) {
        // SAFETY: these calls take and return numbers.
        unsafe {
            let process = process as i32;
            if !by_terminal || libc::getpgid(process) != libc::getpgrp() {
                libc::kill(process, signal);
            }
        }
    }
}

/// Asks the program to end, and makes it when it does not.
fn end(child: &Child, since: Instant) {
    let signal = if since.elapsed() < GRACE {
        libc::SIGTERM
    } else {
        libc::SIGKILL
    };
    // SAFETY: the child has not been waited for, so its number is its own.
    unsafe { libc::kill(child.id() as i32, signal) };
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Status(code),
        (None, signal) => Ended::Signal(signal.unwrap_or(0)),
    }
}
