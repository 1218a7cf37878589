//! Requests of a program for memory, by number and size (Table 4 of Tabatabai et al., FBMM, ATC
//! 2024): its mmap and brk calls and those of its children, counted under ptrace.
//!
//! A seccomp filter stops the program at these two calls only, so that it runs at nearly its own
//! speed otherwise.

use super::{Context, Failure, Part};
use crate::system::{Refused, files, process};
use clap::{Arg, ArgAction, ArgMatches, Command as Options, value_parser};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ffi::{CString, OsString, c_char};
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

pub const PART: Part = Part {
    name: "calls",
    about: "Counts and sizes of the mmap and brk calls of a program: calls -- PROGRAM ARGS",
    in_all: false,
    options,
    run,
};

fn options(command: Options) -> Options {
    command.arg(
        Arg::new("command")
            .required(true)
            .action(ArgAction::Append)
            .num_args(1..)
            .last(true)
            .value_parser(value_parser!(OsString)),
    )
}

/// Counts of the calls.
#[derive(Debug, Default)]
struct Counts {
    mmap: u64,
    mmap_anonymous: u64,
    mmap_bytes: u64,
    mmap_anonymous_bytes: u64,
    brk: u64,
    brk_grown: u64,
    brk_bytes: u64,
    /// The program was executed.
    started: bool,
    /// Program break of each thread group.
    breaks: HashMap<i32, u64>,
}

fn run(context: &mut Context, arguments: &ArgMatches) -> Result<Value, Failure> {
    let words: Vec<CString> = arguments
        .get_many::<OsString>("command")
        .into_iter()
        .flatten()
        // Arguments of a process cannot contain a zero byte.
        .filter_map(|word| CString::new(word.as_bytes()).ok())
        .collect();
    let Some(program) = words
        .first()
        .map(|word| word.to_string_lossy().into_owned())
    else {
        return Err(Failure::Lacking("no program given".into()));
    };
    let mut pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    context.say(&format!("counting the calls of {program}"));
    let begin = Instant::now();
    let child = process::fork(|| {
        let error = trace_me().err().unwrap_or_else(|| {
            // SAFETY: a terminated array of terminated strings. Standard output is the result's.
            unsafe {
                libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO);
                libc::execvp(pointers[0], pointers.as_ptr());
            }
            io::Error::last_os_error()
        });
        eprintln!("calls: cannot start {program}: {error}");
        // SAFETY: ends the child.
        unsafe { libc::_exit(127) }
    })?;
    let mut counts = Counts::default();
    let status = follow(child.pid(), &mut counts)?;
    child.forget();
    if !counts.started {
        return Err(Failure::Lacking(format!("{program} did not start")));
    }
    let seconds = begin.elapsed().as_secs_f64();
    let allocations = counts.mmap_anonymous + counts.brk_grown;
    let bytes = counts.mmap_anonymous_bytes + counts.brk_bytes;
    Ok(json!({
        "program": program,
        "wait_status": status,
        "seconds": seconds,
        "mmap": counts.mmap,
        "mmap_bytes": counts.mmap_bytes,
        "mmap_anonymous": counts.mmap_anonymous,
        "mmap_anonymous_bytes": counts.mmap_anonymous_bytes,
        "brk": counts.brk,
        "brk_grown": counts.brk_grown,
        "brk_bytes": counts.brk_bytes,
        "mean_pages": bytes as f64 / 4096.0 / allocations.max(1) as f64,
        "per_second": allocations as f64 / seconds,
    }))
}

/// In the child: asks to be traced and to be stopped at mmap and brk.
fn trace_me() -> io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let filter = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        // The number of the call is the first field of struct seccomp_data.
        filter(LOAD, 0, 0, 0),
        filter(EQUAL, 2, 0, libc::SYS_mmap as u32),
        filter(EQUAL, 1, 0, libc::SYS_brk as u32),
        filter(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        filter(RETURN, 0, 0, libc::SECCOMP_RET_TRACE),
    ];
    let prog = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: system calls with valid pointers, safe between fork and exec.
    let ok = unsafe {
        libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            // The tracer sets its options at this stop, before the filter can stop anything.
            && libc::raise(libc::SIGSTOP) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &prog) == 0
    };
    if ok {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Follows the program and its children to the end; the wait status of the first.
fn follow(first: i32, counts: &mut Counts) -> Result<i32, Failure> {
    let mut result = 0;
    let mut prepared = false;
    let options = libc::PTRACE_O_TRACESECCOMP
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL;
    loop {
        let mut status = 0;
        // SAFETY: a valid place for the status.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
        if pid < 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                Some(libc::ECHILD) => return Ok(result),
                _ => return Err(Refused::because("waitpid", error).into()),
            }
        }
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            if pid == first {
                result = status;
            }
            continue;
        }
        if !prepared {
            // SAFETY: numbers only; the first stop is that of the child before its exec.
            unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options) };
            prepared = true;
        }
        let signal = libc::WSTOPSIG(status);
        let deliver = match status >> 16 {
            libc::PTRACE_EVENT_SECCOMP => {
                counts.count(pid)?;
                0
            }
            libc::PTRACE_EVENT_EXEC => {
                counts.started = true;
                0
            }
            0 if signal == libc::SIGSTOP || signal == libc::SIGTRAP => 0,
            0 => signal,
            _ => 0,
        };
        // SAFETY: numbers only. A thread that was killed meanwhile is reported by waitpid.
        unsafe { libc::ptrace(libc::PTRACE_CONT, pid, 0, deliver) };
    }
}

impl Counts {
    fn count(&mut self, pid: i32) -> Result<(), Failure> {
        // SAFETY: plain numbers, for which zero bytes are valid.
        let mut info: libc::ptrace_syscall_info = unsafe { mem::zeroed() };
        let size = mem::size_of_val(&info);
        // SAFETY: a stopped thread of ours and a valid place of the size given.
        let got = unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, size, &mut info) };
        if got <= 0 {
            return Err(Refused::last("reading the arguments of a call").into());
        }
        // SAFETY: at a seccomp stop the kernel has filled in this member.
        let call = unsafe { info.u.seccomp };
        match call.nr as i64 {
            libc::SYS_mmap => {
                let (len, flags) = (call.args[1], call.args[3] as i32);
                self.mmap += 1;
                self.mmap_bytes += len;
                if flags & libc::MAP_ANONYMOUS != 0 {
                    self.mmap_anonymous += 1;
                    self.mmap_anonymous_bytes += len;
                }
            }
            libc::SYS_brk => {
                self.brk += 1;
                self.grow(pid, call.args[0]);
            }
            _ => {}
        }
        Ok(())
    }

    /// A call with 0 only asks. The first that does not grows from where the heap starts.
    fn grow(&mut self, pid: i32, to: u64) {
        if to == 0 {
            // A program asks when it begins: what the one before it in this process had is gone.
            self.breaks.remove(&group(pid));
            return;
        }
        let from = *self
            .breaks
            .entry(group(pid))
            .or_insert_with(|| start_of_heap(pid).unwrap_or(to));
        if to > from {
            self.brk_grown += 1;
            self.brk_bytes += to - from;
        }
        self.breaks.insert(group(pid), to);
    }
}

fn group(thread: i32) -> i32 {
    let group = files::field(format!("/proc/{thread}/status"), "Tgid");
    group.map_or(thread, |group| group as i32)
}

/// Field 47 of /proc/pid/stat: where the heap begins (proc_pid_stat(5)).
fn start_of_heap(pid: i32) -> Option<u64> {
    let stat = files::text(format!("/proc/{pid}/stat"))?;
    // The name, field 2, may contain anything; it ends at the last parenthesis.
    let rest = stat.rsplit_once(") ")?.1;
    rest.split(' ').nth(47 - 3)?.parse().ok()
}
