//! The callbacks that run at every block and every reported access.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pagelab_recorder_wire::region::Ring;
use pagelab_recorder_wire::word::{ENTRY_SHIFT, Kind};

use crate::{process, ring};

/// Linux has at most so many threads (PID_MAX_LIMIT), and QEMU numbers them from 0.
const THREADS: usize = 1 << 22;

/// The ring of each virtual CPU, that is, of each thread of this process; null before its first
/// event. Untouched pages of this table cost nothing.
static RINGS: [AtomicPtr<Ring>; THREADS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; THREADS];

/// One more than the highest number used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// The ring of a thread.
#[inline(always)]
pub fn ring_of(vcpu: c_uint) -> &'static Ring {
    let ring = RINGS[vcpu as usize % THREADS].load(Ordering::Relaxed);
    if ring.is_null() {
        return attach(vcpu);
    }
    // SAFETY: only rings inside the shared memory, which stays mapped, are entered.
    unsafe { &*ring }
}

#[cold]
#[inline(never)]
fn attach(vcpu: c_uint) -> &'static Ring {
    let ring = process::new_thread();
    set_ring(vcpu, ring);
    ring
}

/// Gives a thread its ring.
pub fn set_ring(vcpu: c_uint, ring: &'static Ring) {
    let index = vcpu as usize % THREADS;
    USED.fetch_max(index + 1, Ordering::Relaxed);
    RINGS[index].store(std::ptr::from_ref(ring).cast_mut(), Ordering::Relaxed);
}

/// The thread has ended; its number may be used again.
pub fn clear_ring(vcpu: c_uint) {
    RINGS[vcpu as usize % THREADS].store(std::ptr::null_mut(), Ordering::Relaxed);
}

/// No thread has a ring: this process is a fork, and the rings are its parent's.
pub fn clear_rings() {
    for ring in &RINGS[..USED.load(Ordering::Relaxed)] {
        ring.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

/// A block starts; `data` is the word that says so.
pub extern "C" fn on_block(vcpu: c_uint, data: *mut c_void) {
    let ring = ring_of(vcpu);
    let place = announce(ring, data as u64);
    ring::publish(ring, place);
}

/// An access; `data` says which one of the block.
pub extern "C" fn on_access<const AT: u32>(
    vcpu: c_uint,
    info: u32,
    address: u64,
    data: *mut c_void,
) {
    let ring = ring_of(vcpu);
    let place = ring::room(ring);
    // SAFETY: `room` found a place for more than one word.
    unsafe {
        place.write(ring::access::<AT>(info, address, data as u64));
        ring::publish(ring, place.add(1));
    }
}

/// The data of [`on_opening`]: block and entry.
pub fn opening(block: u32, entry: u16) -> u64 {
    u64::from(block) << 32 | u64::from(entry)
}

/// The access that opens a block: both are reported at once.
pub extern "C" fn on_opening<const AT: u32>(
    vcpu: c_uint,
    info: u32,
    address: u64,
    data: *mut c_void,
) {
    let ring = ring_of(vcpu);
    let (block, entry) = (data as u64 >> 32, data as u64 & 0xffff_ffff);
    let place = announce(ring, Kind::Block.word(block));
    // SAFETY: `announce` leaves room for another word.
    unsafe {
        place.write(ring::access::<AT>(info, address, entry << ENTRY_SHIFT));
        ring::publish(ring, place.add(1));
    }
}

/// Writes a block's word, after the epoch when that has moved; there is room for one more word.
#[inline(always)]
fn announce(ring: &Ring, block: u64) -> *mut u64 {
    let mut place = ring::room(ring);
    let epoch = ring::header().epoch.0.load(Ordering::Relaxed);
    // SAFETY: `room` found a place for more than three words.
    unsafe {
        if epoch != ring.epoch.load(Ordering::Relaxed) {
            ring.epoch.store(epoch, Ordering::Relaxed);
            place.write(Kind::Epoch.word(epoch));
            place = place.add(1);
        }
        place.write(block);
        place.add(1)
    }
}
