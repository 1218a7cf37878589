//! This process and its children: faults, switches, fork, placement.

use super::Refused;
use serde::{Deserialize, Serialize};
use std::mem;

/// Counters of the calling thread or process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Page faults that needed no input.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Times the CPU was given to another thread.
    pub switches: u64,
}

/// The counters of the calling thread since it began.
pub fn thread_usage() -> Usage {
    // SAFETY: rusage is plain numbers, for which zero bytes are valid.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: a valid place for the result.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    Usage {
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
        switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
    }
}

/// Has the kernel send a signal to this process when its parent ends; `false` if that has ended already, of which
/// the kernel says nothing.
pub fn end_with_parent(parent: u32, signal: libc::c_int) -> bool {
    // SAFETY: numbers; cannot fail for a signal that exists.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) };
    // SAFETY: no arguments.
    unsafe { libc::getppid() as u32 == parent }
}

/// Has the kernel give this process, and what it becomes, no transparent huge pages; or none but where
/// madvise(2) asks for them.
///
/// # Errors
/// Errors of prctl(2): a kernel before Linux 6.18 knows no exception.
pub fn forgo_huge_pages(except_advised: bool) -> Result<(), Refused> {
    // include/uapi/linux/prctl.h, PR_THP_DISABLE_EXCEPT_ADVISED.
    let flags = if except_advised { 2 } else { 0 };
    // SAFETY: numbers only.
    if unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, flags, 0, 0) } != 0 {
        return Err(Refused::last("prctl(PR_SET_THP_DISABLE)"));
    }
    Ok(())
}

/// Has the kernel take the memory of this process, and of what it becomes, from all of its nodes in turns.
///
/// # Errors
/// Errors of set_mempolicy(2).
pub fn interleave_memory() -> Result<(), Refused> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let nodes = allowed_nodes(&status);
    // SAFETY: so many bits, which are read.
    let result = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            libc::MPOL_INTERLEAVE,
            nodes.as_ptr(),
            // One more than there are (mm/mempolicy.c, get_nodes()).
            64 * nodes.len() + 1,
        )
    };
    if result != 0 {
        return Err(Refused::last("set_mempolicy(MPOL_INTERLEAVE)"));
    }
    Ok(())
}

/// The mask of nodes that a process may have memory of, in what proc_pid_status(5) says: `Mems_allowed` has groups of
/// eight digits, the last nodes first.
fn allowed_nodes(status: &str) -> Vec<u64> {
    let digits: String = (status.lines())
        .find_map(|line| line.strip_prefix("Mems_allowed:"))
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_hexdigit)
        .collect();
    let word = |chunk: &[u8]| {
        let text = std::str::from_utf8(chunk).unwrap_or_default();
        u64::from_str_radix(text, 16).unwrap_or(0)
    };
    digits.as_bytes().rchunks(16).map(word).collect()
}

/// Binds the process to one CPU.
///
/// # Errors
/// What sched_setaffinity(2) says.
pub fn pin(cpu: usize) -> Result<(), Refused> {
    // SAFETY: a CPU set is plain bits; CPU_SET stays inside for a cpu below CPU_SETSIZE.
    let result = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        if cpu < libc::CPU_SETSIZE as usize {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(0, mem::size_of_val(&set), &set)
    };
    if result != 0 {
        return Err(Refused::last(format!("cannot run on CPU {cpu}")));
    }
    Ok(())
}

/// Lets the process run on every CPU its control group allows.
///
/// # Errors
/// What sched_setaffinity(2) says.
pub fn unpin() -> Result<(), Refused> {
    // SAFETY: all bits set is a valid set; the kernel takes away what is not allowed.
    let result = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        std::ptr::write_bytes(&raw mut set, 0xff, 1);
        libc::sched_setaffinity(0, mem::size_of_val(&set), &set)
    };
    if result != 0 {
        return Err(Refused::last("cannot run on all CPUs"));
    }
    Ok(())
}

/// The CPU this thread runs on.
pub fn current_cpu() -> Option<usize> {
    // SAFETY: no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The CPUs that this thread may run on.
///
/// # Errors
/// What sched_getaffinity(2) says.
pub fn cpus() -> Result<Vec<usize>, Refused> {
    // SAFETY: the kernel fills in the set, whose size it is told.
    let (result, set) = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        let result = libc::sched_getaffinity(0, mem::size_of_val(&set), &mut set);
        (result, set)
    };
    if result != 0 {
        return Err(Refused::last("cannot ask for the CPUs of this process"));
    }
    // SAFETY: CPU_ISSET reads a bit of the set.
    let has = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(has).collect())
}

/// Number of CPUs that this process may run on.
pub fn allowed_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A forked child. It is killed and reaped when dropped.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    reaped: bool,
}

/// Forks. The child runs `work` and exits without running destructors of the parent's objects.
///
/// # Errors
/// What fork(2) says.
///
/// The probe is single-threaded whenever it forks, so the child may use everything.
pub fn fork(work: impl FnOnce()) -> Result<Child, Refused> {
    let parent = std::process::id();
    // SAFETY: no other thread exists that could hold a lock.
    match unsafe { libc::fork() } {
        -1 => Err(Refused::last("fork")),
        0 => {
            // The parent going away must not leave children that hold its memory, and the guard's pipe.
            if end_with_parent(parent, libc::SIGKILL) {
                work();
            }
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        pid => Ok(Child { pid, reaped: false }),
    }
}

impl Child {
    /// Process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for its end; the exit status as waitpid(2) gives it.
    pub fn wait(mut self) -> i32 {
        self.reap()
    }

    /// Says that it has ended and was waited for elsewhere.
    pub fn forget(mut self) {
        self.reaped = true;
    }

    /// Kills it and waits for its end.
    pub fn end(self) {}

    fn reap(&mut self) -> i32 {
        let mut status = 0;
        // SAFETY: our own child and a valid place for its status.
        while unsafe { libc::waitpid(self.pid, &mut status, 0) } < 0
            && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
        {}
        self.reaped = true;
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            // SAFETY: our own child, not yet reaped, so the id is still its.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            self.reap();
        }
    }
}

/// Runs `work` in a forked child and brings its result back, so that what it allocates and what
/// it does to its address space is gone afterwards.
///
/// # Errors
/// When the child cannot be started, or dies without a result.
pub fn in_child<T: Serialize + for<'a> Deserialize<'a>>(
    work: impl FnOnce() -> T,
) -> Result<T, Refused> {
    let (mut reader, mut writer) =
        std::io::pipe().map_err(|e| Refused::because("pipe to a child", e))?;
    let child = fork(|| {
        // A failed write leaves the parent with an incomplete result, which it reports.
        let _ = serde_json::to_writer(&mut writer, &work());
    })?;
    drop(writer);
    let mut text = String::new();
    let read = std::io::Read::read_to_string(&mut reader, &mut text);
    let status = child.wait();
    read.map_err(|e| Refused::because("result of a child", e))?;
    serde_json::from_str(&text).map_err(|error| {
        let what = format!("a measuring child ended (wait status {status:#x}) without a result");
        Refused::because(what, std::io::Error::other(error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_gives_its_result_back_and_a_dead_one_an_error() {
        assert_eq!(in_child(|| 6 * 7).ok(), Some(42));
        let dead: Result<u32, _> = in_child(|| {
            // SAFETY: ends the child at once, before it can answer.
            unsafe { libc::_exit(3) }
        });
        let message = dead.expect_err("no result").to_string();
        assert!(message.contains("0x300"), "{message}");
    }

    #[test]
    fn nodes_are_those_of_the_mask() {
        let status =
            "Name:\tx\nMems_allowed:\t00000004,80000000,00000003\nMems_allowed_list:\t0-1\n";
        assert_eq!(allowed_nodes(status), [0x8000_0000_0000_0003, 4]);
        assert_eq!(allowed_nodes(""), [0u64; 0]);
    }
}
