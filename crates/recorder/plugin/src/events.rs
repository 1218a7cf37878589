//! The callbacks that run at every block and every reported access.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use pagelab_recorder_wire::region::Ring;
use pagelab_recorder_wire::word::{ENTRY_SHIFT, Kind, SIZE_SHIFT};

use crate::registers::Asked;
use crate::{left_out, presence, process, qemu, ring, threads, window};

/// The ring of a thread.
#[inline(always)]
pub fn ring_of(vcpu: c_uint) -> &'static Ring {
    threads::ring(vcpu).unwrap_or_else(|| attach(vcpu))
}

#[cold]
#[inline(never)]
fn attach(vcpu: c_uint) -> &'static Ring {
    let ring = process::new_thread();
    threads::set_ring(vcpu, ring);
    presence::watch(ring, vcpu);
    ring
}

/// A block starts; `data` is the word that says so.
pub extern "C" fn on_block(vcpu: c_uint, data: *mut c_void) {
    let ring = ring_of(vcpu);
    let place = announce(ring, data as u64);
    ring::publish(ring, place);
}

/// A block starts outside every window; `data` is its [`left_out::step`].
pub extern "C" fn on_counted(vcpu: c_uint, data: *mut c_void) {
    if left_out::pass(vcpu, data as u64) {
        beyond(vcpu);
    }
}

/// A thread is beyond its allowance.
#[cold]
#[inline(never)]
extern "C" fn beyond(vcpu: c_uint) {
    window::look(ring_of(vcpu));
}

/// The data of [`on_access`]: the entry and its size.
pub fn placed(entry: u64, size: u16) -> u64 {
    entry << ENTRY_SHIFT | u64::from(size.trailing_zeros()) << SIZE_SHIFT
}

/// An access; `data` is its script entry and its size, in place.
pub extern "C" fn on_access(vcpu: c_uint, _info: u32, address: u64, data: *mut c_void) {
    let ring = ring_of(vcpu);
    let place = ring::room(ring);
    // SAFETY: `room` found a place for more than one word.
    unsafe {
        place.write(address | data as u64);
        ring::publish(ring, place.add(1));
    }
}

/// A prefetch is about to be executed; `data` is what it asks for, as [`Asked`].
pub extern "C" fn on_prefetch(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: that is what this callback is registered with, and it is never freed.
    let asked = unsafe { &*data.cast::<Asked>() };
    let ring = ring_of(vcpu);
    let place = ring::room(ring);
    // SAFETY: `room` found a place for more than one word.
    unsafe {
        place.write(asked.word());
        ring::publish(ring, place.add(1));
    }
}

/// An access whose size only QEMU knows; `data` is its script entry, in place.
pub extern "C" fn on_sized(vcpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    put_access(vcpu, info, address, data as u64);
}

/// No script entry: the access is not to be reported.
pub const UNREPORTED: u64 = 0xffff_ffff;

/// The data of [`on_either`]: the script entries of a load and of a store.
pub fn either(load: u64, store: u64) -> u64 {
    load << 32 | store
}

/// An access of an instruction that loads and stores. QEMU up to 8 calls this once for both when
/// an atomic instruction does them in one go. In 10.2, not in 10.0, the bit for loads may be set in a
/// store, too: it is also the last bit of how atomic the access is (`make_plugin_meminfo()`).
pub extern "C" fn on_either(vcpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    let data = data as u64;
    let directions = info >> LOAD_AT.load(Ordering::Relaxed);
    let stores = directions & 2 != 0;
    let loads = !stores || (directions & 1 != 0 && qemu::is_up_to_8());
    for (made, entry) in [(loads, data >> 32), (stores, data & UNREPORTED)] {
        if made && entry != UNREPORTED {
            put_access(vcpu, info, address, entry << ENTRY_SHIFT);
        }
    }
}

#[inline(always)]
fn put_access(vcpu: c_uint, info: u32, address: u64, entry: u64) {
    let ring = ring_of(vcpu);
    let place = ring::room(ring);
    // SAFETY: `room` found a place for more than one word.
    unsafe {
        place.write(access(info, address, entry));
        ring::publish(ring, place.add(1));
    }
}

/// The data of [`on_opening`]: the block, and the entry with its size.
pub fn opening(block: u32, entry: u64, size: u16) -> u64 {
    u64::from(block) << 32 | placed(entry, size) >> SIZE_SHIFT
}

/// The access that opens a block: both are reported at once.
pub extern "C" fn on_opening(vcpu: c_uint, _info: u32, address: u64, data: *mut c_void) {
    let ring = ring_of(vcpu);
    let (block, entry) = (data as u64 >> 32, data as u64 & 0xffff_ffff);
    let place = announce(ring, Kind::Block.word(block));
    // SAFETY: `announce` leaves room for another word.
    unsafe {
        place.write(address | entry << SIZE_SHIFT);
        ring::publish(ring, place.add(1));
    }
}

/// The word of an access.
#[inline(always)]
fn access(info: u32, address: u64, entry: u64) -> u64 {
    let size = info >> SIZE_AT.load(Ordering::Relaxed) & 7;
    address | u64::from(size) << SIZE_SHIFT | entry
}

/// Bits in which QEMU puts the size of an access, and whether it is a load; whether it is a store
/// is the next bit.
static SIZE_AT: AtomicU32 = AtomicU32::new(0);
static LOAD_AT: AtomicU32 = AtomicU32::new(0);

/// Sets where QEMU puts the size of an access, and whether it is a load.
pub fn set_info_positions(size: u32, load: u32) {
    SIZE_AT.store(size, Ordering::Relaxed);
    LOAD_AT.store(load, Ordering::Relaxed);
}

/// Writes a block's word, after the epoch when that has moved; there is room for one more word.
#[inline(always)]
fn announce(ring: &Ring, block: u64) -> *mut u64 {
    let mut place = ring::room(ring);
    let epoch = ring::header().epoch.0.load(Ordering::Relaxed);
    // SAFETY: `room` found a place for more than two words.
    unsafe {
        if epoch != ring.epoch.load(Ordering::Relaxed) {
            place = window::new_epoch(ring, epoch);
        }
        place.write(block);
        place.add(1)
    }
}
