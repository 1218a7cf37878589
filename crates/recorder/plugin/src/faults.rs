//! Page faults, with their addresses and in order.
//!
//! The kernel tells a process of its own faults (`PERF_COUNT_SW_PAGE_FAULTS`, perf_event_open(2)),
//! one record each, in a ring for each thread; descriptors are closed at once, as programs count
//! theirs. It does where perf_event_paranoid is at most 2 and no seccomp filter forbids it. With a
//! period of 1 no fault is throttled (`perf_swevent_event()`, Linux
//! 6.12). Records of a ring that is full are lost; presence then tells of these pages.

use std::ffi::c_uint;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::futex::Lock;

const PAGE: usize = 4096;
/// Pages of records, a power of two. Each user may have 129 locked for each processor, and each process 8 MiB more
/// (perf_event_mlock_kb, RLIMIT_MEMLOCK).
const RECORD_PAGES: usize = 32;
const WORDS: usize = RECORD_PAGES * PAGE / 8;
/// Threads beyond are not watched.
const THREADS: usize = 4096;

/// The rings of this process's threads, by the number of their virtual CPU; null where there is none.
static RINGS: [AtomicPtr<Records>; THREADS] = [const { AtomicPtr::new(null_mut()) }; THREADS];
/// One more than the highest number used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Some fault was not told: a thread isn't watched, or its ring was full.
static UNKNOWN: AtomicBool = AtomicBool::new(false);
/// Held while rings are read, or go.
static READING: Lock = Lock::new();

/// struct perf_event_mmap_page of linux/perf_event.h, and the records behind it.
#[repr(C)]
struct Records {
    about: [u64; 128],
    /// Bytes written by the kernel, ever.
    head: AtomicU64,
    /// Bytes read, ever.
    tail: AtomicU64,
    rest: [u64; 382],
    words: [AtomicU64; WORDS],
}

const _: () = assert!(size_of::<Records>() == (1 + RECORD_PAGES) * PAGE);

/// struct perf_event_attr of linux/perf_event.h, as far as its first version (PERF_ATTR_SIZE_VER0).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read: u64,
    flags: u64,
    rest: [u64; 2],
}

const SOFTWARE: u32 = 1;
const PAGE_FAULTS: u64 = 2;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_ADDRESS: u64 = 1 << 3;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const CLOSE_ON_EXEC: u64 = 1 << 3;
/// PERF_RECORD_SAMPLE.
const SAMPLE: u64 = 9;
/// More than the longest record has.
const MOST_WORDS: usize = 8;

/// Has the kernel tell of this thread's faults from now on.
///
/// # Errors
/// When it refuses.
pub fn watch(vcpu: c_uint) -> io::Result<()> {
    let Some(ring) = RINGS.get(vcpu as usize) else {
        UNKNOWN.store(true, Ordering::Relaxed);
        return Ok(());
    };
    let opened = open().inspect_err(|_| UNKNOWN.store(true, Ordering::Relaxed))?;
    USED.fetch_max(vcpu as usize + 1, Ordering::Relaxed);
    ring.store(opened, Ordering::Release);
    Ok(())
}

/// A ring of this thread's.
fn open() -> io::Result<*mut Records> {
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: PAGE_FAULTS,
        period: 1,
        sample: SAMPLE_TIME | SAMPLE_ADDRESS,
        flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    let (this_thread, any_processor, no_group) = (0, -1, -1);
    // SAFETY: the kernel reads the structure, and returns a descriptor that is nobody's yet; the mapping is new.
    let records = unsafe {
        let opened = libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_processor,
            no_group,
            CLOSE_ON_EXEC,
        );
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        let opened = OwnedFd::from_raw_fd(opened as i32);
        libc::mmap(
            null_mut(),
            size_of::<Records>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            opened.as_raw_fd(),
            0,
        )
    };
    if records == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(records.cast())
}

/// A thread ends.
pub fn unwatch(vcpu: c_uint) {
    let Some(ring) = RINGS.get(vcpu as usize) else {
        return;
    };
    READING.take();
    let records = ring.swap(null_mut(), Ordering::Relaxed);
    READING.release();
    if !records.is_null() {
        // SAFETY: mapped by `watch`, and nobody comes to it any more.
        unsafe { libc::munmap(records.cast(), size_of::<Records>()) };
    }
}

/// This process is a fork, which has none of its parent's rings (`VM_DONTCOPY`).
pub fn forget() {
    for ring in &RINGS[..USED.swap(0, Ordering::Relaxed)] {
        ring.store(null_mut(), Ordering::Relaxed);
    }
    // Another thread of the parent may have held it.
    READING.release();
}

/// True if all faults have been told so far.
pub fn are_known() -> bool {
    !UNKNOWN.load(Ordering::Relaxed)
}

fn rings() -> impl Iterator<Item = &'static Records> {
    let used = &RINGS[..USED.load(Ordering::Relaxed)];
    // SAFETY: mapped by `watch`, and not unmapped while `READING` is held, as it is by all who come here.
    used.iter()
        .filter_map(|ring| unsafe { ring.load(Ordering::Acquire).as_ref() })
}

/// True if a thread's ring will soon be full.
pub fn many() -> bool {
    READING.take();
    let many = rings().any(|ring| 2 * (ring.unread().end - ring.unread().start) > 8 * WORDS as u64);
    READING.release();
    many
}

/// Drops what there is.
pub fn drop_all() {
    READING.take();
    rings().for_each(|ring| ring.tail.store(ring.unread().end, Ordering::Release));
    READING.release();
}

/// The addresses at which faults were taken since this was last asked, in the order of time.
pub fn take() -> Vec<u64> {
    READING.take();
    let mut taken = Vec::new();
    rings().for_each(|ring| ring.take(&mut taken));
    READING.release();
    taken.sort_by_key(|&(time, _)| time);
    taken.into_iter().map(|(_, address)| address).collect()
}

impl Records {
    fn unread(&self) -> Range<u64> {
        self.tail.load(Ordering::Relaxed)..self.head.load(Ordering::Acquire)
    }

    /// Takes time and address of each record.
    fn take(&self, taken: &mut Vec<(u64, u64)>) {
        let unread = self.unread();
        if unread.end - unread.start > 8 * (WORDS - MOST_WORDS) as u64 {
            UNKNOWN.store(true, Ordering::Relaxed);
        }
        let word = |at: u64| self.words[(at / 8) as usize % WORDS].load(Ordering::Relaxed);
        let mut at = unread.start;
        while at < unread.end {
            // struct perf_event_header: a type, flags and a size.
            let header = word(at);
            if header & 0xffff_ffff == SAMPLE {
                taken.push((word(at + 8), word(at + 16)));
            }
            at += (header >> 48).max(8);
        }
        self.tail.store(unread.end, Ordering::Release);
    }
}
