//! Leaving out what is not in a window.
//!
//! Outside windows, blocks are translated with nothing but a count of their instructions and
//! accesses, so that the program runs at nearly its usual speed. To change over, QEMU throws its
//! translations away.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use pagelab_recorder_wire::region::{EARLY, Ring};
use pagelab_recorder_wire::word::Kind;

use crate::{faults, left_out, presence, process, qemu, ring};

/// Blocks are translated so that they report, in this process.
static REPORTING: AtomicU32 = AtomicU32::new(1);

/// A change has been asked for and has not yet happened.
static CHANGING: AtomicBool = AtomicBool::new(false);

/// The ring of the thread that has asked for it, on which it happens.
static CHANGER: AtomicPtr<Ring> = AtomicPtr::new(std::ptr::null_mut());

/// Has QEMU call the plugin again, of this number.
static REGISTER: OnceLock<fn(u64)> = OnceLock::new();

/// Takes over what the recorder wants. `register` registers all callbacks.
pub fn set_up(register: fn(u64)) {
    // QEMU installs a plugin once.
    let _ = REGISTER.set(register);
    REPORTING.store(wanted(), Ordering::Relaxed);
}

/// True if blocks are to report.
pub fn reporting() -> bool {
    REPORTING.load(Ordering::Relaxed) != 0
}

fn wanted() -> u32 {
    ring::header().reporting.0.load(Ordering::Acquire)
}

/// The epoch has moved: says so, and changes over if that is why. Returns where to write next.
#[cold]
#[inline(never)]
pub fn new_epoch(ring: &Ring, epoch: u64) -> *mut u64 {
    say_left_out(ring);
    ring.epoch.store(epoch, Ordering::Relaxed);
    ring::put(ring, &[Kind::Epoch.word(epoch)]);
    change(ring);
    ring::room(ring)
}

/// Says how much was left out since this was last said.
pub fn say_left_out(ring: &Ring) {
    let [instructions, accesses] = left_out::take(ring.vcpu.load(Ordering::Relaxed));
    if instructions == 0 {
        return;
    }
    ring::put(ring, &[Kind::Skipped.word(0), instructions, accesses]);
    let header = ring::header();
    if !reporting() {
        let counts = if header.in_instructions != 0 {
            instructions
        } else {
            accesses
        };
        header.left.0.fetch_sub(counts as i64, Ordering::AcqRel);
    }
}

/// Outside every window: looks whether one opens.
pub fn look(ring: &Ring) {
    let header = ring::header();
    say_left_out(ring);
    let remaining = header.left.0.load(Ordering::Acquire);
    if remaining <= EARLY && header.reporting.0.swap(1, Ordering::AcqRel) == 0 {
        header.epoch.0.fetch_add(1, Ordering::SeqCst);
    }
    // Less and less, so that no thread finds out late.
    let allowance = (remaining - EARLY).max(0) / 8;
    left_out::allow(ring.vcpu.load(Ordering::Relaxed), allowance as u64);
    if !reporting() && faults::many() {
        presence::tell_faults(ring);
    }
    let epoch = header.epoch.0.load(Ordering::Relaxed);
    if epoch != ring.epoch.load(Ordering::Relaxed) {
        new_epoch(ring, epoch);
    } else {
        change(ring);
    }
}

/// Has everything translated anew if the wrong translations are in use.
fn change(ring: &Ring) {
    if wanted() != REPORTING.load(Ordering::Relaxed) && !CHANGING.swap(true, Ordering::AcqRel) {
        CHANGER.store(std::ptr::from_ref(ring).cast_mut(), Ordering::Relaxed);
        qemu::reset(process::plugin_id(), on_reset);
    }
}

/// This process is a fork: a change that a thread of its parent has asked for will not come.
pub fn forked() {
    CHANGING.store(false, Ordering::Release);
}

/// Called by QEMU when it has forgotten all callbacks and translations. No block is executed meanwhile, but calls of
/// threads that are in the kernel may return: what they have to say is lost until callbacks are registered.
extern "C" fn on_reset(id: u64) {
    let before = REPORTING.swap(wanted(), Ordering::Relaxed);
    if let Some(register) = REGISTER.get() {
        register(id);
    }
    // SAFETY: the ring of this thread, which is in the midst of a block.
    match unsafe { CHANGER.load(Ordering::Relaxed).as_ref() } {
        Some(ring) if before == 0 => {
            say_left_out(ring);
            presence::tell_all(ring);
        }
        // Faults so far were taken by accesses that are reported.
        _ => faults::drop_all(),
    }
    CHANGING.store(false, Ordering::Release);
}
