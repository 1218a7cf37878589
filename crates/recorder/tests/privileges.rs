//! Programs that change their user, as servers and `su` do, and those that are given another's rights.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use common::{assemble, build, run};

const NOBODY: u32 = 65534;

/// True if the tests may change users; if not, they have nothing to test.
fn root() -> bool {
    // SAFETY: it returns a number.
    unsafe { libc::geteuid() == 0 }
}

/// A folder that everybody may look into, unlike perhaps the one that holds the sources.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("pagelab-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("it can be made");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("ours");
        Folder(folder)
    }

    /// A copy of a program there.
    fn copy(&self, program: &Path, name: &str) -> PathBuf {
        let copy = self.0.join(name);
        fs::copy(program, &copy).expect("it can be copied");
        copy
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The leavings of a test that failed are the system's to tidy up.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// True if another user reaches QEMU and the plugin, which lie where the build put them.
fn reachable() -> bool {
    let build = Path::new(env!("CARGO_TARGET_TMPDIR"));
    build.ancestors().all(|folder| {
        fs::metadata(folder).is_ok_and(|about| about.permissions().mode() & 0o001 != 0)
    })
}

#[test]
fn a_program_that_has_changed_its_user_goes_on_and_so_does_its_recording() {
    if !root() {
        return;
    }
    let folder = Folder::new("changed");
    let program = folder.copy(&build("users.c", &["-O1", "-static"]).path, "users");
    let mut request = assemble("plain.s").request();
    request.program = program.into();
    request.follow_exec = true;
    for word in ["plainly", "keepcaps", "closing"] {
        request.arguments = vec![word.into()];
        let recorded = run(&request);
        assert_eq!(recorded.outcome.ended.code(), 17, "{word}");
        if reachable() {
            assert_eq!(recorded.outcome.notes, [""; 0], "{word}");
            // Itself, and twice another; the last reads so often.
            assert_eq!(recorded.outcome.programs, 3, "{word}");
            assert!(recorded.program_accesses().len() > 100_000, "{word}");
        }
    }
    // Nothing is left by which the recorder could be reached: on it goes all the same.
    request.arguments = vec!["closed".into()];
    let recorded = run(&request);
    assert_eq!(recorded.outcome.ended.code(), 17);
    assert_eq!(recorded.outcome.programs, 1);
    assert!(!recorded.outcome.unrecorded.is_empty());
}

#[test]
fn a_program_that_is_given_another_user_is_left_to_the_kernel() {
    if !root() {
        return;
    }
    let folder = Folder::new("given");
    let other = folder.copy(&build("users.c", &["-O1", "-static"]).path, "users");
    chown(&other, Some(NOBODY), None).expect("root may");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o4755)).expect("root may");
    let mut request = assemble("plain.s").request();
    request.program = "/bin/sh".into();
    let command = format!("{} end; echo status $?; exit $?", other.display());
    request.arguments = vec!["-c".into(), command.into()];
    request.follow_exec = true;
    let recorded = run(&request);
    assert_eq!(recorded.outcome.programs, 1);
    assert!(recorded.outcome.notes[0].contains("privileges"));
}

#[test]
fn who_waits_for_a_robust_mutex_is_told_that_its_owner_died() {
    let recorded = build("robust.c", &["-O1", "-pthread"]).record();
    assert_eq!(recorded.outcome.ended.code(), 22);
}
