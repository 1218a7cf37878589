//! Deciding, when a block is translated, what it will report.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use pagelab_recorder_wire::block::{Block, Reporting};
use pagelab_recorder_wire::word::{ENTRY_SHIFT, Kind};

use crate::qemu::{self, Direction, OnAccess, Translation};
use crate::{events, process, ring};

/// QEMU translates one block at a time; the lock only says so to the compiler.
static SCRATCH: Mutex<Scratch> = Mutex::new(Scratch {
    lengths: Vec::new(),
    bytes: Vec::new(),
});

struct Scratch {
    lengths: Vec<u8>,
    bytes: Vec<u8>,
}

/// Called by QEMU for each block that it translates.
pub extern "C" fn on_translate(_id: u64, block: *mut qemu::Block) {
    let translation = Translation(block);
    let mut scratch = SCRATCH.lock().unwrap_or_else(|broken| broken.into_inner());
    scratch.read(translation);
    let reporting = if ring::header().verbatim == 0 {
        Reporting::Needed
    } else {
        Reporting::Verbatim
    };
    let pc = translation.address(0);
    let analysed = Block::analyse(pc, &scratch.lengths, &scratch.bytes, reporting);
    let number = ring::header().next_block.0.fetch_add(1, Ordering::Relaxed);
    scratch.define(number, pc);
    report(translation, &analysed, number);
}

impl Scratch {
    /// Reads the block's instructions.
    fn read(&mut self, translation: Translation) {
        self.lengths.clear();
        self.bytes.clear();
        for index in 0..translation.len() {
            let size = translation.size(index);
            let host = translation.host_address(index);
            process::note_guest_base((host as u64).wrapping_sub(translation.address(index)));
            self.lengths.push(size as u8);
            // SAFETY: QEMU has just read these bytes itself.
            self.bytes
                .extend_from_slice(unsafe { std::slice::from_raw_parts(host, size) });
        }
    }

    /// Tells the recorder what block `number` consists of.
    fn define(&self, number: u32, pc: u64) {
        let mut message = vec![0, u64::from(number), pc, self.lengths.len() as u64];
        ring::push_bytes(&mut message, &[&self.lengths[..], &self.bytes].concat());
        message[0] = Kind::Define.word(message.len() as u64 - 1);
        ring::put(process::definitions(), &message);
    }
}

/// Has the block and those of its accesses reported that the recorder cannot work out.
fn report(translation: Translation, block: &Block, number: u32) {
    if block.opening.is_none() {
        translation.on_start(events::on_block, Kind::Block.word(u64::from(number)));
    }
    for (index, entry) in block.script.iter().enumerate() {
        if !entry.is_reported() {
            continue;
        }
        let direction = if entry.store {
            Direction::Store
        } else {
            Direction::Load
        };
        let opens = block.opening == Some(index as u16);
        let data = if opens {
            events::opening(number, index as u16)
        } else {
            (index as u64) << ENTRY_SHIFT
        };
        translation.on_access(
            usize::from(entry.instruction),
            direction,
            access_callback(opens),
            data,
        );
    }
}

/// The callback for where this version of QEMU puts the size of an access.
fn access_callback(opens: bool) -> OnAccess {
    match (process::size_position(), opens) {
        (4, false) => events::on_access::<4>,
        (4, true) => events::on_opening::<4>,
        (5, false) => events::on_access::<5>,
        (5, true) => events::on_opening::<5>,
        (_, false) => on_access_anywhere,
        (_, true) => on_opening_anywhere,
    }
}

extern "C" fn on_access_anywhere(vcpu: u32, info: u32, address: u64, data: *mut c_void) {
    events::on_access::<0>(vcpu, info >> process::size_position(), address, data);
}

extern "C" fn on_opening_anywhere(vcpu: u32, info: u32, address: u64, data: *mut c_void) {
    events::on_opening::<0>(vcpu, info >> process::size_position(), address, data);
}
