//! Changing settings of the machine, and putting them back whatever happens.
//!
//! Nothing is changed without `--allow-tuning`. With it, a guard process is forked first. It
//! holds one end of a pipe and waits: when the probe ends, in whatever way, the pipe closes and
//! the guard undoes what the journal lists, last change first. Every change is in the journal,
//! on disk, before it is made. If the guard dies as well (power, SIGKILL to both), the journal
//! stays, and the next run undoes it before it measures anything.

use super::{Refused, files};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Way to undo one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Undo {
    /// Write this text to the file.
    Write { path: PathBuf, text: String },
    /// Remove the empty directory (a control group).
    RemoveDirectory { path: PathBuf },
}

/// Leave to change settings, or not.
#[derive(Debug)]
pub struct Tuning {
    guard: Option<Guard>,
}

#[derive(Debug)]
struct Guard {
    journal: File,
    /// Changes in the journal.
    done: Vec<Undo>,
    /// Closing it wakes the guard.
    alive: Option<io::PipeWriter>,
    pid: libc::pid_t,
}

/// Message where a change would be needed that was not allowed.
pub const NOT_ALLOWED: &str = "needs a setting changed: run with --allow-tuning, as root";

impl Tuning {
    /// No changes.
    pub fn forbidden() -> Tuning {
        Tuning { guard: None }
    }

    /// Starts the guard. Must be called while the process has one thread.
    ///
    /// # Errors
    /// When the journal cannot be created or the guard not be started.
    pub fn allowed() -> Result<Tuning, Refused> {
        let directory = journal_directory()?;
        let path = directory.join(format!("{}.journal", std::process::id()));
        let journal = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| Refused::because(format!("journal {}", path.display()), e))?;
        let (reader, writer) = io::pipe().map_err(|e| Refused::because("pipe to the guard", e))?;
        // SAFETY: one thread only, so the child may use everything.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => return Err(Refused::last("fork of the guard")),
            0 => {
                drop(writer);
                guard(reader, &path);
            }
            _ => {}
        }
        let alive = Some(writer);
        Ok(Tuning {
            guard: Some(Guard {
                journal,
                done: Vec::new(),
                alive,
                pid,
            }),
        })
    }

    /// Undoes every change so far: what one part has set must not be measured by the next.
    ///
    /// # Errors
    /// The first change that cannot be undone; the guard will try it again at the end.
    pub fn undo(&mut self) -> Result<(), Refused> {
        let Some(guard) = &mut self.guard else {
            return Ok(());
        };
        while let Some(undo) = guard.done.last() {
            let what = || format!("undoing {undo:?}");
            undo.apply().map_err(|e| Refused::because(what(), e))?;
            guard.done.pop();
        }
        let emptied = guard.journal.set_len(0);
        emptied.map_err(|e| Refused::because("emptying the journal", e))
    }

    /// True if changes are allowed.
    pub fn is_allowed(&self) -> bool {
        self.guard.is_some()
    }

    /// Writes `text` to a setting until the probe ends.
    ///
    /// # Errors
    /// When changes are not allowed or the kernel refuses this one.
    pub fn set(&mut self, path: impl AsRef<Path>, text: &str) -> Result<(), Refused> {
        let path = path.as_ref();
        let what = || format!("setting {} to {text}", path.display());
        let guard = self.guard(what)?;
        let old = files::choice(path)
            .ok_or_else(|| Refused::because(what(), io::ErrorKind::NotFound.into()))?;
        if old == text {
            return Ok(());
        }
        guard.record(&Undo::Write {
            path: path.into(),
            text: old,
        })?;
        fs::write(path, text).map_err(|e| Refused::because(what(), e))
    }

    /// Makes a directory (a control group) that is removed when the probe ends.
    ///
    /// # Errors
    /// When changes are not allowed or the kernel refuses this one.
    pub fn make_directory(&mut self, path: &Path) -> Result<(), Refused> {
        let what = || format!("making {}", path.display());
        let guard = self.guard(what)?;
        guard.record(&Undo::RemoveDirectory { path: path.into() })?;
        fs::create_dir(path).map_err(|e| Refused::because(what(), e))
    }

    fn guard(&mut self, what: impl FnOnce() -> String) -> Result<&mut Guard, Refused> {
        self.guard
            .as_mut()
            .ok_or_else(|| Refused::because(what(), io::Error::other(NOT_ALLOWED)))
    }
}

impl Guard {
    fn record(&mut self, undo: &Undo) -> Result<(), Refused> {
        let refused = |e| Refused::because("writing the journal of changed settings", e);
        let mut line = serde_json::to_string(undo).map_err(|e| refused(e.into()))?;
        line.push('\n');
        self.journal.write_all(line.as_bytes()).map_err(refused)?;
        self.journal.sync_data().map_err(refused)?;
        self.done.push(undo.clone());
        Ok(())
    }
}

impl Undo {
    fn apply(&self) -> io::Result<()> {
        match self {
            Undo::Write { path, text } => fs::write(path, text),
            Undo::RemoveDirectory { path } => remove_group(path),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.alive = None;
        let mut status = 0;
        // SAFETY: our own child and a valid place for its status.
        while unsafe { libc::waitpid(self.pid, &mut status, 0) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

/// The life of the guard process.
fn guard(mut alive: io::PipeReader, journal: &Path) -> ! {
    // Its own session, so that Ctrl-C and a closed terminal reach the probe only.
    // SAFETY: no pointers.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    // Nothing is ever written: the read ends when the last writer is gone.
    let _ = alive.read(&mut [0]);
    let complete = undo(journal);
    // SAFETY: ends the process; nothing of the parent's may be dropped here.
    unsafe { libc::_exit(i32::from(!complete)) }
}

/// Undoes the changes of runs whose guard died with them; says what it undid.
///
/// # Errors
/// When the journal directory is not safe to use.
pub fn recover() -> Result<Vec<PathBuf>, Refused> {
    let directory = journal_directory()?;
    let entries = fs::read_dir(&directory)
        .map_err(|e| Refused::because(format!("reading {}", directory.display()), e))?;
    let mut undone = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        let pid = path.file_stem().and_then(|stem| stem.to_str());
        let running = pid.is_some_and(|pid| Path::new("/proc").join(pid).exists());
        if !running && undo(&path) {
            undone.push(path);
        }
    }
    Ok(undone)
}

/// Undoes a journal, last change first, and removes it if everything could be undone.
fn undo(journal: &Path) -> bool {
    let Ok(text) = fs::read_to_string(journal) else {
        return false;
    };
    let mut complete = true;
    // A torn last line belongs to a change that was never made: it is synchronised first.
    for undo in text
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str(line).ok())
    {
        let result: io::Result<()> = Undo::apply(&undo);
        if let Err(error) = result {
            complete = false;
            eprintln!("pagelab-probe: could not undo {undo:?}: {error}");
        }
    }
    complete && fs::remove_file(journal).is_ok()
}

/// Removes a control group. Its last member may be dying still, and then it is busy.
fn remove_group(path: &Path) -> io::Result<()> {
    const TRIES: u32 = 50;
    for _ in 0..TRIES {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => return result,
        }
    }
    fs::remove_dir(path)
}

/// A directory only this user can write: the journals in it are obeyed.
fn journal_directory() -> Result<PathBuf, Refused> {
    // SAFETY: no arguments, cannot fail.
    let user = unsafe { libc::geteuid() };
    let base = match std::env::var_os("XDG_RUNTIME_DIR") {
        _ if user == 0 => PathBuf::from("/run"),
        Some(directory) => PathBuf::from(directory),
        None => std::env::temp_dir(),
    };
    let path = base.join(format!("pagelab-probe-{user}"));
    let refused = |e| Refused::because(format!("journal directory {}", path.display()), e);
    match fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(refused(e)),
        _ => {}
    }
    let metadata = fs::symlink_metadata(&path).map_err(refused)?;
    if !metadata.is_dir() || metadata.uid() != user || metadata.mode() & 0o077 != 0 {
        return Err(refused(io::Error::other(
            "must be a directory of this user with mode 700",
        )));
    }
    Ok(path)
}
