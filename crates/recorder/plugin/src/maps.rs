//! What the program has mapped before its first instruction.
//!
//! QEMU loads the program without a system call that a plugin sees. The recorder is given
//! /proc/self/maps from before and after, and takes the difference.

use std::fs;
use std::sync::Mutex;

use pagelab_recorder_wire::region::Ring;
use pagelab_recorder_wire::word::Kind;

use crate::ring;

static BEFORE: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// QEMU has set itself up and has not yet loaded the program.
pub fn before_loading() {
    let mut before = BEFORE.lock().unwrap_or_else(|broken| broken.into_inner());
    if before.is_empty() {
        *before = read();
    }
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
