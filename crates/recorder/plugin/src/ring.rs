//! Writing into the rings.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use pagelab_recorder_wire::region::{self, Header, Ring, SLACK, State};
use pagelab_recorder_wire::word::Kind;

use crate::futex;

static HEADER: AtomicPtr<Header> = AtomicPtr::new(std::ptr::null_mut());

/// How often a writer that waits for room looks whether the recorder still lives.
const PATIENCE: Duration = Duration::from_millis(500);

/// Sets where the shared memory is mapped.
///
/// # Safety
/// `header` points to [`region::BYTES`] bytes that stay mapped and that the recorder has set up.
pub unsafe fn adopt(header: *mut Header) {
    HEADER.store(header, Ordering::Release);
}

/// The start of the shared memory.
#[inline(always)]
pub fn header() -> &'static Header {
    // SAFETY: `adopt` was called before any callback was registered.
    unsafe { &*HEADER.load(Ordering::Relaxed) }
}

/// Ring `index`.
pub fn ring(index: usize) -> &'static Ring {
    debug_assert!(index < region::RINGS);
    // SAFETY: inside the shared memory, see `adopt`; all fields are atomic.
    unsafe {
        &*HEADER
            .load(Ordering::Relaxed)
            .byte_add(region::ring_offset(index))
            .cast::<Ring>()
    }
}

/// Takes a free ring; `None` when all are in use.
pub fn claim() -> Option<usize> {
    let index = (0..region::RINGS).find(|&index| {
        let (free, claimed) = (State::Free as u32, State::Claimed as u32);
        let state = &ring(index).state.0;
        state
            .compare_exchange(free, claimed, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    })?;
    let used = &header().rings_used.0;
    used.fetch_max(index as u32 + 1, Ordering::AcqRel);
    let claimed = header().next_ring.0.fetch_add(1, Ordering::Relaxed);
    ring(index).claimed.store(claimed, Ordering::Relaxed);
    Some(index)
}

/// What a ring is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The events of the first thread of a process.
    FirstThread,
    /// The events of another thread.
    Thread,
    /// The definitions of a process's blocks.
    Definitions,
}

/// Makes an empty ring of this process out of a claimed one, and shows it to the recorder.
pub fn open(index: usize, process: u32, purpose: Use) -> &'static Ring {
    let ring = ring(index);
    let base = std::ptr::from_ref(ring) as u64 + size_of::<Ring>() as u64;
    let words = region::ring_words(index) as u64;
    ring.base.store(base, Ordering::Relaxed);
    ring.words.store(words, Ordering::Relaxed);
    ring.write.store(base, Ordering::Relaxed);
    ring.read.0.store(0, Ordering::Relaxed);
    ring.limit
        .store(base + 8 * (words - 1 - SLACK as u64), Ordering::Relaxed);
    ring.epoch.store(0, Ordering::Relaxed);
    ring.waiting.store(0, Ordering::Relaxed);
    for counter in &ring.left_out {
        counter.store(0, Ordering::Relaxed);
    }
    for allowance in &ring.allowance {
        allowance.store(0, Ordering::Relaxed);
    }
    ring.process.store(process, Ordering::Relaxed);
    let is = |other| u32::from(purpose == other);
    ring.first.store(is(Use::FirstThread), Ordering::Relaxed);
    ring.definitions
        .store(is(Use::Definitions), Ordering::Relaxed);
    // SAFETY: these calls only return numbers.
    let (pid, tid) = unsafe { (libc::getpid(), libc::gettid()) };
    ring.pid.store(pid as u32, Ordering::Relaxed);
    ring.tid.store(tid as u32, Ordering::Relaxed);
    ring.state.0.store(State::Open as u32, Ordering::Release);
    ring
}

/// Shows the recorder that nothing more will be written.
pub fn close(ring: &Ring) {
    ring.state.0.store(State::Ended as u32, Ordering::Release);
}

/// A place for up to [`SLACK`] words.
#[inline(always)]
pub fn room(ring: &Ring) -> *mut u64 {
    let write = ring.write.load(Ordering::Relaxed);
    if write > ring.limit.load(Ordering::Relaxed) {
        return make_room(ring, SLACK);
    }
    write as *mut u64
}

/// Shows the recorder everything up to `end`.
#[inline(always)]
pub fn publish(ring: &Ring, end: *mut u64) {
    ring.write.store(end as u64, Ordering::Release);
}

/// Writes a message.
pub fn put(ring: &Ring, message: &[u64]) {
    let mut place = ring.write.load(Ordering::Relaxed) as *mut u64;
    if message.len() > SLACK || place as u64 > ring.limit.load(Ordering::Relaxed) {
        place = make_room(ring, message.len().max(SLACK));
    }
    // SAFETY: `place` has room for the message, inside the ring.
    let end = unsafe {
        std::ptr::copy_nonoverlapping(message.as_ptr(), place, message.len());
        place.add(message.len())
    };
    publish(ring, end);
}

/// Writes a message that holds bytes.
pub fn put_bytes(ring: &Ring, kind: Kind, bytes: &[u8]) {
    let mut message = vec![kind.word(bytes.len() as u64)];
    push_bytes(&mut message, bytes);
    put(ring, &message);
}

/// Appends bytes to a message, padded to whole words.
pub fn push_bytes(message: &mut Vec<u64>, bytes: &[u8]) {
    message.extend(bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    }));
}

/// Finds or waits for a place for `words` words on end.
#[cold]
#[inline(never)]
fn make_room(ring: &Ring, words: usize) -> *mut u64 {
    let base = ring.base.load(Ordering::Relaxed);
    // The last word is kept for the message that the ring continues at its start.
    let end = base + 8 * (ring.words.load(Ordering::Relaxed) - 1);
    let size = 8 * words as u64;
    let mut since = Instant::now();
    loop {
        let write = ring.write.load(Ordering::Relaxed);
        let read = base + 8 * ring.read.0.load(Ordering::Acquire);
        if header().abandoned.0.load(Ordering::Relaxed) != 0 {
            ring.write.store(base, Ordering::Relaxed);
            allow(ring, end);
            return base as *mut u64;
        }
        if write >= read {
            if write + size <= end {
                allow(ring, end);
                return write as *mut u64;
            }
            if base + size < read {
                // SAFETY: `write` is at most `end`, the ring's last word.
                unsafe { (write as *mut u64).write(Kind::Wrap.word(0)) };
                ring.write.store(base, Ordering::Release);
                allow(ring, read - 8);
                return base as *mut u64;
            }
        } else if write + size < read {
            allow(ring, read - 8);
            return write as *mut u64;
        }
        wait(ring, &mut since);
    }
}

/// Lets the writer go on up to `end`.
fn allow(ring: &Ring, end: u64) {
    ring.limit
        .store(end.saturating_sub(8 * SLACK as u64), Ordering::Relaxed);
}

/// Sleeps until the recorder has made room, or for a while, and looks now and then whether it lives.
fn wait(ring: &Ring, since: &mut Instant) {
    let read = ring.read.0.load(Ordering::Acquire);
    ring.waiting.store(1, Ordering::SeqCst);
    if ring.read.0.load(Ordering::SeqCst) == read {
        futex::wait(&ring.waiting, 1, Duration::from_millis(50));
    }
    if since.elapsed() > PATIENCE {
        *since = Instant::now();
        if !recorder_lives() && header().abandoned.0.swap(1, Ordering::Relaxed) == 0 {
            eprintln!("pagelab: the recorder has died; the program goes on unrecorded");
        }
    }
}

/// Whether the recorder is a process that runs (or is stopped), and not another one that has
/// got its number since.
fn recorder_lives() -> bool {
    let header = header();
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", header.recorder)) else {
        return false;
    };
    // The name, in parentheses, may hold anything; the fields after it start with the state (3).
    let Some((_, fields)) = stat.rsplit_once(") ") else {
        return false;
    };
    let mut fields = fields.split(' ');
    let state = fields.next();
    let start = fields.nth(18).and_then(|field| field.parse().ok());
    !matches!(state, Some("Z" | "X")) && start == Some(header.recorder_start)
}
