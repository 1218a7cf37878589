//! Threads and processes, from their beginnings to their ends.

mod common;

use std::io::{self, BufRead, BufReader};
use std::ops::ControlFlow;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{What, build, ends_in_time, in_time, run, words};
use pagelab_events::{Batch, Control};
use pagelab_recorder::{Ended, Sink, record_into};

const STATIC: [&str; 3] = ["-static", "-O1", "-pthread"];

#[test]
fn a_child_whose_first_thread_ends_is_recorded_until_the_last_does() {
    const STORES: usize = 16384 * 40;
    let program = build("leader.c", &STATIC);
    let alone = Command::new(&program.path).status().expect("it runs");
    assert_eq!(alone.code(), Some(15));
    let request = program.request();
    let recorded = in_time(move || run(&request));
    assert_eq!(recorded.outcome.ended, Ended::Status(15));
    assert_eq!(recorded.outcome.incomplete, None);
    assert_eq!(
        recorded.controls(1).last(),
        Some(&Control::Exit { status: 5 })
    );
    let start = program.symbols()["places"];
    let places = start..start + 16384 * 64;
    let stores = recorded
        .accesses()
        .filter(|access| places.contains(&access.addr));
    assert_eq!(stores.count(), STORES);
}

/// received.c by itself or under a recorder, with this argument if it is any: with the number of
/// the process that waits.
fn waiting(recorded: bool, how: Option<&str>) -> (Child, i32) {
    let program = build("received.c", &STATIC).path;
    let mut command = Command::new(&program);
    if recorded {
        command = Command::new(env!("CARGO_BIN_EXE_pagelab-record"));
        let words = words().map(|path| format!("--words={}", path.display()));
        command.arg("--quiet").args(words).arg("-").arg(program);
    }
    // Tests that a shell runs in the background start with SIGINT ignored, which is inherited.
    // SAFETY: signal() may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        })
    };
    // A group of its own has a parent outside. Where nobody is, as in one that a shell started in the
    // background and that outlived it, the kernel leaves SIGTSTP out (setpgid(2), orphaned groups).
    let mut child = command
        .process_group(0)
        .args(how)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("it speaks");
    (child, line.trim().parse().expect("a number"))
}

fn send(process: u32, signal: i32) {
    // SAFETY: the process is a child of ours that has not been waited for.
    unsafe { libc::kill(process as i32, signal) };
}

#[test]
fn signals_to_the_recorder_are_the_programs() {
    let signals = [
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGWINCH,
        libc::SIGCONT,
        libc::SIGTSTP,
        libc::SIGIO,
        libc::SIGTERM,
    ];
    for signal in signals {
        let ended = |recorded: bool| {
            let (mut child, _) = waiting(recorded, None);
            send(child.id(), signal);
            ends_in_time(&mut child).code()
        };
        assert_eq!(ended(true), ended(false), "{signal}");
    }
}

/// The state letter of a process.
fn state(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
    fields.chars().take(1).collect()
}

fn comes_to(pid: u32, wanted: &str) {
    let since = Instant::now();
    while !wanted.contains(&state(pid)) {
        assert!(since.elapsed() < Duration::from_secs(60), "{}", state(pid));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_recorder_stops_and_goes_on_with_the_program() {
    let (mut child, program) = waiting(true, Some("default"));
    send(child.id(), libc::SIGTSTP);
    comes_to(program as u32, "T");
    comes_to(child.id(), "T");
    send(child.id(), libc::SIGCONT);
    comes_to(program as u32, "SR");
    comes_to(child.id(), "SR");
    send(child.id(), libc::SIGTERM);
    let code = ends_in_time(&mut child).code();
    assert_eq!(code, Some(128 + libc::SIGTERM));
}

/// Begin and end of the first mapping of a process whose line ends so and has these permissions.
fn mapping(pid: i32, name: &str, permissions: &str) -> (u64, u64) {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let line = (maps.lines())
        .find(|line| line.contains(permissions) && line.trim_end().ends_with(name))
        .expect("a mapping");
    let (begin, end) = (line.split(' ').next())
        .and_then(|range| range.split_once('-'))
        .expect("a range");
    let number = |digits| u64::from_str_radix(digits, 16).expect("an address");
    (number(begin), number(end))
}

/// A call that cannot reach so far loads its target first.
#[test]
fn translated_code_reaches_the_plugin_by_direct_calls() {
    let (mut child, program) = waiting(true, Some("default"));
    let (_, plugin) = mapping(program, "libpagelab_plugin.so", "r-xp");
    let (code, _) = mapping(program, " 0", "rwxp");
    assert!(
        (0..1 << 31).contains(&(plugin.wrapping_sub(code))),
        "{code:x} {plugin:x}"
    );
    send(child.id(), libc::SIGTERM);
    ends_in_time(&mut child);
}

#[test]
fn what_the_program_leaves_behind_is_ended_by_a_signal_to_the_recorder() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let (mut child, left) = waiting(true, Some("leave"));
        send(child.id(), signal);
        // The status is the program's, and the recording is whole.
        assert_eq!(ends_in_time(&mut child).code(), Some(3));
        // The process whose child it is now may take its time.
        assert!("Z".contains(&state(left as u32)), "it has ended");
    }
}

#[test]
fn what_does_not_end_then_goes_on_unrecorded() {
    let (mut child, left) = waiting(true, Some("ignore"));
    send(child.id(), libc::SIGTERM);
    let ended = ends_in_time(&mut child);
    assert_eq!((ended.code(), ended.signal()), (Some(1), None));
    // SAFETY: the test's own process, which has said its number.
    assert_eq!(unsafe { libc::kill(left, libc::SIGKILL) }, 0);
}

/// Output of dispositions.c, started with these signals ignored and another blocked.
fn dispositions(command: &mut Command, ignored: &'static [i32]) -> String {
    // SAFETY: these calls may be made between fork and exec.
    unsafe {
        command.pre_exec(move || {
            for &signal in ignored {
                libc::signal(signal, libc::SIG_IGN);
            }
            let mut blocked = std::mem::zeroed();
            libc::sigemptyset(&raw mut blocked);
            libc::sigaddset(&raw mut blocked, libc::SIGUSR2);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, std::ptr::null_mut());
            Ok(())
        })
    };
    let output = command.output().expect("it runs");
    String::from_utf8(output.stdout).expect("it writes text")
}

#[test]
fn signals_are_ignored_and_blocked_as_the_recorder_was_started() {
    let program = build("dispositions.c", &STATIC).path;
    let alone = dispositions(&mut Command::new(&program), &[libc::SIGHUP, libc::SIGINT]);
    assert!(alone.contains("1 ignored") && alone.contains("12 blocked"));
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_pagelab-record"));
    recorder.args(["--quiet", "-"]).arg(program);
    // Python ignores the last by itself.
    let ignored = &[libc::SIGHUP, libc::SIGINT, libc::SIGXFSZ];
    assert_eq!(dispositions(&mut recorder, ignored), alone);
}

#[test]
fn a_child_that_is_waited_for_has_been_killed_by_what_its_parent_is_told() {
    let program = build("waited.c", &STATIC);
    let alone = Command::new(&program.path).status().expect("it runs");
    let recorded = program.record();
    assert_eq!(alone.code(), Some(0));
    assert_eq!(recorded.outcome.ended, Ended::Status(0));
    for (process, signal) in [(1, libc::SIGTERM), (2, libc::SIGUSR1), (3, libc::SIGALRM)] {
        let status = 128 + signal;
        let last = recorded.controls(process).last().copied();
        assert_eq!(last, Some(Control::Exit { status }));
    }
}

/// A recorder that is slow, as one that was stopped for a while.
struct Late {
    waits: bool,
    batches: Vec<Batch>,
}

impl Sink for Late {
    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        if std::mem::take(&mut self.waits) {
            // Longer than the program waits before it asks whether the recorder lives.
            std::thread::sleep(Duration::from_secs(2));
        }
        self.batches.push(batch.clone());
        Ok(())
    }
}

#[test]
fn a_program_without_descriptors_does_not_take_a_slow_recorder_for_dead() {
    const PLACES: u64 = 4096;
    const STORES: u64 = 3_000_000;
    let program = build("crowded.c", &STATIC);
    let start = program.symbols()["places"];
    let mut request = program.request();
    // Words that are written while the program runs are not waited for by it.
    request.words = None;
    let late = Late {
        waits: true,
        batches: Vec::new(),
    };
    let (outcome, late) = in_time(move || {
        record_into(&request, late, &mut |_| ControlFlow::Continue(())).expect("it records")
    });
    assert_eq!(outcome.incomplete, None);
    assert_eq!(outcome.ended, Ended::Status(6));
    let batches = late.expect("the sink comes back").batches;
    let accesses = (batches.iter()).flat_map(|batch| (0..batch.len()).map(|at| batch.access(at)));
    let places = start..start + 8 * PLACES;
    let mut stores = accesses.filter(|access| places.contains(&access.addr));
    let mut x = 1u64;
    for store in 0..STORES {
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let address = stores.next().map(|access| access.addr);
        assert_eq!(address, Some(start + 8 * (x >> 52)), "store {store}");
    }
    assert_eq!(stores.next(), None);
}

#[test]
fn a_child_is_recorded_whose_parent_was_killed_as_it_forked() {
    const ORPHANS: u32 = 20;
    let program = build("orphans.c", &STATIC);
    let alone = Command::new(&program.path).status().expect("it runs");
    assert_eq!(alone.code(), Some(7));
    let start = program.symbols()["places"];
    let words = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("orphans.words");
    for words in [None, Some(words)] {
        let mut request = program.request();
        request.words = words;
        let recorded = in_time(move || run(&request));
        assert_eq!(recorded.outcome.incomplete, None);
        assert_eq!(recorded.outcome.ended, Ended::Status(7));
        assert_eq!(recorded.outcome.processes, u64::from(1 + 2 * ORPHANS));
        let places = start..start + 8 * 512;
        let stores = (recorded.accesses()).filter(|access| places.contains(&access.addr));
        assert_eq!(stores.count(), 512 * ORPHANS as usize);
        let ends = |status| {
            let exit = Control::Exit { status };
            let last = |&process: &u32| recorded.controls(process).last() == Some(&exit);
            (1..=2 * ORPHANS).filter(last).count()
        };
        assert_eq!(ends(128 + libc::SIGKILL), ORPHANS as usize);
        assert_eq!(ends(9), ORPHANS as usize);
    }
}

/// More programs begin at once than there are large rings, and each replaces another.
#[test]
fn programs_that_begin_at_once_are_all_recorded() {
    const PROGRAMS: u64 = 60;
    let words = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("at-once.words");
    for words in [None, Some(words)] {
        let mut request = build("orphans.c", &STATIC).request();
        request.program = "sh".into();
        let script = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); /bin/true & done; wait";
        request.arguments = vec!["-c".into(), script.into()];
        request.follow_exec = true;
        request.words = words;
        let recorded = in_time(move || run(&request));
        let outcome = recorded.outcome;
        assert_eq!(outcome.incomplete, None);
        assert_eq!(outcome.processes, 1 + PROGRAMS);
        assert_eq!(outcome.programs, 1 + PROGRAMS);
        // The first one of each program, before and after execve.
        assert_eq!(outcome.threads, 1 + 2 * PROGRAMS);
        let begun = (1..=PROGRAMS as u32)
            .filter(|&process| {
                recorded.events.iter().any(|event| {
                    event.process == process && event.what == What::Control(Control::Exec)
                })
            })
            .count();
        assert_eq!(begun as u64, PROGRAMS);
    }
}

#[test]
fn process_numbers_are_the_systems() {
    let request = build("namespaces.c", &STATIC).request();
    // Other emulators have not the patch.
    if !(request.qemu.as_ref()).is_some_and(|qemu| qemu.to_string_lossy().contains("pagelab_qemu"))
    {
        return;
    }
    assert_eq!(run(&request).outcome.ended, Ended::Status(5));
}
