//! Programs that are started: as natively, whatever acts on QEMU instead of them or is gone when it looks.

mod common;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{build, emulator, ends_in_time, in_time, run};
use pagelab_recorder::{Ended, Request};

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Exit of the shell that runs this script by itself, and recorded with all that it starts.
fn statuses(script: &str) -> [Ended; 2] {
    statuses_of("sh", script)
}

fn statuses_of(shell: &str, script: &str) -> [Ended; 2] {
    let arguments = [OsString::from("-c"), script.into()];
    let alone = Command::new(shell).args(&arguments).status();
    let alone = alone.expect("a shell runs").code().expect("it exits");
    let request = Request {
        program: shell.into(),
        arguments: arguments.into(),
        follow_exec: true,
        ..build("environment.c", &[]).request()
    };
    let recorded = in_time(move || run(&request)).outcome;
    assert_eq!(recorded.incomplete, None);
    assert!(recorded.unrecorded.is_empty(), "{:?}", recorded.unrecorded);
    [Ended::Status(alone), recorded.ended]
}

fn write_executable(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("it can be written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// A folder whose libm, which QEMU uses, is none.
fn damaged_libraries() -> PathBuf {
    let folder = temporary("damaged-libraries");
    fs::create_dir_all(&folder).expect("it can be made");
    fs::write(folder.join("libm.so.6"), "no library").expect("it can be written");
    folder
}

#[test]
fn what_the_loader_acts_on_does_not_act_on_qemu() {
    let program = build("environment.c", &[]).path;
    let program = program.display();
    let folder = damaged_libraries();
    let folder = folder.display();
    for variable in [
        format!("LD_LIBRARY_PATH={folder}"),
        "GLIBC_TUNABLES=glibc.malloc.perturb=7".to_owned(),
        "LD_BIND_NOW=".to_owned(),
    ] {
        let (name, value) = variable.split_once('=').expect("a variable");
        let script = format!("{name}='{value}' {program} {name} '{value}'");
        assert_eq!(statuses(&script), [Ended::Status(3); 2], "{script}");
    }
}

/// Number of times that `preload.c` was loaded meanwhile.
fn loaded(log: &Path, meanwhile: impl FnOnce()) -> usize {
    // From an earlier run, or not there.
    let _ = fs::remove_file(log);
    meanwhile();
    fs::read(log).expect("it was loaded").len()
}

#[test]
fn a_library_loaded_before_others_is_loaded_into_the_program_only() {
    let library = build("preload.c", &["-shared", "-fPIC"]).path;
    let mut request = build("environment.c", &[]).request();
    request.arguments = vec!["LD_PRELOAD".into(), library.clone().into()];
    let log = temporary("loaded.log");
    let variables = [("LD_PRELOAD", &library), ("LOADED", &log)];
    request.environment = variables
        .map(|(name, value)| (name.into(), value.into()))
        .into();
    let first = loaded(&log, || {
        assert_eq!(run(&request).outcome.ended, Ended::Status(3));
    });
    assert_eq!(first, 1);
    let (log, library) = (log.display(), library.display());
    let program = request.program.display();
    let script = format!("LOADED={log} LD_PRELOAD={library} {program} LD_PRELOAD {library}");
    let twice = loaded(Path::new(&log.to_string()), || {
        assert_eq!(statuses(&script), [Ended::Status(3); 2]);
    });
    assert_eq!(twice, 2, "by itself, and recorded");
}

#[test]
fn a_program_named_by_a_file_that_execve_closes_is_started() {
    let starter = build("by_descriptor.c", &[]).path;
    let starter = starter.display();
    let started = build("environment.c", &[]).path;
    let linked = build("environment.c", &["-static"]).path;
    for program in [started.display(), linked.display()] {
        for kind in ["memory", "file", "folder", "path", "itself"] {
            let script = format!("V=1 {starter} {kind} {program} V 1");
            assert_eq!(statuses(&script), [Ended::Status(3); 2], "{script}");
        }
    }
    // Nothing more is open in what it starts than natively.
    let [alone, recorded] = statuses(&format!("{starter} memory {starter} open {starter}"));
    assert_eq!(recorded, alone);
    // A script's interpreter could not open it.
    let script = temporary("by-descriptor-script");
    write_executable(&script, b"#!/bin/sh\nexit 3\n");
    let script = format!("{starter} file {} 2>/dev/null", script.display());
    assert_eq!(statuses(&script), [Ended::Status(9); 2]);
}

#[test]
fn a_program_whose_name_begins_with_a_dash_is_no_option() {
    let folder = temporary("dash");
    fs::create_dir_all(&folder).expect("it can be made");
    let program = build("environment.c", &[]).path;
    fs::copy(program, folder.join("-dash")).expect("it can be copied");
    let script = format!("cd {} && V=1 PATH= -dash V 1", folder.display());
    assert_eq!(statuses(&script), [Ended::Status(3); 2]);
    // The first program, found by an empty entry of PATH.
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_pagelab-record"));
    recorder
        .args(["--quiet", "-", "-dash", "V", "1"])
        .envs([("PATH", ""), ("V", "1")])
        .current_dir(&folder);
    if let Some(qemu) = emulator() {
        recorder.env("PAGELAB_TEST_QEMU", qemu);
        let mut child = recorder.spawn().expect("it starts");
        assert_eq!(ends_in_time(&mut child).code(), Some(3));
    }
}

/// A copy of a program with other bytes at a place.
fn changed(name: &str, at: impl FnOnce(&[u8]) -> usize, bytes: &[u8]) -> PathBuf {
    let mut file = fs::read(build("environment.c", &[]).path).expect("a program");
    let at = at(&file);
    file[at..at + bytes.len()].copy_from_slice(bytes);
    let path = temporary(name);
    write_executable(&path, &file);
    path
}

#[test]
fn what_the_kernel_refuses_to_execute_fails_in_execve() {
    let interpreter = |file: &[u8]| {
        let name = b"/lib64/ld-linux";
        let at = (0..file.len()).find(|&at| file[at..].starts_with(name));
        at.expect("it has an interpreter")
    };
    let whole = fs::read(build("environment.c", &[]).path).expect("a program");
    let cut_off = temporary("cut-off");
    write_executable(&cut_off, &whole[..200]);
    let programs = [
        changed("no-such-interpreter", interpreter, b"/xib64/"),
        changed("interpreter-is-a-folder", interpreter, b"/lib64/\0"),
        changed("interpreter-is-no-program", interpreter, b"/etc/passwd\0"),
        changed("interpreter-is-a-script", interpreter, b"/usr/bin/ldd\0"),
        changed("object", |_| 16, &[1]),
        changed("no-program-headers", |_| 56, &[0]),
        changed("program-headers-elsewhere", |_| 32 + 3, &[9]),
        cut_off,
    ];
    // bash, which does not take for a script what is refused.
    for program in programs {
        let script = format!("{} V 1 2>/dev/null; exit $?", program.display());
        let [alone, recorded] = statuses_of("bash", &script);
        assert_eq!(recorded, alone, "{}", program.display());
        assert!(matches!(alone, Ended::Status(126 | 127)), "{alone:?}");
    }
}

#[test]
fn what_is_open_for_writing_is_busy() {
    let program = temporary("busy");
    fs::copy(build("environment.c", &[]).path, &program).expect("it can be copied");
    let program = program.display();
    let script = format!("exec 7>>{program}; V=1 {program} V 1 2>/dev/null; exit $?");
    assert_eq!(statuses(&script), [Ended::Status(126); 2]);
    let script = format!("exec 7<{program}; V=1 {program} V 1; exit $?");
    assert_eq!(statuses(&script), [Ended::Status(3); 2]);
}
