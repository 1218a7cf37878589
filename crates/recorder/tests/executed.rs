//! Programs that are started: as natively, whatever acts on QEMU instead of them or is gone when it looks.

mod common;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{build, in_time, run};
use pagelab_recorder::{Ended, Request};

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// What the shell ends with that runs this script by itself, and recorded with all that it starts.
fn statuses(script: &str) -> [Ended; 2] {
    let shell = |script: &str| vec![OsString::from("-c"), script.into()];
    let alone = Command::new("sh").args(shell(script)).status();
    let alone = alone.expect("sh runs").code().expect("it exits");
    let request = Request {
        program: "sh".into(),
        arguments: shell(script),
        follow_exec: true,
        ..build("environment.c", &[]).request()
    };
    let recorded = in_time(move || run(&request)).outcome;
    assert_eq!(recorded.incomplete, None);
    assert!(recorded.unrecorded.is_empty(), "{:?}", recorded.unrecorded);
    [Ended::Status(alone), recorded.ended]
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

/// How often `preload.c` was loaded meanwhile.
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
