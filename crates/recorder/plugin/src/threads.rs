//! Threads and their rings.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pagelab_recorder_wire::region::Ring;

use crate::left_out::{self, THREADS};

/// The ring of each virtual CPU, that is, of each thread of this process; null before its first
/// event. Untouched pages of this table cost nothing.
static RINGS: [AtomicPtr<Ring>; THREADS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; THREADS];

/// One more than the highest number used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// The ring of a thread, if it has one.
#[inline(always)]
pub fn ring(vcpu: c_uint) -> Option<&'static Ring> {
    let ring = RINGS[vcpu as usize % THREADS].load(Ordering::Relaxed);
    // SAFETY: only rings inside the shared memory, which stays mapped, are entered.
    unsafe { ring.as_ref() }
}

/// Gives a thread its ring.
pub fn set_ring(vcpu: c_uint, ring: &'static Ring) {
    let index = vcpu as usize % THREADS;
    ring.vcpu.store(vcpu, Ordering::Relaxed);
    USED.fetch_max(index + 1, Ordering::Relaxed);
    RINGS[index].store(std::ptr::from_ref(ring).cast_mut(), Ordering::Relaxed);
}

/// The thread has ended; its number may be used again.
pub fn clear_ring(vcpu: c_uint) {
    left_out::allow(vcpu, 0);
    RINGS[vcpu as usize % THREADS].store(std::ptr::null_mut(), Ordering::Relaxed);
}

/// No thread has a ring: this process is a fork, and the rings are its parent's.
pub fn clear_rings() {
    (0..USED.load(Ordering::Relaxed)).for_each(|vcpu| clear_ring(vcpu as c_uint));
}
