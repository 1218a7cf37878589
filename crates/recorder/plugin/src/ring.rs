//! Writing into the rings.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use pagelab_recorder_wire::life;
use pagelab_recorder_wire::region::{self, Abandoned, Header, NO_PARENT, Ring, SLACK, State};
use pagelab_recorder_wire::word::Kind;

use crate::futex;

static HEADER: AtomicPtr<Header> = AtomicPtr::new(std::ptr::null_mut());

/// Time after which a writer that waits for room looks whether the recorder still lives.
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
    ring(index).parent.store(NO_PARENT, Ordering::Relaxed);
    Some(index)
}

/// True if there are rings that the recorder has yet to read to their ends, and frees then.
pub fn any_ended() -> bool {
    (0..region::RINGS).any(|index| {
        let state = ring(index).state.0.load(Ordering::Acquire);
        State::from_u32(state) == Some(State::Ended)
    })
}

/// A ring that nobody reads, for who has got none any more. [`close`] ends it.
pub fn unread() -> &'static Ring {
    let layout = Layout::new::<Ring>();
    // SAFETY: all fields are atomic integers, of which zeros are valid.
    let ring = unsafe {
        let memory = alloc_zeroed(layout);
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        &*memory.cast::<Ring>()
    };
    // Beyond the limit, which is 0: the first word already goes elsewhere.
    ring.write.store(8, Ordering::Relaxed);
    ring
}

fn is_shared(ring: &Ring) -> bool {
    let start = HEADER.load(Ordering::Relaxed).addr();
    (start..start + region::BYTES).contains(&std::ptr::from_ref(ring).addr())
}

/// Use of a ring.
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
    ring.last.store(0, Ordering::Relaxed);
    for place in &ring.elsewhere {
        place.store(0, Ordering::Relaxed);
    }
    ring.limit
        .store(base + 8 * (words - 1 - SLACK as u64), Ordering::Relaxed);
    ring.epoch.store(0, Ordering::Relaxed);
    ring.waiting.store(0, Ordering::Relaxed);
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
///
/// # Safety
/// The ring is not used any more by this process.
pub unsafe fn close(ring: &'static Ring) {
    let [start, words] = &ring.elsewhere;
    free(
        start.load(Ordering::Relaxed) as *mut u64,
        words.load(Ordering::Relaxed) as usize,
    );
    if is_shared(ring) {
        ring.state.0.store(State::Ended as u32, Ordering::Release);
    } else {
        let memory = std::ptr::from_ref(ring).cast_mut().cast();
        // SAFETY: made by `unread` with this layout, and the caller promises that nobody uses it.
        unsafe { dealloc(memory, Layout::new::<Ring>()) };
    }
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
    if is_abandoned() {
        return elsewhere(ring, words);
    }
    let base = ring.base.load(Ordering::Relaxed);
    // The last word is kept for the message that the ring continues at its start.
    let end = base + 8 * (ring.words.load(Ordering::Relaxed) - 1);
    let size = 8 * words as u64;
    let mut since = Instant::now();
    loop {
        let write = ring.write.load(Ordering::Relaxed);
        let read = base + 8 * ring.read.0.load(Ordering::Acquire);
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
        wait(ring);
        look_for_recorder(&mut since);
        if is_abandoned() {
            return elsewhere(ring, words);
        }
    }
}

/// Lets the writer go on up to `end`.
fn allow(ring: &Ring, end: u64) {
    ring.limit
        .store(end.saturating_sub(8 * SLACK as u64), Ordering::Relaxed);
}

/// Words of a place for what nobody reads, unless a message is longer.
const ELSEWHERE: usize = 512;

/// A place for what nobody will read. What is in the ring stays as it is: the recorder may be reading it.
fn elsewhere(ring: &Ring, words: usize) -> *mut u64 {
    if ring.last.load(Ordering::Relaxed) == 0 {
        // A reader that sees where the writer goes from here sees this, too.
        let write = ring.write.load(Ordering::Relaxed);
        ring.last.store(write, Ordering::Release);
    }
    let [place, room] = &ring.elsewhere;
    let mut start = place.load(Ordering::Relaxed) as *mut u64;
    let mut len = room.load(Ordering::Relaxed) as usize;
    if len < words {
        free(start, len);
        len = words.max(ELSEWHERE);
        start = Box::into_raw(vec![0u64; len].into_boxed_slice()).cast();
        place.store(start as u64, Ordering::Relaxed);
        room.store(len as u64, Ordering::Relaxed);
    }
    allow(ring, start as u64 + 8 * len as u64);
    ring.write.store(start as u64, Ordering::Release);
    start
}

/// Frees what [`elsewhere`] has made.
fn free(start: *mut u64, len: usize) {
    if len > 0 {
        // SAFETY: a boxed slice of so many words, which only the ring knew of.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, len)) });
    }
}

/// Sleeps until the recorder has made room, or for a while.
fn wait(ring: &Ring) {
    let read = ring.read.0.load(Ordering::Acquire);
    ring.waiting.store(1, Ordering::SeqCst);
    if ring.read.0.load(Ordering::SeqCst) == read {
        futex::wait(&ring.waiting, 1, Duration::from_millis(50));
    }
}

/// Looks now and then whether the recorder lives that somebody has been waiting for since then.
pub fn look_for_recorder(since: &mut Instant) {
    if since.elapsed() <= PATIENCE {
        return;
    }
    *since = Instant::now();
    // SAFETY: the recorder lived when it mapped the memory and started us.
    if !unsafe { life::goes_on(header()) } && abandon(Abandoned::Dead) {
        eprintln!("pagelab: the recorder has died; the program goes on unrecorded");
    }
}

/// True if nobody reads the rings any more.
pub fn is_abandoned() -> bool {
    header().abandoned.0.load(Ordering::Acquire) != 0
}

/// From now on nobody reads the rings; whether that is new.
pub fn abandon(why: Abandoned) -> bool {
    let abandoned = &header().abandoned.0;
    let (acq, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
    (abandoned.compare_exchange(0, why as u32, acq, relaxed)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    /// Memory as the recorder makes it, without one.
    fn shared_memory() {
        // SAFETY: a new mapping, never unmapped, of zeros: all rings are free.
        unsafe {
            let memory = libc::mmap(
                std::ptr::null_mut(),
                region::BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            );
            assert_ne!(memory, libc::MAP_FAILED);
            adopt(memory.cast());
        }
    }

    /// A ring that a recorder may still be reading stays, and shows nothing new.
    #[test]
    fn nothing_is_written_into_rings_that_nobody_reads() {
        shared_memory();
        let index = claim().expect("all are free");
        let shared = open(index, 0, Use::FirstThread);
        let nth = |at: usize| Kind::Block.word(at as u64);
        let words = region::ring_words(index);
        // There is no room behind the last one.
        let full = words - SLACK;
        (0..full).for_each(|at| put(shared, &[nth(at)]));
        let last = shared.write.load(Ordering::Relaxed);
        assert!(abandon(Abandoned::Full) && !abandon(Abandoned::Dead));
        let long = vec![nth(0); 3 * ELSEWHERE];
        for _ in 0..2 * words {
            put(shared, &[nth(1), nth(2)]);
        }
        put(shared, &long);
        put(shared, &[nth(3)]);
        assert_eq!(shared.last.load(Ordering::Relaxed), last);
        let base = shared.base.load(Ordering::Relaxed) as *const u64;
        // SAFETY: inside the ring, which nobody writes to now.
        assert!((0..full).all(|at| unsafe { base.add(at).read() } == nth(at)));
        // Nor is a ring waited for, and one that is none takes everything.
        let (child, _) = process::prepare_fork();
        process::cancel(child);
        assert_eq!(process::prepare_replacement(), None);
        let none = unread();
        for _ in 0..words {
            put(none, &[nth(1)]);
        }
        put(none, &long);
        assert!(!is_shared(none) && is_shared(shared));
        // SAFETY: neither is used any more.
        unsafe {
            close(none);
            close(shared);
        }
    }
}
