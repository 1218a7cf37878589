//! One recorded process.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::controls::Memory;
use crate::files::Files;

/// State of a process.
#[derive(Debug)]
pub(crate) struct Process {
    number: u32,
    pid: u32,
    pub(crate) memory: Memory,
    pub(crate) files: Files,
    next_thread: u32,
    /// Threads that clone has announced, by thread id.
    threads: HashMap<u32, u32>,
    /// The status it left with, as far as known; whether it said so itself.
    status: Option<i32>,
    leaving: bool,
    /// A parent has waited for it, and it is no more.
    reaped: bool,
    gone_since: Option<Instant>,
    ended: bool,
}

/// Time for which a process that is gone without a word may stay unburied. Its parent may yet say
/// which signal killed it: what wait4 returned is written a moment after the process has vanished.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The status of a process of which only that it is gone is known: as if killed by SIGKILL.
const KILLED: i32 = 128 + libc::SIGKILL;

impl Process {
    pub(crate) fn new(number: u32, pid: u32) -> Process {
        Process {
            number,
            pid,
            memory: Memory::default(),
            files: Files::default(),
            next_thread: 0,
            threads: HashMap::new(),
            status: None,
            leaving: false,
            reaped: false,
            gone_since: None,
            ended: false,
        }
    }

    /// Its child by fork.
    pub(crate) fn fork(&self, number: u32, pid: u32) -> Process {
        Process {
            memory: self.memory.clone(),
            files: self.files.clone(),
            ..Process::new(number, pid)
        }
    }

    /// Its number in the recording.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Its number in the system.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Its first thread runs: number 0.
    pub(crate) fn start(&mut self) {
        self.next_thread = 1;
    }

    /// True if its first thread has run.
    pub(crate) fn started(&self) -> bool {
        self.next_thread > 0
    }

    /// It runs another program now.
    pub(crate) fn replace(&mut self) {
        self.memory = Memory::default();
        self.files = Files::default();
        self.threads.clear();
        self.start();
    }

    /// A thread has been made; its number.
    pub(crate) fn announce(&mut self, tid: u32) -> u32 {
        let thread = self.next_thread;
        self.next_thread += 1;
        self.threads.insert(tid, thread);
        thread
    }

    /// The number of a thread, once it has been announced.
    pub(crate) fn announced(&self, tid: u32) -> Option<u32> {
        self.threads.get(&tid).copied()
    }

    /// A thread has ended; its id may be used again.
    pub(crate) fn forget_thread(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    /// A thread has left with this status, for the whole process or for itself: the last one's
    /// counts then.
    pub(crate) fn leaves(&mut self, status: i32, whole: bool) {
        if !self.leaving {
            self.status = Some(status);
            self.leaving = whole;
        }
    }

    /// A parent has waited for process `pid` and got this status.
    pub(crate) fn waited_for(&mut self, pid: u32, status: i32) {
        if pid != self.pid {
            return;
        }
        if libc::WIFSIGNALED(status) {
            self.status = Some(128 + libc::WTERMSIG(status));
            self.leaving = true;
        }
        self.reaped |= libc::WIFSIGNALED(status) || libc::WIFEXITED(status);
    }

    /// True if its end has yet to be told before its parent, which has waited for it, goes on.
    pub(crate) fn is_to_be_buried(&self) -> bool {
        self.reaped && !self.ended
    }

    /// Its status, if it is gone and was not ended yet; the recorder's own child, process 0, is
    /// when `root` says so. A child that it has forked, whether there is one of which nothing has
    /// been seen says `forking`, is waited for a while.
    pub(crate) fn gone(
        &mut self,
        root: Option<i32>,
        forking: impl FnOnce() -> bool,
    ) -> Option<i32> {
        if self.ended {
            return None;
        }
        let (gone, status) = match self.number {
            0 => (root.is_some(), root),
            // The number of one that was waited for may be another's by now.
            _ => (
                self.reaped && self.leaving || !lives(self.pid),
                self.status.filter(|_| self.leaving),
            ),
        };
        if !gone {
            return None;
        }
        let since = *self.gone_since.get_or_insert_with(Instant::now);
        if since.elapsed() > PATIENCE {
            return Some(status.or(self.status).unwrap_or(KILLED));
        }
        status.filter(|_| !forking())
    }

    /// Marks it as gone for good.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// True if it has ended.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }
}

/// The numbers in the system of those that have not ended.
pub(crate) fn living<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<u32> {
    let living = processes.filter(|process| !process.ended());
    living.map(Process::pid).collect()
}

/// True if a process still runs. One whose first thread has ended is a zombie in /proc/PID/stat (proc_pid_stat(5))
/// while others go on: but the kernel keeps only the first of those that have ended.
fn lives(pid: u32) -> bool {
    match state(pid) {
        None | Some('X') => false,
        Some('Z') => threads(pid) > 1,
        Some(_) => true,
    }
}

/// The state letter of a process: field 3 of /proc/PID/stat.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The threads that the kernel knows of.
fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}
