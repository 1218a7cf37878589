//! System calls: reported with their arguments and results.

use std::ffi::c_uint;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pagelab_recorder_wire::allocation::Mark;
use pagelab_recorder_wire::region::Ring;
use pagelab_recorder_wire::syscall::{Call, MAPPED, MAPPED_MEMORY, MAPPED_SHARED, Vectors, call};
use pagelab_recorder_wire::word::Kind;

use crate::futex::Lock;
use crate::{
    allocation, events, exec, faults, guest, presence, process, ring, threads, unwind, window,
};

/// Held during calls that change the address space, so that their order in the recording is
/// the order in which they happened.
static ORDER: Lock = Lock::new();

/// The ring for the child that is being forked, guarded by `ORDER`.
static CHILD: AtomicUsize = AtomicUsize::new(NONE);
/// Its number: by the time it is told, the child may have ended and its ring be another's.
static FORKED: AtomicU32 = AtomicU32::new(0);
const NONE: usize = usize::MAX;

const MMAP: i64 = 9;
const MUNMAP: i64 = 11;
const CLONE: i64 = 56;
const KILL: i64 = 62;
const SETUID: i64 = 105;
const SETGID: i64 = 106;
const SETREUID: i64 = 113;
const SETREGID: i64 = 114;
const SETRESUID: i64 = 117;
const SETRESGID: i64 = 119;
const SETFSUID: i64 = 122;
const SETFSGID: i64 = 123;
const CAPSET: i64 = 126;
const RT_SIGQUEUEINFO: i64 = 129;
const PRCTL: i64 = 157;
const SETRLIMIT: i64 = 160;
const TKILL: i64 = 200;
const TGKILL: i64 = 234;
const UNSHARE: i64 = 272;
const SET_ROBUST_LIST: i64 = 273;
const RT_TGSIGQUEUEINFO: i64 = 297;
const PRLIMIT64: i64 = 302;
const SETNS: i64 = 308;
/// linux/prctl.h
const PR_CAPBSET_DROP: i32 = 24;
const PR_SET_SECUREBITS: i32 = 28;
const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;

/// Called by QEMU before each system call.
#[allow(clippy::too_many_arguments, reason = "the signature is QEMU's")]
pub extern "C" fn on_syscall(
    _id: u64,
    vcpu: c_uint,
    number: i64,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
    _a7: u64,
    _a8: u64,
) {
    let arguments = [a1, a2, a3, a4, a5, a6];
    let call = call(number as u64);
    beside_recording(vcpu, number, &arguments);
    if call == Call::Other {
        return;
    }
    let ring = events::ring_of(vcpu);
    if call == Call::Mark {
        tell_allocation(ring, &arguments);
        return;
    }
    for (kept, argument) in ring.arguments.iter().zip(arguments) {
        kept.store(argument, Ordering::Relaxed);
    }
    window::say_left_out(ring);
    if matches!(call, Call::Memory | Call::Clone) {
        ORDER.take();
        next_epoch(ring);
    }
    if !window::reporting() {
        tell_presence(ring, call, number, &arguments);
    }
    if call == Call::Clone && !makes_thread(number, a1) {
        let (child, number) = process::prepare_fork();
        CHILD.store(child, Ordering::Relaxed);
        FORKED.store(number, Ordering::Relaxed);
    }
    let mut message = [Kind::Syscall.word(number as u64), 0, 0, 0, 0, 0, 0];
    message[1..].copy_from_slice(&arguments);
    ring::put(ring, &message);
    if call == Call::Exec {
        exec::follow(ring, number, &arguments);
    }
    if matches!(call, Call::Exit | Call::ExitGroup) {
        ring::put(ring, &[Kind::ThreadEnd.word(0)]);
        threads::clear_ring(vcpu);
        faults::unwatch(vcpu);
        // SAFETY: nobody comes to it any more by its thread, which ends.
        unsafe { ring::close(ring) };
    }
}

/// Reports a mark of the preloaded library. What is had and given back is ordered among threads: memory that one gives
/// back another gets.
fn tell_allocation(ring: &Ring, arguments: &[u64; 6]) {
    let Some(mark) = Mark::of(arguments[0]) else {
        return;
    };
    // Held while callers are found, too: a fork does not come in between.
    ORDER.take();
    let message = allocation::message(mark, arguments);
    if mark != Mark::Begin {
        next_epoch(ring);
    }
    ring::put(ring, &message);
    ORDER.release();
}

/// Tells which pages are there before a call changes that, or what is known of it.
fn tell_presence(ring: &Ring, call: Call, number: i64, arguments: &[u64; 6]) {
    match call {
        Call::Memory => presence::before_call(ring, number, arguments),
        Call::Clone if !makes_thread(number, arguments[0]) => presence::tell_all(ring),
        Call::Exec | Call::ExitGroup => presence::tell_all(ring),
        // The program's touches come before what the kernel copies, too.
        Call::Exit | Call::Copy(_) | Call::Vector { .. } => presence::tell_faults(ring),
        Call::Clone | Call::Mark | Call::Other => {}
    }
}

/// Called by QEMU after each system call that returns.
pub extern "C" fn on_return(_id: u64, vcpu: c_uint, number: i64, result: i64) {
    let call = call(number as u64);
    if call == Call::Mark {
        return;
    }
    if call == Call::Other {
        say_refused(vcpu, number, result);
        return;
    }
    let child = CHILD.load(Ordering::Relaxed);
    if call == Call::Clone && result == 0 && child != NONE {
        CHILD.store(NONE, Ordering::Relaxed);
        ORDER.release();
        window::forked();
        process::become_child(child, FORKED.load(Ordering::Relaxed), vcpu);
        return;
    }
    let ring = events::ring_of(vcpu);
    let arguments = ring
        .arguments
        .each_ref()
        .map(|argument| argument.load(Ordering::Relaxed));
    if let Call::Vector { vectors, .. } = call
        && result > 0
    {
        put_vectors(ring, vectors, &arguments);
    }
    if call == Call::Memory {
        presence::after_call(ring, number, &arguments, result, window::reporting());
    }
    if number == MUNMAP {
        unwind::forget_at(arguments[0], arguments[1]);
    }
    let path = mapped_file(number, &arguments, result);
    if let Some(path) = &path {
        ring::put_bytes(ring, Kind::Path, path.as_os_str().as_bytes());
    }
    let fact = fact(number, &arguments, result, path.as_deref());
    ring::put(
        ring,
        &[Kind::SyscallReturn.word(number as u64), result as u64, fact],
    );
    if call == Call::Clone && child != NONE {
        CHILD.store(NONE, Ordering::Relaxed);
        if result > 0 {
            let number = FORKED.load(Ordering::Relaxed);
            ring::put(ring, &[Kind::Forked.word(u64::from(number))]);
        } else {
            process::cancel(child);
        }
    }
    if matches!(call, Call::Memory | Call::Clone) {
        next_epoch(ring);
        ORDER.release();
    }
}

/// Work for the plugin that calls ask for beside what they leave in a recording, if any.
fn beside_recording(vcpu: c_uint, number: i64, arguments: &[u64; 6]) {
    match number {
        KILL | TKILL | RT_SIGQUEUEINFO => say_no_signal(vcpu, number, arguments[1]),
        TGKILL | RT_TGSIGQUEUEINFO => say_no_signal(vcpu, number, arguments[2]),
        SET_ROBUST_LIST => process::set_robust_list(arguments[0], arguments[1]),
        PRCTL if !matches!(arguments[0] as i32, PR_CAPBSET_DROP | PR_SET_SECUREBITS) => {}
        SETUID | SETGID | SETREUID | SETREGID | SETRESUID | SETRESGID | SETFSUID | SETFSGID
        | CAPSET | PRCTL | UNSHARE | SETNS => {
            if let Some(again) = process::again() {
                again.keep_memory();
            }
        }
        _ => {}
    }
}

/// Reports a call that sends a signal which QEMU does not have: it has four fewer than Linux, and
/// calls the last EINVAL.
fn say_no_signal(vcpu: c_uint, number: i64, signal: u64) {
    if (61..=64).contains(&signal) {
        let message = [Kind::Refused.word(number as u64), libc::EINVAL as u64];
        ring::put(events::ring_of(vcpu), &message);
    }
}

/// Reports a call that failed as one that there is not. Those of which the arguments are needed to know
/// that are reported with them.
fn say_refused(vcpu: c_uint, number: i64, result: i64) {
    let error = -result as i32;
    // The plugin has made that call itself.
    if number == SET_ROBUST_LIST {
        return;
    }
    if error == libc::ENOSYS || error == libc::EINVAL && matches!(number, UNSHARE | SETNS) {
        let message = [Kind::Refused.word(number as u64), error as u64];
        ring::put(events::ring_of(vcpu), &message);
    }
}

/// True if a call of the clone family makes a thread and not a process. QEMU makes a fork of clone
/// with CLONE_VFORK, and does not know clone3.
fn makes_thread(number: i64, flags: u64) -> bool {
    number == CLONE && flags & CLONE_VM != 0 && flags & CLONE_VFORK == 0
}

/// Moves the epoch, and says so in this ring.
fn next_epoch(ring: &Ring) {
    let epoch = ring::header().epoch.0.fetch_add(1, Ordering::SeqCst) + 1;
    ring.epoch.store(epoch, Ordering::Relaxed);
    ring::put(ring, &[Kind::Epoch.word(epoch)]);
}

/// Fact that the recorder needs to know of a call apart from its arguments and result.
fn fact(number: i64, arguments: &[u64; 6], result: i64, path: Option<&Path>) -> u64 {
    const MREMAP: i64 = 25;
    const SHMAT: i64 = 30;
    const WAIT4: i64 = 61;
    const WAITID: i64 = 247;
    if (-4095..0).contains(&result) {
        return 0;
    }
    match number {
        MMAP => u64::from(path.is_some_and(is_memory_file)),
        MREMAP if leaves_the_old(arguments) => about_mapping(result as u64),
        WAIT4 => exit_status(arguments[1]),
        WAITID => exit_told(arguments[2]),
        SHMAT => segment_size(arguments[0] as i32),
        SETRLIMIT => u64::from(is_not_kept(arguments[0], arguments[1])),
        PRLIMIT64 => u64::from(is_not_kept(arguments[1], arguments[2])),
        _ => 0,
    }
}

/// The status that wait4 has stored; 0 if it was not asked to.
fn exit_status(address: u64) -> u64 {
    // Statuses are 32 bits; what follows in memory is of no interest.
    let mut word = [0u64];
    if address == 0 || !guest::words(address, &mut word) {
        return 0;
    }
    word[0] & 0xffff_ffff
}

/// The process and the status, as wait4 would have stored it, of which waitid has told in a siginfo_t; 0 if it has not.
fn exit_told(address: u64) -> u64 {
    // si_signo, si_errno; si_code; si_pid, si_uid; si_status: 32 bits each, and 32 left out.
    let mut about = [0u64; 4];
    if address == 0 || !guest::words(address, &mut about) {
        return 0;
    }
    let [_, code, process, told] = about;
    let status = match code as i32 {
        libc::CLD_EXITED => (told & 0xff) << 8,
        libc::CLD_KILLED | libc::CLD_DUMPED => told & 0x7f,
        _ => return 0,
    };
    (process << 32) | status
}

/// True if a limit, of which the address is told, is one that QEMU grants and does not keep.
fn is_not_kept(resource: u64, address: u64) -> bool {
    let mut soft = [libc::RLIM_INFINITY];
    address != 0
        && guest::words(address, &mut soft)
        && match resource as u32 {
            libc::RLIMIT_AS | libc::RLIMIT_DATA => soft[0] != libc::RLIM_INFINITY,
            libc::RLIMIT_STACK => soft[0] < 1 << 20,
            _ => false,
        }
}

/// True if mremap leaves what there was as well.
fn leaves_the_old(arguments: &[u64; 6]) -> bool {
    arguments[1] == 0 || arguments[3] & libc::MREMAP_DONTUNMAP as u64 != 0
}

/// Mapping at an address: see [`MAPPED`].
fn about_mapping(address: u64) -> u64 {
    let at = guest::host_address(address);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let about = maps.lines().find_map(|line| about_line(line, at));
    about.unwrap_or(0)
}

/// Statement of a line of proc_pid_maps(5) about an address, if it is about it.
fn about_line(line: &str, at: u64) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let path = fields.nth(3).unwrap_or_default();
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap_or(0));
    if !(start..end).contains(&at) {
        return None;
    }
    let memory = path.is_empty() || is_memory_file(Path::new(path));
    let bits = [
        (permissions.contains('r'), 1),
        (permissions.contains('w'), 2),
        (permissions.contains('x'), 4),
        (permissions.contains('s'), MAPPED_SHARED),
        (memory, MAPPED_MEMORY),
    ];
    let about = bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit);
    Some(MAPPED | about.sum::<u64>())
}

/// The file that a call has mapped, if it has.
fn mapped_file(number: i64, arguments: &[u64; 6], result: i64) -> Option<PathBuf> {
    let descriptor = arguments[4] as i32;
    let anonymous = arguments[3] & libc::MAP_ANONYMOUS as u64 != 0;
    if number != MMAP || (-4095..0).contains(&result) || anonymous || descriptor < 0 {
        return None;
    }
    std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()
}

/// True if a file is memory: memfd, /dev/zero, System V.
fn is_memory_file(path: &Path) -> bool {
    let path = path.to_string_lossy();
    path.starts_with("/memfd:") || path == "/dev/zero" || path.starts_with("/SYSV")
}

/// Bytes of a System V shared memory segment; 0 if it cannot be asked.
fn segment_size(id: i32) -> u64 {
    // SAFETY: the kernel fills the structure, which lives during the call.
    unsafe {
        let mut about: libc::shmid_ds = std::mem::zeroed();
        if libc::shmctl(id, libc::IPC_STAT, &raw mut about) == 0 {
            about.shm_segsz as u64
        } else {
            0
        }
    }
}

/// Reports the memory of a call's I/O vectors.
fn put_vectors(ring: &Ring, vectors: Vectors, arguments: &[u64; 6]) {
    let (array, count) = match vectors {
        Vectors::Array => (arguments[1], arguments[2]),
        Vectors::Message => {
            // struct msghdr: name, its length, then the vectors and their number.
            let mut message = [0u64; 4];
            if !guest::words(arguments[1], &mut message) {
                return;
            }
            (message[2], message[3])
        }
    };
    // The kernel takes no more (UIO_MAXIOV).
    let mut words = vec![0u64; 2 * count.min(1024) as usize];
    if !guest::words(array, &mut words) {
        return;
    }
    for vector in words.chunks_exact(2) {
        ring::put(ring, &[Kind::Vector.word(0), vector[0], vector[1]]);
    }
}
