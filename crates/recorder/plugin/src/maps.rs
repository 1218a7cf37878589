//! Mappings of the program before its first instruction.
//!
//! QEMU loads the program without a system call that a plugin sees. The recorder is given
//! /proc/self/maps from before and after, and takes the difference.

use std::fs;
use std::sync::{Mutex, Once};

use pagelab_recorder_wire::region::Ring;
use pagelab_recorder_wire::word::Kind;

use crate::{qemu, ring};

static BEFORE: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static FIRST_VCPU: Once = Once::new();

/// The plugin is being installed: the program is not loaded yet.
pub fn on_install() {
    before_loading();
}

/// A virtual CPU has been made. QEMU up to 8 says so when it has set itself up and has not loaded
/// the program, which leaves less to tell apart; later ones say it when the program starts.
pub fn on_vcpu() {
    if qemu::is_up_to_8() {
        FIRST_VCPU.call_once(before_loading);
    }
}

fn before_loading() {
    *BEFORE.lock().unwrap_or_else(|broken| broken.into_inner()) = read();
}

/// The program is loaded: reports what is mapped.
pub fn after_loading(ring: &Ring) {
    let before = BEFORE.lock().unwrap_or_else(|broken| broken.into_inner());
    ring::put_bytes(ring, Kind::Maps, &before);
    ring::put_bytes(ring, Kind::Maps, &read());
}

/// The text of /proc/self/maps; empty if there is none, which the recorder then says.
fn read() -> Vec<u8> {
    fs::read("/proc/self/maps").unwrap_or_default()
}
