//! One recorded thread: from words to accesses.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use pagelab_events::{Batch, Flow, NO_SITE, Op, Stores};
use pagelab_recorder_wire::block::{AddressFrom, Block, REGISTERS, Source};
use pagelab_recorder_wire::word::{ADDRESS_BITS, ENTRY_SHIFT, MAX_ENTRIES, SIZE_SHIFT};

use crate::chains::Chains;
use crate::in_order::WordReader;
use crate::left_out::LeftOut;
use crate::loads::{Loads, dependence, merge, stored_load, youngest};
use crate::plan::Plan;
use crate::position::Position;
use crate::room::ROOM;

/// State of a thread while its words are read.
pub(crate) struct Thread {
    at: Position,
    chains: Chains,
    /// For each script entry of the current block the number and the address of its last access.
    made: Vec<LastAccess>,
    /// Accesses before the current block.
    before_block: u64,
    /// Script entries done.
    position: usize,
    /// The number of the current block; `None` after its end.
    block: Option<usize>,
}

#[derive(Clone, Copy, Default)]
struct LastAccess {
    number: u64,
    address: u64,
}

/// Reason for which reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Everything there is has been read.
    Empty,
    /// As many accesses as asked for have been read.
    Full,
    /// The next word is neither an access nor a block.
    Message,
    /// The next word starts a block, of this number, that was never executed before.
    New(usize),
}

impl Thread {
    /// A thread of a recording that has had so many chains.
    pub(crate) fn new(chains: Arc<AtomicU32>) -> Thread {
        Thread {
            at: Position::new(),
            chains: Chains::new(chains),
            made: vec![LastAccess::default(); MAX_ENTRIES],
            before_block: 0,
            position: 0,
            block: None,
        }
    }

    /// Instructions executed so far.
    pub(crate) fn instructions(&self) -> u64 {
        self.at.instructions
    }

    /// Reads blocks and accesses into `batch`, about `room` accesses at most.
    pub(crate) fn read(
        &mut self,
        reader: &mut impl WordReader,
        plans: &[Plan],
        batch: &mut Batch,
        room: usize,
    ) -> Stop {
        let end = batch.len() + room;
        loop {
            self.run(reader, plans, batch, end);
            if reader.is_empty() {
                return Stop::Empty;
            }
            if batch.len() >= end {
                return Stop::Full;
            }
            let word = reader.peek();
            if word >> 63 == 0 {
                if !self.access(word, reader, plans, batch) {
                    return Stop::Empty;
                }
            } else if word >> 32 == BLOCK {
                let number = word as u32 as usize;
                if plans.get(number).is_some_and(|plan| !plan.executed) {
                    return Stop::New(number);
                }
                reader.advance();
                self.finish_block(plans, batch);
                self.start_block(number, plans, batch);
            } else {
                return Stop::Message;
            }
        }
    }

    /// Reads regular blocks as long as there are any.
    fn run(&mut self, reader: &mut impl WordReader, plans: &[Plan], batch: &mut Batch, end: usize) {
        let done = self.run_blocks(reader.available(), plans, batch, end);
        reader.advance_by(done);
    }

    /// The same of these words; returns how many of them it has used.
    #[inline(always)]
    fn run_blocks(
        &mut self,
        words: &[u64],
        plans: &[Plan],
        batch: &mut Batch,
        end: usize,
    ) -> usize {
        let mut done = 0;
        make_room(batch, end);
        while let Some(&word) = words.get(done)
            && word >> 32 == BLOCK
            && batch.len() < end
            && let number = word as u32 as usize
            && let Some(plan) = plans.get(number)
            && plan.executed
        {
            if self.block.is_some() {
                self.finish_block(plans, batch);
                make_room(batch, end);
            }
            if let Some(chain) = self.chains.from(number) {
                let last = chain.last.and_then(|last| plans.get(last));
                let between = last.and_then(|last| last.between);
                if let Some(used) = chain.run(&words[done + 1..], &mut self.at, batch, between) {
                    self.chains.taken(number);
                    done += 1 + used;
                    continue;
                }
                self.chains.failed(number);
            }
            match plan.run(&words[done + 1..], &mut self.at, batch, plan.between) {
                Some(used) => done += 1 + used,
                None => {
                    self.chains.end(plans);
                    break;
                }
            }
            self.chains.note(number, plans);
        }
        done
    }

    /// Reads words of regular blocks; returns how many of them it has used, and how often chains were taken so far.
    #[cfg(test)]
    pub(crate) fn run_words(
        &mut self,
        words: &[u64],
        plans: &[Plan],
        batch: &mut Batch,
    ) -> (usize, u64) {
        let done = self.run_blocks(words, plans, batch, batch.len() + 1000);
        (done, self.chains.taken_in_all)
    }

    /// Forgets all chains.
    #[cfg(test)]
    pub(crate) fn forget_chains(&mut self) {
        self.chains = Chains::new(Arc::default());
    }

    fn start_block(&mut self, number: usize, plans: &[Plan], batch: &mut Batch) {
        let Some(plan) = plans.get(number) else {
            return;
        };
        let block = &plan.block;
        self.at.enter(block.pc);
        // Each further repetition of a string instruction executes its block anew.
        if block.repeats && block.pc == self.at.last_pc {
            self.at.instructions = self.at.instructions.saturating_sub(1);
        } else if let Some(code) = plan.code {
            let start = batch.len() as u32;
            batch.flow.push((start, Flow::Block(code.block)));
            batch.regular.push(false);
        }
        self.block = Some(number);
        self.position = 0;
        self.before_block = self.at.accesses;
        if block.reported == 0 {
            self.finish_block(plans, batch);
        }
    }

    /// Takes one reported access with all its pieces; `false` if some may yet come.
    fn access(
        &mut self,
        word: u64,
        reader: &mut impl WordReader,
        plans: &[Plan],
        batch: &mut Batch,
    ) -> bool {
        let index = (word >> ENTRY_SHIFT) as usize & (MAX_ENTRIES - 1);
        let address = word & ((1 << ADDRESS_BITS) - 1);
        let mut size = 1u16 << (word >> SIZE_SHIFT & 7);
        let Some(plan) = self.block.and_then(|number| plans.get(number)) else {
            // Without its block nothing is known of it but where it is.
            reader.advance();
            return true;
        };
        let block = &plan.block;
        let Some(entry) = block.script.get(index) else {
            reader.advance();
            return true;
        };
        if block.by_lines == Some(entry.instruction) {
            let Some(pieces) = take_line(reader, block) else {
                return false;
            };
            self.catch_up(plan, index, batch);
            for piece in pieces.into_iter().flatten() {
                self.make(plan, piece.index, piece.address, piece.size, batch);
                self.position = self.position.max(piece.index + 1);
            }
            return true;
        }
        if size < entry.size {
            match take_pieces(reader, entry.size) {
                Some(whole) => size = whole,
                None => return false,
            }
        } else {
            reader.advance();
        }
        self.catch_up(plan, index, batch);
        self.make(plan, index, address, size, batch);
        self.position = self.position.max(index + 1);
        if index + 1 == block.reported && entry.place == AddressFrom::ReportedAlways {
            self.finish_block(plans, batch);
        }
        true
    }

    /// Makes the accesses before entry `end` that were not reported because they follow from others.
    fn catch_up(&mut self, plan: &Plan, end: usize, batch: &mut Batch) {
        while self.position < end {
            let index = self.position;
            let entry = &plan.block.script[index];
            let address = match entry.place {
                AddressFrom::Fixed(address) => Some(address),
                AddressFrom::Relative { entry, offset } => {
                    let base = self.made[usize::from(entry)];
                    (base.number > self.before_block)
                        .then(|| base.address.wrapping_add_signed(offset))
                }
                AddressFrom::Reported | AddressFrom::ReportedAlways => None,
            };
            if let Some(address) = address {
                self.make(plan, index, address, entry.size, batch);
            }
            self.position += 1;
        }
    }

    /// Ends the current block: the rest of its accesses, and what its registers hold.
    pub(crate) fn finish_block(&mut self, plans: &[Plan], batch: &mut Batch) {
        let Some(plan) = self.block.take().and_then(|number| plans.get(number)) else {
            return;
        };
        let block = &plan.block;
        // A report that never came: the block was left there, by a signal or to be started anew.
        let missing = block.script[self.position.min(block.script.len())..]
            .iter()
            .position(|entry| entry.place == AddressFrom::ReportedAlways)
            .map(|index| self.position + index);
        self.catch_up(plan, missing.unwrap_or(block.script.len()), batch);
        let executed = missing.map_or(block.instructions, |index| {
            u32::from(block.script[index].instruction)
        });
        self.at.instructions += u64::from(executed);
        self.at.last_pc = block.last_pc;
        self.at.last_site = plan.code.map_or(NO_SITE, |code| code.last_site);
        if let (Some(branch), Some(exit), None) = (&block.branch, plan.exit, missing) {
            let producers = self.producers(branch.decided_by, &self.at.registers);
            (self.at.branches).leave(exit, producers, plan.between);
        }
        self.update_registers(block);
    }

    fn update_registers(&mut self, block: &Block) {
        let before = self.at.registers;
        for &(register, source) in &block.updates {
            self.at.registers[usize::from(register)] = self.producers(source, &before);
        }
        self.at.live = u32::MAX;
    }

    /// The loads that a value depends on.
    fn producers(&self, source: Source, registers: &[Loads; REGISTERS]) -> Loads {
        let made = |index: Option<u16>| {
            let number = index.map_or(0, |index| self.made[usize::from(index)].number);
            // One that was not made.
            if number > self.before_block {
                number
            } else {
                0
            }
        };
        let [one, other] = source.entries.map(made);
        merge(
            merge([one, 0], [other, 0]),
            youngest(source.registers, registers),
        )
    }

    fn make(&mut self, plan: &Plan, index: usize, address: u64, size: u16, batch: &mut Batch) {
        let entry = &plan.block.script[index];
        if let Some(code) = plan.code {
            let site = code.first_site + u32::from(entry.instruction);
            batch.site.push(site);
        }
        self.at.say_mispredicted(batch);
        let mut producers = self.producers(entry.producer, &self.at.registers);
        if entry.store {
            let [stored, _] = self.producers(entry.stored, &self.at.registers);
            let stored = stored_load(self.at.accesses + 1, stored);
            self.at.stores.put(address, size, stored);
        } else if !entry.prefetch {
            let found = self.at.stores.find(address, size);
            if self.at.accesses + 1 - found <= Stores::REACH {
                producers = merge(producers, [found, 0]);
            }
        }
        if self.at.branches.controlled > 0 {
            self.at.branches.controlled -= 1;
            producers = merge(producers, self.at.branches.controlled_by);
        }
        self.at.accesses += 1;
        let instruction = self.at.instructions + u64::from(entry.instruction);
        let gap = instruction.saturating_sub(self.at.next) as u32;
        let continues = instruction < self.at.next;
        self.at.next = self.at.next.max(instruction + 1);
        self.made[index] = LastAccess {
            number: self.at.accesses,
            address,
        };
        batch.addr.push(address);
        let op = if entry.prefetch {
            Op::PREFETCH
        } else if entry.store {
            Op::store(size)
        } else {
            Op::load(size)
        };
        batch.op.push(op.continuing(continues));
        batch.gap.push(gap);
        let dep = dependence(self.at.accesses, producers, self.at.forgotten);
        batch.dep.push(dep);
    }

    /// Accesses and instructions have been left out.
    pub(crate) fn leave_out(&mut self, left_out: LeftOut) {
        self.at.branches.forget();
        self.at.instructions += left_out.instructions;
        self.at.next = self.at.instructions;
        self.forget_all_but(0);
    }

    /// Only the last few accesses are recorded: nothing depends on earlier ones.
    pub(crate) fn forget_all_but(&mut self, accesses: usize) {
        self.at.forgotten = self.at.accesses - accesses as u64;
    }

    /// A system call has changed memory, or the program's view of it; and by the time it returns,
    /// what was stored before is in the cache.
    pub(crate) fn forget_stores(&mut self) {
        self.at.stores.clear();
    }

    /// Adds an access that the kernel makes for this thread, in a system call: the last
    /// instruction of the block before.
    pub(crate) fn by_kernel(&mut self, address: u64, op: Op, batch: &mut Batch, with_code: bool) {
        if with_code {
            batch.site.push(self.at.last_site);
        }
        self.at.say_mispredicted(batch);
        self.at.accesses += 1;
        let gap = self.at.instructions.saturating_sub(self.at.next + 1) as u32;
        let continues = self.at.instructions <= self.at.next;
        self.at.next = self.at.next.max(self.at.instructions);
        batch.addr.push(address);
        batch.op.push(op.by_kernel().continuing(continues));
        batch.gap.push(gap);
        batch.dep.push(0);
    }
}

/// The first 32 bits of a word that starts a block: see [`pagelab_recorder_wire::word`].
const BLOCK: u64 = pagelab_recorder_wire::word::Kind::Block.word(0) >> 32;

/// Makes room in the columns for accesses up to number `end`, and for another block's.
fn make_room(batch: &mut Batch, end: usize) {
    let room = end.saturating_sub(batch.len()) + ROOM;
    batch.addr.reserve(room);
    batch.op.reserve(room);
    batch.gap.reserve(room);
    batch.dep.reserve(room);
    batch.site.reserve(room);
}

/// Bytes that are loaded, or stored, of a line by an instruction that moves or fills memory.
#[derive(Clone, Copy)]
struct OfLine {
    index: usize,
    address: u64,
    size: u16,
}

/// Takes as many elements of an instruction that moves or fills memory as lie in one line, on either side:
/// up to the first that does not follow the one before. `None` if more of them may yet come.
///
/// Where the direction flag is clear processors move as much at a time as is best for them, a line at most,
/// whatever the size of an element (Intel's optimization manual, "Enhanced REP MOVSB and STOSB Operation").
fn take_line(reader: &mut impl WordReader, block: &Block) -> Option<[Option<OfLine>; 2]> {
    const LINE: u64 = 64;
    let start = reader.mark();
    let mut pieces: [Option<OfLine>; 2] = [None; 2];
    loop {
        if reader.is_empty() {
            if reader.is_final() {
                return Some(pieces);
            }
            reader.go_back(start);
            return None;
        }
        let word = reader.peek();
        let index = (word >> ENTRY_SHIFT) as usize & (MAX_ENTRIES - 1);
        let entry = block.script.get(index);
        if word >> 63 != 0 || entry.map(|entry| entry.instruction) != block.by_lines {
            return Some(pieces);
        }
        let address = word & ((1 << ADDRESS_BITS) - 1);
        let size = 1u16 << (word >> SIZE_SHIFT & 7);
        // In the order in which they are begun.
        let place = match &pieces {
            [Some(first), _] => usize::from(first.index != index),
            _ => 0,
        };
        let Some(piece) = &mut pieces[place] else {
            pieces[place] = Some(OfLine {
                index,
                address,
                size,
            });
            reader.advance();
            continue;
        };
        let follows = piece.address.wrapping_add(piece.size.into()) == address;
        let last = address.wrapping_add(u64::from(size) - 1);
        if !follows || last / LINE != piece.address / LINE {
            return Some(pieces);
        }
        piece.size += size;
        reader.advance();
    }
}

/// Takes the pieces in which QEMU makes one access of up to `size` bytes, and joins them. `None`
/// if the next piece may not have been written yet.
fn take_pieces(reader: &mut impl WordReader, size: u16) -> Option<u16> {
    let start = reader.mark();
    let first = reader.peek();
    let mut whole = 1u16 << (first >> SIZE_SHIFT & 7);
    reader.advance();
    while whole < size {
        if reader.is_empty() {
            if reader.is_final() {
                break;
            }
            reader.go_back(start);
            return None;
        }
        let word = reader.peek();
        let same_entry = (word ^ first) >> ENTRY_SHIFT == 0;
        let follows = (word ^ (first + u64::from(whole))) & ((1 << ADDRESS_BITS) - 1) == 0;
        if !same_entry || !follows {
            break;
        }
        whole += 1 << (word >> SIZE_SHIFT & 7);
        reader.advance();
    }
    Some(whole)
}
