//! Deciding, when a block is translated, what it will report.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use pagelab_recorder_wire::block::{Block, Entry, Reporting};
use pagelab_recorder_wire::word::{ENTRY_SHIFT, Kind};

use crate::qemu::{self, Direction, OnAccess, Translation};
use crate::registers::Asked;
use crate::{events, guest, left_out, process, ring, window};

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
    if !window::reporting() {
        let accesses = analysed.script.len() as u64;
        let data = left_out::step(u64::from(analysed.instructions), accesses);
        translation.on_start(events::on_counted, data);
        return;
    }
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
            guest::note_guest_base((host as u64).wrapping_sub(translation.address(index)));
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
    for &prefetch in &block.prefetches {
        let instruction = block.script[usize::from(prefetch.entry)].instruction;
        // QEMU keeps the translation, and so this, until it needs the room, and does not say when that is.
        let asked = Box::leak(Box::new(Asked::new(prefetch)));
        translation.before(instruction.into(), events::on_prefetch, asked);
    }
    let mut first = 0;
    for entries in block.script.chunk_by(|a, b| a.instruction == b.instruction) {
        let opens = block.opening.map(u64::from);
        report_instruction(translation, entries, first, opens.map(|at| (number, at)));
        first += entries.len() as u64;
    }
}

/// Has the accesses of one instruction reported: entries of the script, numbered from `first`.
fn report_instruction(
    translation: Translation,
    entries: &[Entry],
    first: u64,
    opening: Option<(u32, u64)>,
) {
    let instruction = usize::from(entries[0].instruction);
    if entries[0].prefetch {
        return;
    }
    let number =
        |wanted: fn(&Entry) -> bool| (first..).zip(entries).find(|(_, entry)| wanted(entry));
    let Some((reported, entry)) = number(Entry::is_reported) else {
        return;
    };
    let verbatim = ring::header().verbatim != 0;
    if entry.alone {
        let direction = if entries.len() == 1 {
            Direction::Both
        } else {
            Direction::Once
        };
        let (callback, data): (OnAccess, u64) = match opening {
            Some((block, at)) if at == reported => {
                (events::on_opening, events::opening(block, at, entry.size))
            }
            _ if entry.is_single() && !verbatim => {
                (events::on_access, events::placed(reported, entry.size))
            }
            _ => (events::on_sized, reported << ENTRY_SHIFT),
        };
        translation.on_access(instruction, direction, callback, data);
        return;
    }
    let entry = |wanted| number(wanted).map_or(events::UNREPORTED, |(at, _)| at);
    let data = events::either(
        entry(|entry| entry.is_reported() && !entry.store),
        entry(|entry| entry.is_reported() && entry.store),
    );
    translation.on_access(instruction, Direction::Both, events::on_either, data);
}
