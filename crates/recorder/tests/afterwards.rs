//! Traces that are made when the program has ended.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{assemble, build, run};
use pagelab_events::{Batch, Source, TraceReader};
use pagelab_recorder::{Ended, Outcome, Request, Stage, Window, finish, record, record_into};

const STATIC: [&str; 2] = ["-static", "-O1"];

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn finished(words: &Path, trace: &Path, keep: bool) -> Outcome {
    finish(words, trace, keep, &mut |_| ControlFlow::Continue(())).expect("it is made")
}

fn accesses_of(trace: &Path) -> u64 {
    let mut reader = TraceReader::open(trace).expect("it is a trace");
    let mut batch = Batch::default();
    let mut accesses = 0;
    while reader.next_batch(&mut batch).expect("it can be read") {
        accesses += batch.len() as u64;
    }
    accesses
}

/// The events of a program with one thread do not depend on when its words are read.
#[test]
fn a_program_is_recorded_as_it_is_at_once() {
    for (program, arguments) in [
        ("sh", vec!["-c", "ls / | sort; exit 3"]),
        // Its buffer would be by the memory that is free.
        ("sort", vec!["-S", "1M", "/etc/passwd"]),
    ] {
        let mut request = assemble("plain.s").request();
        request.program = program.into();
        request.arguments = arguments.into_iter().map(Into::into).collect();
        request.words = None;
        let at_once = run(&request);
        request.words = Some(temporary(&format!("{program}.words")));
        let afterwards = run(&request);
        assert_eq!(afterwards.outcome.ended, at_once.outcome.ended);
        assert_eq!(afterwards.outcome.processes, at_once.outcome.processes);
        assert_eq!(afterwards.outcome.incomplete, None);
        if at_once.outcome.processes == 1 {
            assert!(afterwards.events == at_once.events);
            assert_eq!(
                afterwards.outcome.instructions,
                at_once.outcome.instructions
            );
        }
        assert!(!request.words.expect("set above").exists());
    }
}

#[test]
fn what_was_kept_makes_the_same_trace_again() {
    let mut request = build("counters.c", &["-O2", "-pthread"]).request();
    let (trace, again) = (temporary("kept.trace"), temporary("again.trace"));
    let words = temporary("kept.words");
    request.words = Some(words.clone());
    request.keep_words = true;
    request.with_code = true;
    let (mut drained, mut made) = (0, (0, 0));
    let outcome = record(&request, &trace, &mut |progress| {
        match progress.stage {
            Stage::Words(words) => drained = words,
            Stage::Making { read, of } => made = (read, of),
            Stage::Recording => panic!("it is made afterwards"),
        }
        ControlFlow::Continue(())
    });
    let outcome = outcome.expect("it records");
    assert_eq!(outcome.incomplete, None);
    assert_eq!(outcome.words.as_deref(), Some(words.as_path()));
    assert!(outcome.threads > 1);
    assert!(made.0 <= made.1, "{drained} {made:?}");
    let second = finished(&words, &again, false);
    assert_eq!(
        (second.ended, second.accesses),
        (outcome.ended, outcome.accesses)
    );
    assert!(fs::read(&trace).expect("a trace") == fs::read(&again).expect("a trace"));
    assert!(!words.exists());
}

/// Accesses that are more than a program's first.
const MUCH: u64 = 100;

/// The recorder as a process of its own, killed while its program waits for a signal: words of much of it
/// are written.
fn killed(name: &str) -> (PathBuf, PathBuf) {
    let program = build("signals.c", &STATIC).path;
    let (trace, words) = (
        temporary(&format!("{name}.trace")),
        temporary(&format!("{name}.words")),
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_pagelab-record"))
        .arg(format!("--words={}", words.display()))
        .arg(&trace)
        .arg(program)
        .arg("wait")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the recorder starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("it speaks");
    // Frames come when they are full, or each second with what there is: the first may have little.
    let (copy, made) = (
        words.with_extension("copy"),
        trace.with_extension("copy.trace"),
    );
    let has_much = || {
        fs::copy(&words, &copy).is_ok()
            && finish(&copy, &made, true, &mut |_| ControlFlow::Continue(()))
                .is_ok_and(|outcome| outcome.accesses > MUCH)
    };
    while !has_much() {
        let ended = child.try_wait().expect("it is ours");
        assert_eq!(ended, None, "the recorder ended by itself");
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("it can be killed");
    assert_eq!(child.wait().expect("it ends").signal(), Some(libc::SIGKILL));
    (words, trace)
}

#[test]
fn what_a_recorder_that_was_killed_has_written_makes_a_trace() {
    let (words, trace) = killed("killed-recorder");
    let outcome = finished(&words, &trace, false);
    let why = outcome.incomplete.expect("the end is missing");
    assert!(
        why.contains("the words end before the program did"),
        "{why}"
    );
    assert!(outcome.accesses > MUCH);
    assert_eq!(accesses_of(&trace), outcome.accesses);
    // Nothing is removed that was not whole.
    assert!(words.exists());
}

#[test]
fn a_program_that_is_killed_is_recorded_to_its_end() {
    let mut request = build("signals.c", &STATIC).request();
    request.arguments = vec!["kill".into()];
    request.words = Some(temporary("killed-program.words"));
    let recorded = run(&request);
    assert_eq!(recorded.outcome.ended, Ended::Signal(libc::SIGKILL));
    assert_eq!(recorded.outcome.incomplete, None);
}

#[test]
fn a_trace_that_is_stopped_while_it_is_made_can_be_finished() {
    let mut request = build("work.c", &["-O2"]).request();
    let (words, trace) = (temporary("stopped.words"), temporary("stopped.trace"));
    request.words = Some(words.clone());
    request.keep_words = true;
    let (whole, _) =
        record_into(&request, Vec::new(), &mut |_| ControlFlow::Continue(())).expect("it records");
    // Asked to stop as soon as anything is asked: after a tick, if it takes so long.
    let stopped =
        finish(&words, &trace, false, &mut |_| ControlFlow::Break(())).expect("it begins");
    if stopped.incomplete.is_some() {
        assert!(words.exists());
        assert!(accesses_of(&trace) <= whole.accesses);
        finished(&words, &trace, false);
    }
    assert_eq!(accesses_of(&trace), whole.accesses);
    assert!(!words.exists());
}

#[test]
fn words_that_cannot_be_written_or_read_are_explained() {
    let mut request = assemble("plain.s").request();
    let refused = |request: &Request| {
        let nothing = &mut |_| ControlFlow::Continue(());
        let error = record_into(request, Vec::new(), nothing).map(|_| ());
        error.expect_err("it must not be recorded").to_string()
    };
    for words in ["/nonexistent/directory/words", "/dev/full"] {
        request.words = Some(words.into());
        assert!(refused(&request).contains(words));
    }
    let (words, trace) = (temporary("no.words"), temporary("no.trace"));
    for (bytes, why) in [
        (&b""[..], "no recorded words"),
        (b"pagelab\nnot words", "no recorded words"),
        (b"pgwords\n\x09\0\0\0", "another version"),
        (b"pgwords\n\x01\0\0\0HEAD", "another version"),
        (b"pgwords\n\x02\0\0\0HEAD", "end before"),
    ] {
        fs::write(&words, bytes).expect("it can be written");
        let made = finish(&words, &trace, false, &mut |_| ControlFlow::Continue(()));
        let error = made
            .map(|_| ())
            .expect_err("nothing can be made")
            .to_string();
        assert!(error.contains(why), "{error}");
        assert!(words.exists());
    }
}

#[test]
fn behind_a_limit_nothing_more_is_reported() {
    let mut request = assemble("plain.s").request();
    request.program = "sh".into();
    let script = "i=0; while [ $i -lt 6000 ]; do i=$((i+1)); done";
    request.arguments = vec!["-c".into(), script.into()];
    request.window = Window {
        skip: 5000,
        limit: 20_000,
        ..Window::default()
    };
    request.words = None;
    let at_once = run(&request);
    let words = temporary("limited.words");
    request.words = Some(words.clone());
    request.keep_words = true;
    let afterwards = run(&request);
    assert!(afterwards.program_accesses() == at_once.program_accesses());
    assert_eq!(afterwards.outcome.incomplete, None);
    let bytes = || fs::metadata(&words).expect("they were kept").len();
    let limited = bytes();
    request.window.limit = u64::MAX / 2;
    run(&request);
    assert!(4 * limited < 3 * bytes());
    fs::remove_file(words).expect("it was kept");
}

/// Words are read by what they were written by, whatever becomes of the folder.
#[test]
fn a_folder_that_is_removed_costs_no_status() {
    let folder = temporary("removed");
    fs::create_dir_all(&folder).expect("it can be made");
    let mut request = assemble("plain.s").request();
    request.program = "sh".into();
    let script = format!("rm -r '{}'; exit 4", folder.display());
    request.arguments = vec!["-c".into(), script.into()];
    for keep in [false, true] {
        fs::create_dir_all(&folder).expect("it can be made");
        request.words = Some(folder.join("trace.words"));
        request.keep_words = keep;
        let outcome = record(&request, &folder.join("trace"), &mut |_| {
            ControlFlow::Continue(())
        });
        let outcome = outcome.expect("it records");
        assert_eq!(outcome.ended, Ended::Status(4));
        assert_eq!(outcome.incomplete, None);
        assert!(outcome.accesses > MUCH);
        assert_eq!(outcome.words, None);
        let notes = outcome.notes.join("\n");
        assert!(notes.contains("the trace is gone"), "{notes}");
        assert_eq!(notes.contains("its words are gone"), keep, "{notes}");
    }
}
