//! Ends of recordings: as the program's, and what is said when something is wrong.

mod common;

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Program, assemble, build, emulator, run, words};
use pagelab_events::{Batch, Control, Source, TraceReader};
use pagelab_recorder::{Ended, RecordError, Request, Sink, Window, record, record_into};

const STATIC: [&str; 2] = ["-static", "-O1"];

fn signals(word: &str) -> Request {
    let mut request = build("signals.c", &STATIC).request();
    request.arguments = vec![word.into()];
    request
}

/// The error of a recording that does not start.
fn refused(request: &Request) -> String {
    record_into(request, Vec::new(), &mut |_| ControlFlow::Continue(()))
        .map(|_| ())
        .expect_err("it must not be recorded")
        .to_string()
}

fn request(program: &str) -> Request {
    Request {
        program: program.into(),
        qemu: emulator(),
        words: words(),
        ..Request::default()
    }
}

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn a_handled_fault_does_not_disturb_the_recording() {
    let request = signals("none");
    let recorded = run(&request);
    assert_eq!(recorded.outcome.ended, Ended::Status(41));
    // Instructions after the faulting load in its block have not happened.
    let symbols = build("signals.c", &STATIC).symbols();
    let touched = |name: &str, at: u64| {
        recorded
            .accesses()
            .filter(|access| access.addr == symbols[name] + at)
            .count()
    };
    assert_eq!(touched("before", 0), 1);
    assert_eq!(touched("before", 8), 0);
    assert_eq!(touched("after", 0), 0);
}

#[test]
fn attributes_of_files_are_asked_of_the_kernel() {
    let recorded = build("attributes.c", &STATIC).record();
    assert_eq!(recorded.outcome.ended, Ended::Status(0));
}

#[test]
fn signals_and_statuses_are_the_programs() {
    assert_eq!(run(&signals("usr1")).outcome.ended, Ended::Status(42));
    let killed = run(&signals("kill"));
    assert_eq!(killed.outcome.ended, Ended::Signal(libc::SIGKILL));
    let status = 128 + libc::SIGKILL;
    assert_eq!(killed.controls(0).last(), Some(&Control::Exit { status }));
}

/// The recorder as a process of its own, its program waiting for a signal.
fn waiting(output: &Path) -> Child {
    let program = build("signals.c", &STATIC).path;
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagelab-record"));
    let words = words().map(|path| format!("--words={}", path.display()));
    command
        .args(words)
        .arg(output)
        .arg(program)
        .arg("wait")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Tests that a shell runs in the background start with SIGINT ignored, which is inherited.
    // SAFETY: signal() may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        })
    };
    let mut child = command.spawn().expect("the recorder starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("it speaks");
    assert_eq!(line, "ready\n");
    child
}

fn events_of(trace: &Path) -> u64 {
    let mut reader = TraceReader::open(trace).expect("it is a trace");
    let mut batch = Batch::default();
    let mut events = 0;
    while reader.next_batch(&mut batch).expect("it can be read") {
        events += (batch.len() + batch.controls.len()) as u64;
    }
    events
}

#[test]
fn a_signal_to_the_recorder_reaches_the_program_and_the_trace_ends_well() {
    let trace = temporary("interrupted.trace");
    let mut child = waiting(&trace);
    // SAFETY: the child runs and has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    assert_eq!(child.wait().expect("it ends").code(), Some(42));
    assert!(events_of(&trace) > 1000);
}

#[test]
fn the_program_dies_with_a_recorder_that_is_killed() {
    let trace = temporary("killed.trace");
    let mut child = waiting(&trace);
    child.kill().expect("it can be killed");
    assert_eq!(child.wait().expect("it ends").signal(), Some(libc::SIGKILL));
    // The program, which waits for a signal, inherited this pipe: it closes when the program ends.
    let mut said = String::new();
    child
        .stderr
        .take()
        .expect("a pipe")
        .read_to_string(&mut said)
        .expect("it ends");
    assert_eq!(said, "");
}

#[test]
fn stopping_ends_the_program() {
    let request = signals("wait");
    let (outcome, _) =
        record_into(&request, Vec::new(), &mut |_| ControlFlow::Break(())).expect("it records");
    assert_eq!(outcome.ended, Ended::Signal(libc::SIGTERM));
    assert_eq!(outcome.incomplete, None);
}

/// A sink that is full after some batches.
struct Full(usize);

impl Sink for Full {
    fn write(&mut self, _batch: &Batch) -> io::Result<()> {
        self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let mut request = request("sh");
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 6";
    request.arguments = vec!["-c".into(), script.into()];
    let (outcome, _) =
        record_into(&request, Full(20), &mut |_| ControlFlow::Continue(())).expect("it records");
    assert_eq!(outcome.ended, Ended::Status(6));
    let why = outcome.incomplete.expect("it is incomplete");
    assert!(why.contains("no storage space"), "{why}");
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_program_starts() {
    let program = assemble("plain.s");
    for output in ["/nonexistent/directory/trace", "/dev/full"] {
        let error = record(&program.request(), Path::new(output), &mut |_| {
            ControlFlow::Continue(())
        })
        .expect_err("it must not be recorded");
        assert!(matches!(error, RecordError::Output { .. }), "{error}");
        assert!(error.to_string().contains(output), "{error}");
    }
}

/// A program whose interpreter there is not.
fn without_interpreter() -> PathBuf {
    let mut file = fs::read(build("work.c", &["-O2"]).path).expect("a program");
    let interpreter = b"/lib64/ld-linux-x86-64.so.2";
    let at = (0..file.len()).find(|&at| file[at..].starts_with(interpreter));
    file[at.expect("dynamically linked") + 1] = b'x';
    let path = temporary("no-interpreter");
    fs::write(&path, file).expect("it can be written");
    assert!(Command::new("chmod").arg("+x").arg(&path).status().is_ok());
    path
}

#[test]
fn programs_that_cannot_be_recorded_are_refused_with_a_reason() {
    let other = |name: &str, class: u8, machine: u8| {
        let mut file = fs::read(assemble("plain.s").path).expect("a program");
        (file[4], file[18]) = (class, machine);
        let path = temporary(name);
        fs::write(&path, file).expect("it can be written");
        assert!(Command::new("chmod").arg("+x").arg(&path).status().is_ok());
        refused(&request(&path.to_string_lossy()))
    };
    let text = temporary("plain-text");
    fs::write(&text, "hello").expect("it can be written");
    let text = text.to_string_lossy().into_owned();
    let interpreter = without_interpreter().to_string_lossy().into_owned();
    for (error, part) in [
        (refused(&request("no-such-program")), "not found in PATH"),
        (refused(&request("/no/such/program")), "no such file"),
        (refused(&request("/")), "is a directory"),
        (refused(&request(&text)), "not executable"),
        (refused(&request(&interpreter)), "its interpreter /xib64/"),
        (other("program-32", 1, 3), "32-bit"),
        (other("program-arm", 2, 183), "AArch64"),
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_missing_qemu_or_plugin_or_one_that_does_not_fit_is_explained() {
    let program = assemble("plain.s");
    let error = |change: fn(&mut Request)| {
        let mut request = program.request();
        change(&mut request);
        refused(&request)
    };
    let missing = error(|request| request.qemu = Some("/nonexistent/qemu".into()));
    assert!(missing.contains("/nonexistent/qemu"), "{missing}");
    let plugin = error(|request| request.plugins = Some("/nonexistent".into()));
    assert!(plugin.contains("libpagelab_plugin.so"), "{plugin}");
    let another = error(|request| request.qemu = Some("/bin/echo".into()));
    assert!(another.contains("interfaces 1 to 5"), "{another}");
}

#[test]
fn a_program_that_qemu_cannot_load_is_an_incomplete_recording() {
    // Its first segment is to have more memory than there are addresses.
    let mut file = fs::read(assemble("plain.s").path).expect("a program");
    let first = (64..).step_by(56).find(|&entry| file[entry] == 1);
    let bytes = first.expect("a segment") + 40;
    file[bytes + 6] = 0x10;
    let path = temporary("too-large");
    fs::write(&path, file).expect("it can be written");
    assert!(Command::new("chmod").arg("+x").arg(&path).status().is_ok());
    let recorded = run(&request(&path.to_string_lossy()));
    assert_eq!(recorded.outcome.accesses, 0);
    assert!(recorded.outcome.incomplete.is_some());
}

#[test]
fn windows_keep_exactly_what_they_say() {
    let request = loops();
    let whole = run(&request).program_accesses();
    assert!(whole.len() > 100_000);
    let with = |window: Window| {
        let recorded = run(&Request {
            window,
            ..request.clone()
        });
        let skipped: u64 = recorded
            .controls(0)
            .iter()
            .map(|control| match control {
                Control::Skipped { accesses, .. } => *accesses,
                _ => 0,
            })
            .sum();
        (recorded.program_accesses(), skipped)
    };
    let addresses = |part: &[pagelab_events::Access]| -> Vec<u64> {
        part.iter().map(|access| access.addr).collect()
    };
    let (tail, skipped) = with(Window {
        skip: 90_000,
        ..Window::default()
    });
    assert_eq!(addresses(&tail), addresses(&whole[90_000..]));
    assert_eq!(skipped, 90_000);
    let (part, skipped) = with(Window {
        skip: 1000,
        limit: 5000,
        ..Window::default()
    });
    assert_eq!(addresses(&part), addresses(&whole[1000..6000]));
    assert_eq!(skipped as usize + 5000, whole.len());
    let (samples, _) = with(Window {
        period: 10_000,
        sample: 100,
        ..Window::default()
    });
    let expected: Vec<u64> = whole
        .chunks(10_000)
        .flat_map(|chunk| addresses(&chunk[..100.min(chunk.len())]))
        .collect();
    assert_eq!(addresses(&samples), expected);
    // Nothing depends on what was left out.
    assert!((0..).zip(&tail).all(|(at, access)| access.dep <= at));
}

/// A program of a hundred thousand accesses, each regular.
fn loops() -> Request {
    let program: Program = assemble("loops.s");
    program.request()
}

#[test]
fn an_output_that_is_the_program_or_a_pipe_is_refused_and_left_alone() {
    let program = temporary("its-own-output");
    let bytes = fs::read(assemble("plain.s").path).expect("a program");
    fs::write(&program, &bytes).expect("it can be written");
    let script = temporary("its-own-output.sh");
    let text = b"#!/bin/sh\nexit 3\n";
    fs::write(&script, text).expect("it can be written");
    let link = temporary("its-own-link");
    let pipe = temporary("output-pipe");
    // From an earlier run, or not there.
    for path in [&link, &pipe] {
        let _ = fs::remove_file(path);
    }
    fs::hard_link(&program, &link).expect("the same folder");
    assert!(Command::new("mkfifo").arg(&pipe).status().is_ok());
    for path in [&program, &script] {
        assert!(Command::new("chmod").arg("+x").arg(path).status().is_ok());
    }
    for (what, output, part) in [
        (&program, &program, "it is the program"),
        (&program, &link, "it is the program"),
        (&script, &script, "it is the program"),
        (&program, &pipe, "it is a pipe"),
    ] {
        let go_on = &mut |_| ControlFlow::Continue(());
        let error = record(&request(&what.to_string_lossy()), output, go_on);
        let error = error.expect_err("it must not be recorded").to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(fs::read(&program).expect("it is there") == bytes);
    assert!(fs::read(&script).expect("it is there") == text);
}

#[test]
fn limits_that_leave_no_room_are_named() {
    for (limit, part) in [
        ("ulimit -f 4000", "RLIMIT_FSIZE"),
        ("ulimit -v 1000000", "RLIMIT_AS"),
    ] {
        let recorder = env!("CARGO_BIN_EXE_pagelab-record");
        let script = format!("{limit}; exec {recorder} - /bin/true");
        let output = Command::new("sh").args(["-c", &script]).output();
        let output = output.expect("sh runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn processes_are_called_as_without_a_recorder() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/record/named.sh");
    let said = |command: &mut Command| {
        let output = command.arg(&script).output().expect("it runs");
        String::from_utf8(output.stdout).expect("it writes text")
    };
    let alone = said(&mut Command::new("env"));
    assert_eq!(alone.lines().next(), Some("named.sh"));
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_pagelab-record"));
    let words = words().map(|path| format!("--words={}", path.display()));
    recorder.args(["--quiet", "--follow-exec"]).args(words);
    assert_eq!(said(recorder.arg("-")), alone);
}

/// Nothing is said of numbers that no kernel has, and calls that fail as they may.
#[test]
fn what_the_emulator_refuses_is_told() {
    let source = "
    .globl _start
_start:
    mov     $425, %eax      # io_uring_setup(8, 0)
    mov     $8, %edi
    xor     %esi, %esi
    syscall
    mov     $184, %eax      # tuxcall
    syscall
    mov     $100000, %eax
    syscall
    mov     $3, %eax        # close(-1)
    mov     $-1, %edi
    syscall
    mov     $157, %eax      # prctl(PR_SET_MM, 0, 0, 0, 0)
    mov     $35, %edi
    xor     %edx, %edx
    xor     %r10d, %r10d
    xor     %r8d, %r8d
    syscall
    mov     $60, %eax
    xor     %edi, %edi
    syscall
";
    let recorded = common::assemble_text("refused", source).record();
    let refused: Vec<_> = (recorded.outcome.refused.iter())
        .map(|refused| (&*refused.call, refused.error, refused.times))
        .collect();
    let expected = [
        ("io_uring_setup", "ENOSYS", 1),
        ("prctl(PR_SET_MM)", "EINVAL", 1),
    ];
    assert_eq!(refused, expected);
}
