//! This process and its threads.

use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pagelab_recorder_wire::region::{Abandoned, Ring, State};

use crate::again::Again;
use crate::ring::Use;
use crate::{faults, guest, maps, presence, ring, threads};

/// No ring.
const NONE: usize = usize::MAX;

/// In place of a ring's number: there is none for the process, which is not recorded.
const UNRECORDED: usize = usize::MAX - 1;

/// For how many milliseconds all rings may be in use before that ends the recording.
const CLAIM_TRIES: u32 = 2000;

/// The ring that the process's first thread is to use, claimed by whoever started it.
static RESERVED: AtomicUsize = AtomicUsize::new(NONE);
/// The ring for definitions of blocks.
static DEFINITIONS: AtomicPtr<Ring> = AtomicPtr::new(std::ptr::null_mut());
/// The process's number.
static NUMBER: AtomicU32 = AtomicU32::new(0);
/// This program was loaded by QEMU in this process, rather than forked.
static LOADED: AtomicBool = AtomicBool::new(false);
static PLUGIN_ID: AtomicU64 = AtomicU64::new(0);
static AGAIN: OnceLock<Again> = OnceLock::new();

/// Remembers what was said at the start.
pub fn set_up(id: u64, reserved: usize, again: Again) {
    PLUGIN_ID.store(id, Ordering::Relaxed);
    RESERVED.store(reserved, Ordering::Relaxed);
    NUMBER.store(
        ring::ring(reserved).process.load(Ordering::Relaxed),
        Ordering::Relaxed,
    );
    LOADED.store(true, Ordering::Relaxed);
    // QEMU installs a plugin once.
    let _ = AGAIN.set(again);
}

/// Names this thread, and those that it makes: the program may ask for it (/proc/self/comm,
/// PR_GET_NAME), and others know it by that (pgrep, killall).
pub fn set_name(name: &str) {
    if let Ok(name) = CString::new(name)
        && !name.is_empty()
    {
        // SAFETY: a text that ends with a zero byte; the kernel takes what it has room for.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}

/// Parts of a command that starts QEMU for another program.
pub fn again() -> Option<&'static Again> {
    AGAIN.get()
}

/// QEMU's number of this plugin.
pub fn plugin_id() -> u64 {
    PLUGIN_ID.load(Ordering::Relaxed)
}

/// Tells the kernel of the thread's robust mutexes, of which QEMU says that there are none: who waits for one
/// is woken when its owner dies (get_robust_list(2)). The kernel follows the list by the program's
/// addresses, so these must be QEMU's; and its own list of such mutexes, which this replaces, is empty.
pub fn set_robust_list(head: u64, length: u64) {
    if guest::host_address(0) == 0 {
        // SAFETY: the kernel reads the list when the thread ends, and checks every address.
        unsafe { libc::syscall(libc::SYS_set_robust_list, head, length) };
    }
}

/// The process's number.
pub fn number() -> u32 {
    NUMBER.load(Ordering::Relaxed)
}

/// A ring for a thread that has none yet: the one reserved for the process's first thread, or
/// another.
pub fn new_thread() -> &'static Ring {
    let reserved = RESERVED.swap(NONE, Ordering::Relaxed);
    let (index, purpose) = match reserved {
        NONE => (claim(), Use::Thread),
        UNRECORDED => (None, Use::FirstThread),
        index => (Some(index), Use::FirstThread),
    };
    let Some(index) = index else {
        return ring::unread();
    };
    let ring = ring::open(index, number(), purpose);
    if LOADED.swap(false, Ordering::Relaxed) {
        maps::after_loading(ring);
    }
    ring
}

/// The ring for this process's definitions.
pub fn definitions() -> &'static Ring {
    // SAFETY: only rings that stay for as long as the process are entered.
    if let Some(ring) = unsafe { DEFINITIONS.load(Ordering::Relaxed).as_ref() } {
        return ring;
    }
    let ring = match claim() {
        Some(index) => ring::open(index, number(), Use::Definitions),
        None => ring::unread(),
    };
    DEFINITIONS.store(std::ptr::from_ref(ring).cast_mut(), Ordering::Relaxed);
    ring
}

/// Takes a free ring; `None` when nobody reads them any more. All may be in use for a while: the
/// recorder frees those of threads that have ended when it has read them, within milliseconds
/// unless it was stopped. It is the end of the recording when there is nothing that it could free.
fn claim() -> Option<usize> {
    let mut since = Instant::now();
    let mut tries = 0;
    while !ring::is_abandoned() {
        if let Some(index) = ring::claim() {
            return Some(index);
        }
        if ring::any_ended() {
            tries = 0;
        } else {
            tries += 1;
        }
        if tries > CLAIM_TRIES {
            ring::abandon(Abandoned::Full);
        }
        ring::look_for_recorder(&mut since);
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

/// A process about to be forked: a ring for its first thread, and its number.
pub fn prepare_fork() -> (usize, u32) {
    let child = ring::header()
        .next_process
        .0
        .fetch_add(1, Ordering::Relaxed);
    let Some(index) = claim() else {
        return (UNRECORDED, child);
    };
    let ring = ring::ring(index);
    ring.process.store(child, Ordering::Relaxed);
    ring.parent.store(number(), Ordering::Release);
    (index, child)
}

/// This process, about to be replaced by another program: a ring for that one's first thread, if there is any.
pub fn prepare_replacement() -> Option<usize> {
    let index = claim()?;
    ring::ring(index).process.store(number(), Ordering::Relaxed);
    Some(index)
}

/// The fork or the new program has not come about.
pub fn cancel(index: usize) {
    if index != UNRECORDED {
        ring::ring(index)
            .state
            .0
            .store(State::Free as u32, Ordering::Release);
    }
}

/// This is the forked child: the rings so far are the parent's.
pub fn become_child(index: usize, child: u32, vcpu: u32) {
    threads::clear_rings();
    DEFINITIONS.store(std::ptr::null_mut(), Ordering::Relaxed);
    NUMBER.store(child, Ordering::Relaxed);
    RESERVED.store(index, Ordering::Relaxed);
    faults::forget();
    let ring = new_thread();
    threads::set_ring(vcpu, ring);
    presence::watch(ring, vcpu);
}
