//! A block's accesses, prepared for being recorded as fast as possible.

use pagelab_events::{Batch, Flow, Op, Stores, dependence::of_two};
use pagelab_recorder_wire::block::{Block, Entry, Place, REGISTERS, Source};
use pagelab_recorder_wire::word::{ADDRESS_BITS, SIZE_SHIFT};

use crate::branches::Branches;
use crate::code::Code;
use crate::loads::{Loads, MAX_DEP, also, dependence, merge, youngest};
use crate::reconvergence::Between;
use crate::thread::Position;

/// A block, and for a regular one the accesses it makes each time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) block: Block,
    /// Its accesses; none if the block is not regular: if what it accesses differs from time to time.
    steps: Box<[Step]>,
    regular: bool,
    /// Addresses that depend on loads of earlier blocks: of which step, and what makes them.
    late: Box<[(u16, Source)]>,
    /// Registers that hold what this block has loaded at its end, and depends on nothing else, and the
    /// step that loads it.
    loaded: Box<[(u8, u16)]>,
    /// Registers that hold what depends on others at its beginning, or on several loads.
    moved: Box<[(u8, Source)]>,
    /// The instruction of the first step, and the one after that of the last.
    first: u32,
    next: u32,
    /// What lies between its branch and the place where the branch's ways meet, if they do.
    pub(crate) between: Option<Between>,
    /// Whether it has been executed, by any thread.
    pub(crate) executed: bool,
    /// Its place in the recording, once it has one.
    pub(crate) code: Option<Code>,
    /// Its instructions, until it is executed: the length of each, and their bytes.
    pub(crate) lengths: Box<[u8]>,
    pub(crate) bytes: Box<[u8]>,
}

/// One access of a regular block.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The address, from what `base` says.
    offset: u64,
    base: Base,
    op: Op,
    gap: u16,
    dep: u32,
    /// Its instruction, once the block has its place in the recording.
    site: u32,
    value: Value,
}

/// Where the value of an access comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// It loads: from memory, where a store may have put it just before.
    Memory,
    /// It stores what this step has loaded, of the same block.
    Step(u16),
    /// It stores what depends on these registers.
    Registers(u32),
}

/// What an address is relative to: an earlier step, or one of the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Base(u16);

impl Base {
    /// The plugin reports the address.
    const REPORTED: Base = Base(u16::MAX);
    /// The address is always the same.
    const NOTHING: Base = Base(u16::MAX - 1);
}

impl Plan {
    /// The plan of a block of instructions with these lengths and bytes.
    pub(crate) fn new(block: Block, lengths: &[u8], bytes: &[u8]) -> Plan {
        let regular = !block.repeats
            && block
                .script
                .iter()
                .all(|entry| entry.place != Place::Reported && entry.size.is_power_of_two());
        let mut plan = Plan {
            regular,
            lengths: lengths.into(),
            bytes: bytes.into(),
            ..Plan::default()
        };
        if plan.regular {
            plan.prepare(&block);
        }
        plan.block = block;
        plan
    }

    /// Its instructions, for which it has no use any more: their lengths and bytes.
    pub(crate) fn take_code(&mut self) -> (Box<[u8]>, Box<[u8]>) {
        let lengths = std::mem::take(&mut self.lengths);
        let mut bytes = std::mem::take(&mut self.bytes).into_vec();
        // They came in whole words.
        bytes.truncate(lengths.iter().map(|&length| usize::from(length)).sum());
        (lengths, bytes.into())
    }

    /// Gives it its place in the recording.
    pub(crate) fn number(&mut self, code: Code) {
        for (step, entry) in self.steps.iter_mut().zip(&self.block.script) {
            step.site = code.first_site + u32::from(entry.instruction);
        }
        self.code = Some(code);
    }

    fn prepare(&mut self, block: &Block) {
        let script = &block.script;
        self.steps = (0..script.len()).map(|index| step(script, index)).collect();
        self.late = (0u16..)
            .zip(script)
            .filter(|(_, entry)| entry.producer.registers != 0)
            .map(|(index, entry)| (index, entry.producer))
            .collect();
        let only = |source: Source| match source {
            Source {
                entries: [Some(step), None],
                registers: 0,
            } => Some(step),
            _ => None,
        };
        let updates = &block.updates;
        self.loaded = (updates.iter())
            .filter_map(|&(register, source)| Some((register, only(source)?)))
            .collect();
        self.moved = (updates.iter())
            .filter(|&&(_, source)| only(source).is_none())
            .copied()
            .collect();
        let instruction = |entry: Option<&Entry>| entry.map_or(0, |entry| entry.instruction.into());
        self.first = instruction(script.first());
        self.next = instruction(script.last()) + 1;
    }

    /// Records one execution of the block, reported by `words` (those after the block's own).
    /// Returns how many of them it has used; `None`, and nothing is changed, if the block is not
    /// regular or the words are not all there or not those expected.
    #[inline(always)]
    pub(crate) fn run(
        &self,
        words: &[u64],
        position: &mut Position,
        batch: &mut Batch,
    ) -> Option<usize> {
        if !self.regular {
            return None;
        }
        let room = Room::after(batch, self.steps.len());
        let mut used = 0;
        for (index, step) in self.steps.iter().enumerate() {
            let address = match step.base {
                Base::REPORTED => {
                    let word = *words.get(used)?;
                    used += reported(words, used, word, index, step.op.size())?;
                    word & ((1 << ADDRESS_BITS) - 1)
                }
                Base::NOTHING => step.offset,
                Base(base) => room.address(base.into()).wrapping_add(step.offset),
            };
            room.put(index, address, step);
        }
        position.enter(self.block.pc);
        if !self.steps.is_empty() {
            position.say_mispredicted(batch);
            let first = position.instructions + u64::from(self.first);
            room.set_gap(0, first.saturating_sub(position.next) as u32);
            position.next = position.instructions + u64::from(self.next);
        }
        for &(index, source) in &*self.late {
            let number = position.accesses + u64::from(index) + 1;
            let dep = dependence(number, loads(source, position), position.forgotten);
            room.set_dep(index.into(), dep);
        }
        if position.branches.controlled > 0 {
            let (accesses, forgotten) = (position.accesses, position.forgotten);
            self.control(room, &mut position.branches, accesses, forgotten);
        }
        if let Some(branch) = &self.block.branch {
            let producers = loads(branch.decided_by, position);
            (position.branches).leave(self.block.last_pc, branch, producers, self.between);
        }
        self.follow_values(room, position);
        self.update(position);
        if let Some(code) = self.code {
            batch
                .flow
                .push((batch.len() as u32, Flow::Block(code.block)));
            position.last_site = code.last_site;
        }
        room.commit(batch, self.code.is_some());
        Some(used)
    }

    /// The first accesses come before the ways of a mispredicted branch meet, and wait for what decides
    /// it.
    #[cold]
    fn control(&self, room: Room, branches: &mut Branches, accesses: u64, forgotten: u64) {
        let controlled = usize::from(branches.controlled).min(self.steps.len());
        branches.controlled -= controlled as u16;
        for index in 0..controlled {
            for load in branches.controlled_by {
                let distance = accesses + index as u64 + 1 - load;
                if load > forgotten && distance <= MAX_DEP {
                    room.set_dep(index, also(room.dep(index), distance as u32));
                }
            }
        }
    }

    /// Follows values into memory and out of it. Addresses and dependences on what made them are there.
    #[inline(always)]
    fn follow_values(&self, room: Room, position: &mut Position) {
        let forgotten = position.forgotten;
        let mut number = position.accesses;
        for (index, step) in self.steps.iter().enumerate() {
            number += 1;
            let (address, size) = (room.address(index), step.op.size());
            let stored = match step.value {
                Value::Memory => {
                    let producer = position.stores.find(address, size);
                    let distance = number - producer;
                    let follows = (distance <= Stores::REACH) & (producer > forgotten);
                    let found = if follows { distance as u32 } else { 0 };
                    room.set_dep(index, also(room.dep(index), found));
                    continue;
                }
                Value::Step(load) => position.accesses + u64::from(load) + 1,
                Value::Registers(mask) => youngest(mask, &position.registers)[0],
            };
            position.stores.put(address, size, stored);
        }
    }

    /// Gives the registers their values that were moved from others, or made of several: `MOST` at the most.
    #[inline(always)]
    fn move_values<const MOST: usize>(&self, position: &mut Position) {
        let mut values = [[0; 2]; MOST];
        for (value, &(_, source)) in values.iter_mut().zip(&*self.moved) {
            *value = loads(source, position);
        }
        for (value, &(register, _)) in values.iter().zip(&*self.moved) {
            position.registers[usize::from(register)] = *value;
        }
    }

    #[inline(always)]
    fn update(&self, position: &mut Position) {
        // To clear room for all registers takes longer than to move a few.
        match self.moved.len() {
            0 => {}
            1..=4 => self.move_values::<4>(position),
            _ => self.move_values::<REGISTERS>(position),
        }
        for &(register, step) in &*self.loaded {
            position.registers[usize::from(register)] =
                [position.accesses + u64::from(step) + 1, 0];
        }
        position.accesses += self.steps.len() as u64;
        position.instructions += u64::from(self.block.instructions);
        position.last_pc = self.block.last_pc;
    }
}

/// The loads behind a value of the block that is executed next.
#[inline(always)]
fn loads(source: Source, position: &Position) -> Loads {
    if source.entries[0].is_none() {
        return youngest(source.registers, &position.registers);
    }
    let number = |step: u16| position.accesses + u64::from(step) + 1;
    let own = (source.entries).map(|step| step.map_or(0, number));
    if source.registers == 0 {
        own
    } else {
        merge(own, youngest(source.registers, &position.registers))
    }
}

/// How many words report an access of this size that starts with `word`, and that it is the one
/// expected: one, or two halves of 16 bytes.
#[inline(always)]
fn reported(words: &[u64], at: usize, word: u64, index: usize, size: u16) -> Option<usize> {
    let expected = |log2: u32| (index as u64) << 3 | u64::from(log2);
    let log2 = size.trailing_zeros();
    if word >> SIZE_SHIFT == expected(log2) {
        return Some(1);
    }
    let half = u64::from(size) / 2;
    let halves = size == 16
        && word >> SIZE_SHIFT == expected(log2 - 1)
        && words.get(at + 1) == Some(&(word + half));
    halves.then_some(2)
}

fn step(script: &[Entry], index: usize) -> Step {
    let entry = &script[index];
    let (base, offset) = match entry.place {
        Place::Reported | Place::ReportedAlways => (Base::REPORTED, 0),
        Place::Fixed(address) => (Base::NOTHING, address),
        Place::Relative { entry, offset } => (Base(entry), offset as u64),
    };
    let gap = match index
        .checked_sub(1)
        .map(|before| script[before].instruction)
    {
        Some(before) => entry.instruction.saturating_sub(before + 1),
        None => 0,
    };
    let [near, far] = (entry.producer.entries)
        .map(|load| load.map_or(0, |load| (index - usize::from(load)) as u32));
    Step {
        offset,
        base,
        op: if entry.store {
            Op::store(entry.size)
        } else {
            Op::load(entry.size)
        },
        gap,
        dep: of_two(near, far),
        site: 0,
        value: match entry.stored {
            _ if !entry.store => Value::Memory,
            // The youngest of them: what memory holds is followed by one load.
            Source {
                entries: [Some(load), _],
                ..
            } => Value::Step(load),
            Source { registers, .. } => Value::Registers(registers),
        },
    }
}

/// Places in the columns of a batch, from its end on.
#[derive(Clone, Copy)]
struct Room {
    addr: *mut u64,
    op: *mut Op,
    gap: *mut u32,
    dep: *mut u32,
    /// Of recordings without code, too: to write what nobody reads is faster than to ask.
    site: *mut u32,
    len: usize,
}

impl Room {
    /// Room for `len` accesses.
    #[inline(always)]
    fn after(batch: &mut Batch, len: usize) -> Room {
        batch.addr.reserve(len);
        batch.op.reserve(len);
        batch.gap.reserve(len);
        batch.dep.reserve(len);
        batch.site.reserve(len);
        Room {
            addr: batch.addr.spare_capacity_mut().as_mut_ptr().cast(),
            op: batch.op.spare_capacity_mut().as_mut_ptr().cast(),
            gap: batch.gap.spare_capacity_mut().as_mut_ptr().cast(),
            dep: batch.dep.spare_capacity_mut().as_mut_ptr().cast(),
            site: batch.site.spare_capacity_mut().as_mut_ptr().cast(),
            len,
        }
    }

    /// Makes the accesses that have been put part of the batch: all of them, perhaps with their sites.
    #[inline(always)]
    fn commit(self, batch: &mut Batch, with_sites: bool) {
        // SAFETY: `after` has reserved as much in each column, and `run` has put every access.
        unsafe {
            batch.addr.set_len(batch.addr.len() + self.len);
            batch.op.set_len(batch.op.len() + self.len);
            batch.gap.set_len(batch.gap.len() + self.len);
            batch.dep.set_len(batch.dep.len() + self.len);
            if with_sites {
                batch.site.set_len(batch.site.len() + self.len);
            }
        }
    }

    #[inline(always)]
    fn put(self, index: usize, addr: u64, step: &Step) {
        debug_assert!(index < self.len);
        // SAFETY: `run` puts the steps in order, and there is room for all of them.
        unsafe {
            self.addr.add(index).write(addr);
            self.op.add(index).write(step.op);
            self.gap.add(index).write(step.gap.into());
            self.dep.add(index).write(step.dep);
            self.site.add(index).write(step.site);
        }
    }

    #[inline(always)]
    fn address(self, index: usize) -> u64 {
        debug_assert!(index < self.len);
        // SAFETY: a step is relative only to an earlier one, which has been put.
        unsafe { self.addr.add(index).read() }
    }

    #[inline(always)]
    fn set_gap(self, index: usize, gap: u32) {
        debug_assert!(index < self.len);
        // SAFETY: there is at least one step.
        unsafe { self.gap.add(index).write(gap) }
    }

    #[inline(always)]
    fn dep(self, index: usize) -> u32 {
        debug_assert!(index < self.len);
        // SAFETY: every step has been put.
        unsafe { self.dep.add(index).read() }
    }

    #[inline(always)]
    fn set_dep(self, index: usize, dep: u32) {
        debug_assert!(index < self.len);
        // SAFETY: it is the number of a step.
        unsafe { self.dep.add(index).write(dep) }
    }
}
