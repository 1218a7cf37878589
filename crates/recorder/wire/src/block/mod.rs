//! Accesses of a translated block, in their order, and from what their addresses come.
//!
//! A callback for each access would more than triple the run time of an emulated program. Most
//! addresses follow from others in the same block, though: consecutive pushes, the fields of a
//! structure, the store of a read-modify-write instruction, anything relative to the instruction
//! pointer. The plugin reports only the rest, and the recorder adds what follows. Both sides
//! compute the same script from the same bytes.

mod address;
mod branch;
mod dependence;
mod entry;
mod operands;
mod path;
mod prefetch;
mod trusted;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, UsedMemory,
};

use crate::word::MAX_ENTRIES;
use address::Addresses;
pub use branch::Branch;
use dependence::Producers;
pub use dependence::Source;
pub use entry::{AddressFrom, Entry, Prefetch, Segment};
use operands::{operands, size};
pub use pagelab_registers::REGISTERS;
use pagelab_registers::{is_prefetch, reads, writes};
pub use path::Path;

/// A translated block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Address of the first instruction.
    pub pc: u64,
    /// Address of the last instruction.
    pub last_pc: u64,
    /// Number of instructions.
    pub instructions: u32,
    /// The first instruction is a repeated string instruction: QEMU then executes the block
    /// anew after some of the repetitions, or each.
    pub repeats: bool,
    /// The instruction that moves or fills memory (`rep movs`, `rep stos`), which processors do by whole
    /// lines; of several the last. None where there is none.
    pub by_lines: Option<u16>,
    /// The accesses in program order.
    pub script: Vec<Entry>,
    /// Number of entries of the script up to the last one that is reported.
    pub reported: usize,
    /// Registers that hold loaded values at the end that they did not hold at the beginning.
    pub updates: Vec<(u8, Source)>,
    /// The branch at its end, if it has one that may be mispredicted.
    pub branch: Option<Branch>,
    /// The script entry whose report announces the block as well, if there is one.
    pub opening: Option<u16>,
    /// Lines that its prefetches ask for.
    pub prefetches: Vec<Prefetch>,
}

/// Accesses that are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporting {
    /// Accesses whose addresses do not follow from others.
    Needed,
    /// All of them.
    Verbatim,
}

impl Block {
    /// The block at `pc` of instructions with these lengths and bytes.
    pub fn analyse(pc: u64, lengths: &[u8], bytes: &[u8], reporting: Reporting) -> Block {
        let mut analysis = Analysis::new(pc, reporting);
        let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut start = 0;
        for (index, &length) in lengths.iter().enumerate() {
            analysis.block.last_pc = pc + start as u64;
            // `start` is inside: QEMU decoded the same bytes, which end after the last length.
            if decoder.set_position(start).is_err() {
                break;
            }
            decoder.set_ip(pc + start as u64);
            decoder.decode_out(&mut instruction);
            // An instruction that iced and QEMU do not read alike is left to QEMU's reports alone.
            if instruction.is_invalid() || instruction.len() != usize::from(length) {
                analysis.unknown(index);
            } else {
                analysis.step(index, &instruction);
            }
            start += usize::from(length);
        }
        analysis.finish(lengths.len())
    }
}

fn moves_or_fills(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Movsb
            | Mnemonic::Movsw
            | Mnemonic::Movsd
            | Mnemonic::Movsq
            | Mnemonic::Stosb
            | Mnemonic::Stosw
            | Mnemonic::Stosd
            | Mnemonic::Stosq
    )
}

struct Analysis {
    block: Block,
    reporting: Reporting,
    info: InstructionInfoFactory,
    addresses: Addresses,
    producers: Producers,
    /// The last instruction goes on elsewhere than with the next one, or may.
    jumps: bool,
}

impl Analysis {
    fn new(pc: u64, reporting: Reporting) -> Analysis {
        Analysis {
            block: Block {
                pc,
                ..Block::default()
            },
            reporting,
            info: InstructionInfoFactory::new(),
            addresses: Addresses::new(),
            producers: Producers::new(),
            jumps: false,
        }
    }

    fn step(&mut self, index: usize, instruction: &Instruction) {
        let repeated = instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
        if index == 0 {
            self.block.repeats = repeated;
        }
        if repeated && moves_or_fills(instruction) {
            self.block.by_lines = Some(index as u16);
        }
        if is_prefetch(instruction) {
            self.prefetch(index, instruction);
            return;
        }
        let info = self.info.info(instruction).clone();
        let loads = operands(info.used_memory(), reads);
        let stores = operands(info.used_memory(), writes);
        let trusted = trusted::once(instruction) && loads.len() <= 1 && stores.len() <= 1;
        let load = self.access(index, instruction, &loads, false, trusted);
        let store = self.access(index, instruction, &stores, true, trusted);
        if let Some(store) = store {
            let stored = self.producers.stored(instruction, &info, load);
            self.block.script[usize::from(store)].stored = stored;
        }
        if !trusted::restarts(instruction) {
            self.note_alone(load, store);
        }
        let made_by = self.producers.step(instruction, &info, load);
        self.block.branch = Branch::of(instruction, made_by);
        self.jumps = instruction.flow_control() != FlowControl::Next;
        self.addresses.step(instruction, &info);
    }

    /// It writes no register, and nothing is placed by where it is: a report of it may have another address.
    fn prefetch(&mut self, index: usize, instruction: &Instruction) {
        let entry = self.push(Entry {
            instruction: index as u16,
            store: false,
            prefetch: true,
            size: 1,
            place: AddressFrom::ReportedAlways,
            producer: self.producers.address(&prefetch::operand(instruction)),
            stored: Source::NONE,
            alone: true,
        });
        let asked = entry.map(|entry| prefetch::asked(instruction, entry));
        self.block.prefetches.extend(asked);
        self.block.branch = None;
        self.jumps = false;
    }

    /// An instruction of which nothing is known: it may load and store, and write any register.
    fn unknown(&mut self, index: usize) {
        for store in [false, true] {
            self.push(Entry {
                instruction: index as u16,
                store,
                prefetch: false,
                size: 0,
                place: AddressFrom::Reported,
                producer: Source::NONE,
                stored: Source::NONE,
                alone: false,
            });
        }
        self.addresses.forget();
        self.producers.forget();
        self.block.branch = None;
    }

    /// Adds the load or the store of an instruction, with these memory operands.
    fn access(
        &mut self,
        index: usize,
        instruction: &Instruction,
        operands: &[UsedMemory],
        store: bool,
        trusted: bool,
    ) -> Option<u16> {
        let first = operands.first()?;
        let producer = operands.iter().fold(Source::NONE, |youngest, operand| {
            youngest.or(self.producers.address(operand))
        });
        let mut entry = Entry {
            instruction: index as u16,
            store,
            prefetch: false,
            size: size(instruction, first),
            place: AddressFrom::Reported,
            producer,
            stored: Source::NONE,
            alone: false,
        };
        let next = self.block.script.len() as u16;
        if trusted {
            entry.place = AddressFrom::ReportedAlways;
            if let Some(place) = self.addresses.locate(first, next)
                && self.may_follow(instruction, store)
            {
                entry.place = place;
            } else {
                self.addresses.remember(first, next);
            }
        }
        self.push(entry)
    }

    fn note_alone(&mut self, load: Option<u16>, store: Option<u16>) {
        let script = &mut self.block.script;
        match (load, store) {
            (Some(only), None) | (None, Some(only)) => script[usize::from(only)].alone = true,
            (Some(load), Some(store)) => {
                let back = AddressFrom::Relative {
                    entry: load,
                    offset: 0,
                };
                script[usize::from(load)].alone = script[usize::from(store)].place == back;
            }
            (None, None) => {}
        }
    }

    /// True if an access whose address is known may go without a report. An instruction that QEMU
    /// may give up in the middle and start anew (a locked one) reports its load.
    fn may_follow(&self, instruction: &Instruction, store: bool) -> bool {
        self.reporting == Reporting::Needed && (store || !trusted::restarts(instruction))
    }

    fn push(&mut self, entry: Entry) -> Option<u16> {
        let index = self.block.script.len();
        if index == MAX_ENTRIES {
            return None;
        }
        self.block.script.push(entry);
        Some(index as u16)
    }

    fn finish(mut self, instructions: usize) -> Block {
        self.block.instructions = instructions as u32;
        self.block.updates = self.producers.updates(self.jumps);
        if self.reporting == Reporting::Needed {
            self.block.opening = opening(&self.block.script);
        }
        self.block.reported = (self.block.script.iter())
            .rposition(Entry::is_reported)
            .map_or(0, |last| last + 1);
        self.block
    }
}

/// The first access that is reported, when exactly one report of it is sure to come.
fn opening(script: &[Entry]) -> Option<u16> {
    let first = script.iter().position(Entry::is_reported)?;
    script[first].is_single().then_some(first as u16)
}
