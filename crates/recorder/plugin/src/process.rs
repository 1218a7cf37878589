//! This process and its threads.

use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use pagelab_recorder_wire::region::{RINGS, Ring, State};

use crate::again::Again;
use crate::ring::Use;
use crate::{maps, ring, threads};

/// No ring.
const NONE: usize = usize::MAX;

const CLAIM_TRIES: u32 = 2000;

/// The ring that the process's first thread is to use, claimed by whoever started it.
static RESERVED: AtomicUsize = AtomicUsize::new(NONE);
/// The ring for definitions of blocks.
static DEFINITIONS: AtomicUsize = AtomicUsize::new(NONE);
/// The process's number.
static NUMBER: AtomicU32 = AtomicU32::new(0);
/// Whether this program was loaded by QEMU in this process, rather than forked.
static LOADED: AtomicBool = AtomicBool::new(false);
/// Host address of the program's address 0.
static GUEST_BASE: AtomicU64 = AtomicU64::new(0);
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

/// Names this thread, and those that it makes: the program may ask for it (/proc/self/comm, PR_GET_NAME), and others know
/// it by that (pgrep, killall).
pub fn set_name(name: &str) {
    if let Ok(name) = CString::new(name)
        && !name.is_empty()
    {
        // SAFETY: a text that ends with a zero byte; the kernel takes what it has room for.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}

/// How to start QEMU for another program.
pub fn again() -> Option<&'static Again> {
    AGAIN.get()
}

/// What QEMU calls this plugin.
pub fn plugin_id() -> u64 {
    PLUGIN_ID.load(Ordering::Relaxed)
}

/// Notes where the program's address 0 lies in QEMU's memory.
pub fn note_guest_base(base: u64) {
    GUEST_BASE.store(base, Ordering::Relaxed);
}

/// Where the program's byte `address` lies in QEMU's memory.
pub fn host_address(address: u64) -> u64 {
    GUEST_BASE.load(Ordering::Relaxed).wrapping_add(address)
}

/// Tells the kernel of the thread's robust mutexes, of which QEMU says that there are none: who waits for one
/// is woken when its owner dies (get_robust_list(2)). The kernel follows the list by the program's
/// addresses, so these must be QEMU's; and its own list of such mutexes, which this replaces, is empty.
pub fn set_robust_list(head: u64, length: u64) {
    if host_address(0) == 0 {
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
    let index = if reserved == NONE { claim() } else { reserved };
    let purpose = if reserved == NONE {
        Use::Thread
    } else {
        Use::FirstThread
    };
    let ring = ring::open(index, number(), purpose);
    if LOADED.swap(false, Ordering::Relaxed) {
        maps::after_loading(ring);
    }
    ring
}

/// The ring for this process's definitions.
pub fn definitions() -> &'static Ring {
    let index = DEFINITIONS.load(Ordering::Relaxed);
    if index != NONE {
        return ring::ring(index);
    }
    let index = claim();
    DEFINITIONS.store(index, Ordering::Relaxed);
    ring::open(index, number(), Use::Definitions)
}

/// Takes a free ring. When there is none for a while the recording ends: the recorder frees
/// rings within milliseconds once their threads have ended.
fn claim() -> usize {
    for _ in 0..CLAIM_TRIES {
        if let Some(index) = ring::claim() {
            return index;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    ring::header().abandoned.0.store(1, Ordering::Release);
    // Nobody reads any more what its owner and we write there.
    RINGS - 1
}

/// A process about to be forked: a ring for its first thread, and its number.
pub fn prepare_fork() -> (usize, u32) {
    let index = claim();
    let child = ring::header()
        .next_process
        .0
        .fetch_add(1, Ordering::Relaxed);
    ring::ring(index).process.store(child, Ordering::Relaxed);
    (index, child)
}

/// This process, about to be replaced by another program: a ring for that one's first thread.
pub fn prepare_replacement() -> usize {
    let index = claim();
    ring::ring(index).process.store(number(), Ordering::Relaxed);
    index
}

/// The fork or the new program has not come about.
pub fn cancel(index: usize) {
    ring::ring(index)
        .state
        .0
        .store(State::Free as u32, Ordering::Release);
}

/// This is the forked child: the rings so far are the parent's.
pub fn become_child(index: usize, vcpu: u32) {
    threads::clear_rings();
    DEFINITIONS.store(NONE, Ordering::Relaxed);
    NUMBER.store(
        ring::ring(index).process.load(Ordering::Relaxed),
        Ordering::Relaxed,
    );
    RESERVED.store(index, Ordering::Relaxed);
    threads::set_ring(vcpu, new_thread());
}
