//! A block's accesses, prepared for being recorded as fast as possible.

use std::sync::atomic::{AtomicU32, Ordering};

use pagelab_events::{Batch, ChainRun, Flow, Op, Stores, dependence::of_two};
use pagelab_recorder_wire::block::{AddressFrom, Block, Entry, REGISTERS, Source};
use pagelab_recorder_wire::word::{ADDRESS_BITS, ENTRY_SHIFT, Kind, SIZE_SHIFT};

use crate::branches::{Branches, Crossing, Exit};
use crate::joined::joined;
use crate::loads::{Loads, MAX_DEP, also, dependence, stored_load};
use crate::place::Code;
use crate::position::{Position, SETS};
use crate::reconvergence::{Between, Ways};
use crate::room::{GROUP, Group, Room};

/// A block, and for a regular one the accesses it makes each time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) block: Block,
    /// Its accesses are the same each time, but for their places.
    regular: bool,
    /// Its accesses, if it is regular, and what is known of them beforehand.
    len: usize,
    groups: Box<[Group]>,
    /// Accesses whose addresses the plugin reports, in order; whether some may come in pieces.
    reported: Box<[Reported]>,
    in_pieces: bool,
    /// Branches between several blocks, and where among the accesses each begins, with its place in the recording; of
    /// one the latter.
    crossings: Box<[Crossing]>,
    /// For several the number of the last, and what is said of them in the flow, from 0 on.
    pub(crate) last: Option<usize>,
    alike: Box<[ChainRun]>,
    starts: Box<[(u32, u32)]>,
    /// Places of the others: so far from an earlier one, or always the same.
    placed: Box<[Placed]>,
    fixed: Box<[(u16, u64)]>,
    /// The sets of registers whose loads anything here depends on, one bit each.
    masks: Box<[u32]>,
    /// Addresses that depend on loads of earlier blocks: of which access, and what makes them.
    late: Box<[(u16, Loaded)]>,
    /// Size of each access and the value that it moves.
    moves: Box<[(u16, Value)]>,
    /// Registers that hold what this block has loaded at its end, and depends on nothing else, and one more than the
    /// number of the access that loads it.
    loaded: Box<[(u8, u16)]>,
    /// Registers that hold what depends on others at its beginning, or on several loads.
    moved: Box<[(u8, Loaded)]>,
    /// All of them and all of those, one bit each.
    loaded_set: u32,
    moved_set: u32,
    /// The branch at its end, and the loads that decide it.
    pub(crate) exit: Option<Exit>,
    decided_by: Loaded,
    /// The instruction of the first access, and the one after that of the last.
    first: u32,
    next: u32,
    /// Code between its branch and the place where the branch's ways meet, if they do.
    pub(crate) between: Option<Between>,
    /// It has been executed, by any thread.
    pub(crate) executed: bool,
    /// Its place in the recording, once it has one.
    pub(crate) code: Option<Code>,
    /// Its instructions, until it is executed: the length of each, and their bytes.
    pub(crate) lengths: Box<[u8]>,
    pub(crate) bytes: Box<[u8]>,
}

/// An access that is reported, and the word that reports it but for the address; or the beginning of a
/// further block.
#[derive(Clone, Copy, Debug)]
struct Reported {
    index: u16,
    word: u64,
    /// Bits of the word that are known.
    known: u64,
}

/// A writer is told of so many blocks at once that they are like others: it compares what came of all of them.
const PART: usize = 8;

/// The bits of a word that are not an address's.
const NO_ADDRESS: u64 = !((1 << ADDRESS_BITS) - 1);

/// An access that lies so far from an earlier one.
#[derive(Clone, Copy, Debug)]
struct Placed {
    index: u16,
    base: u16,
    offset: u64,
}

/// The loads that a value depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Loaded {
    /// Loads of this block: one more than their number, the younger first, 0 for none.
    own: [u16; 2],
    /// The set of registers that it depends on where these are less than two: one more than its number among the
    /// block's, 0 for none.
    set: u16,
}

/// Source of an access's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// It loads: from memory, where a store may have put it just before.
    Memory,
    /// It stores what an access of the same block has loaded: one more than its number.
    Own(u16),
    /// It stores what depends on this set of registers.
    Registers(u16),
    /// It is a prefetch, and moves none.
    None,
}

impl Loaded {
    /// `sets` are those of the block so far, each a set of registers.
    fn new(source: Source, sets: &mut Vec<u32>) -> Loaded {
        Loaded {
            own: source
                .entries
                .map(|entry| entry.map_or(0, |entry| entry + 1)),
            set: set(source.registers, sets),
        }
    }

    /// The loads, with those behind each set of registers; `accesses` come before the block.
    #[inline(always)]
    fn loads(self, accesses: u64, sets: &[Loads; SETS]) -> Loads {
        let before = sets[usize::from(self.set) % SETS];
        let [first, second] = self.own.map(u64::from);
        if first == 0 {
            return before;
        }
        // Loads of this block are younger than all before.
        let other = if second == 0 {
            before[0]
        } else {
            accesses + second
        };
        [accesses + first, other]
    }
}

/// Notes that a process executes a block for the first time, and where the ways of branches meet by that.
pub(crate) fn execute(plans: &mut [Plan], ways: &mut Ways, process: u32, number: usize) {
    let plan = &mut plans[number];
    plan.executed = true;
    for number in ways.add(process, number, &plan.block, &plan.lengths, &plan.bytes) {
        let plan = &mut plans[number];
        plan.between = ways.meet(process, number, &plan.block);
    }
}

/// The number of a set of registers among those of a block.
fn set(registers: u32, sets: &mut Vec<u32>) -> u16 {
    if registers == 0 {
        return 0;
    }
    let known = sets.iter().position(|&set| set == registers);
    let index = known.unwrap_or_else(|| {
        sets.push(registers);
        sets.len() - 1
    });
    index as u16 + 1
}

impl Plan {
    /// The plan of a block of instructions with these lengths and bytes.
    pub(crate) fn new(block: Block, lengths: &[u8], bytes: &[u8]) -> Plan {
        let regular = !block.repeats
            && block
                .script
                .iter()
                .all(|entry| entry.place != AddressFrom::Reported && entry.size.is_power_of_two());
        let mut plan = Plan {
            regular,
            lengths: lengths.into(),
            bytes: bytes.into(),
            exit: (block.branch.as_ref()).and_then(|branch| Exit::of(block.last_pc, branch)),
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

    /// Bytes of its instructions, until these are taken.
    pub(crate) fn code_bytes(&self) -> u64 {
        self.lengths.iter().map(|&length| u64::from(length)).sum()
    }

    /// Gives it its place in the recording.
    pub(crate) fn number(&mut self, code: Code) {
        for (index, entry) in self.block.script.iter().enumerate() {
            if let Some(group) = self.groups.get_mut(index / GROUP) {
                group.site[index % GROUP] = code.first_site + u32::from(entry.instruction);
            }
        }
        self.starts = [(0, code.block)].into();
        self.code = Some(code);
    }

    /// True if it may be one of several that are taken as one.
    pub(crate) fn may_be_chained(&self) -> bool {
        self.regular
    }

    /// The plan of blocks that are executed one after the other, all of which may be.
    pub(crate) fn chain(plans: &[Plan], blocks: &[usize], numbers: &AtomicU32) -> Plan {
        let block = joined(blocks.iter().map(|&block| &plans[block].block));
        let last = &plans[blocks[blocks.len() - 1]];
        let mut plan = Plan::new(block, &[], &[]);
        plan.exit = last.exit;
        plan.code = last.code;
        plan.last = Some(blocks[blocks.len() - 1]);
        let parts = blocks.chunks(PART).enumerate();
        let alike = parts.map(|(part, blocks)| ChainRun {
            entry: (part * PART) as u32,
            entries: blocks.len() as u32,
            chain: numbers.fetch_add(1, Ordering::Relaxed),
        });
        plan.alike = alike.collect();
        let (mut reported, mut starts, mut crossings) = (Vec::new(), Vec::new(), Vec::new());
        let mut first = 0;
        for (at, &number) in blocks.iter().enumerate() {
            let part = &plans[number];
            if at > 0 {
                // The word in place of its address goes behind the accesses.
                reported.push(Reported {
                    index: plan.len as u16,
                    word: Kind::Block.word(number as u64),
                    known: u64::MAX,
                });
                let before = plans[blocks[at - 1]].exit;
                crossings.extend(before.and_then(|exit| exit.crossing(part.block.pc)));
            }
            starts.extend(part.code.map(|code| (first as u32, code.block)));
            for own in &*part.reported {
                let index = own.index + first as u16;
                reported.push(Reported { index, ..*own });
            }
            for index in 0..part.len {
                let at = first + index;
                plan.groups[at / GROUP].site[at % GROUP] =
                    part.groups[index / GROUP].site[index % GROUP];
            }
            first += part.len;
        }
        plan.reported = reported.into();
        plan.starts = starts.into();
        plan.crossings = crossings.into();
        plan
    }

    fn prepare(&mut self, block: &Block) {
        let script = &block.script;
        self.len = script.len();
        let mut groups = vec![Group::default(); script.len().div_ceil(GROUP)];
        let (mut reported, mut placed, mut fixed) = (Vec::new(), Vec::new(), Vec::new());
        for (index, entry) in (0u16..).zip(script) {
            let at = usize::from(index);
            let (group, column) = (&mut groups[at / GROUP], at % GROUP);
            group.op[column] = op(entry).continuing(continues(script, at));
            group.gap[column] = gap(script, at);
            group.dep[column] = own_dependence(entry, at);
            let size = u64::from(entry.size.trailing_zeros());
            match entry.place {
                AddressFrom::Reported | AddressFrom::ReportedAlways => {
                    let word = (u64::from(index) << 3 | size) << SIZE_SHIFT;
                    reported.push(Reported {
                        index,
                        word,
                        known: NO_ADDRESS,
                    });
                    self.in_pieces |= entry.size >= 16;
                }
                AddressFrom::Fixed(address) => fixed.push((index, address)),
                AddressFrom::Relative { entry, offset } => placed.push(Placed {
                    index,
                    base: entry,
                    offset: offset as u64,
                }),
            }
        }
        self.groups = groups.into();
        self.reported = reported.into();
        self.placed = placed.into();
        self.fixed = fixed.into();
        let instruction = |entry: Option<&Entry>| entry.map_or(0, |entry| entry.instruction.into());
        self.first = instruction(script.first());
        self.next = instruction(script.last()) + 1;
        self.prepare_values(block);
    }

    fn prepare_values(&mut self, block: &Block) {
        let mut sets = Vec::new();
        self.late = (0u16..)
            .zip(&block.script)
            .filter(|(_, entry)| entry.producer.registers != 0)
            .map(|(index, entry)| (index, Loaded::new(entry.producer, &mut sets)))
            .collect();
        let mut value = |entry: &Entry| match entry.stored {
            _ if entry.prefetch => Value::None,
            _ if !entry.store => Value::Memory,
            // The youngest of them: what memory holds is followed by one load.
            Source {
                entries: [Some(load), _],
                ..
            } => Value::Own(load + 1),
            Source { registers, .. } => Value::Registers(set(registers, &mut sets)),
        };
        self.moves = (block.script.iter())
            .map(|entry| (entry.size, value(entry)))
            .collect();
        let (mut loaded, mut moved) = (Vec::new(), Vec::new());
        for &(register, source) in &block.updates {
            match source {
                Source {
                    entries: [Some(load), None],
                    registers: 0,
                } => {
                    loaded.push((register, load + 1));
                    self.loaded_set |= 1 << register;
                }
                _ => {
                    moved.push((register, Loaded::new(source, &mut sets)));
                    self.moved_set |= 1 << register;
                }
            }
        }
        self.loaded = loaded.into();
        self.moved = moved.into();
        if let Some(branch) = &block.branch {
            self.decided_by = Loaded::new(branch.decided_by, &mut sets);
        }
        self.masks = sets.into();
    }

    /// Records one execution of the block, reported by `words` (those after the block's own).
    /// Returns how many of them it has used; `None`, and nothing is changed, if the block is not
    /// regular, the words are not all there or not those expected, or a branch between blocks was mispredicted.
    /// `between` is that of the last block. Each column of the batch has [`ROOM`].
    #[inline(always)]
    pub(crate) fn run(
        &self,
        words: &[u64],
        position: &mut Position,
        batch: &mut Batch,
        between: Option<Between>,
    ) -> Option<usize> {
        if !self.regular {
            return None;
        }
        let room = Room::after(batch, self.len);
        let used = self.put_addresses(words, room)?;
        room.put(&self.groups);
        position.enter(self.block.pc);
        if !position.branches.cross(&self.crossings) {
            return None;
        }
        let (accesses, forgotten) = (position.accesses, position.forgotten);
        position.behind_sets(&self.masks);
        if self.len > 0 {
            if !position.branches.mispredicted.is_empty() {
                position.say_mispredicted(batch);
            }
            let first = position.instructions + u64::from(self.first);
            room.set_gap(0, first.saturating_sub(position.next) as u32);
            if first < position.next {
                room.continue_first();
            }
            position.next = position.instructions + u64::from(self.next);
            for &(index, loaded) in &*self.late {
                let number = accesses + u64::from(index) + 1;
                let loads = loaded.loads(accesses, &position.sets);
                room.set_dep(index.into(), dependence(number, loads, forgotten));
            }
            if position.branches.controlled > 0 {
                self.control(room, &mut position.branches, accesses, forgotten);
            }
            self.follow_values(room, position);
        }
        if let Some(exit) = &self.exit {
            let producers = self.decided_by.loads(accesses, &position.sets);
            (position.branches).leave(*exit, producers, between);
        }
        self.update(position);
        if let Some(code) = self.code {
            let first = batch.len() as u32;
            let entries = batch.flow.len() as u32;
            batch.alike.extend(self.alike.iter().map(|alike| ChainRun {
                entry: entries + alike.entry,
                ..*alike
            }));
            // Room is made once for all of them.
            let starts = self.starts.iter();
            (batch.flow).extend(starts.map(|&(at, block)| (first + at, Flow::Block(block))));
            batch.regular.extend(self.starts.iter().map(|_| true));
            position.last_site = code.last_site;
        }
        room.commit(batch, self.code.is_some());
        Some(used)
    }

    /// Puts all addresses, if the words are those expected. Returns how many these are.
    #[inline(always)]
    fn put_addresses(&self, words: &[u64], room: Room) -> Option<usize> {
        let mut used = self.reported.len();
        let mut other = 0;
        for (reported, &word) in self.reported.iter().zip(words.get(..used)?) {
            let address = word ^ reported.word;
            other |= address & reported.known;
            room.set_address(reported.index.into(), address);
        }
        if other != 0 {
            if !self.in_pieces {
                return None;
            }
            used = self.put_pieces(words, room)?;
        }
        for &(index, address) in &*self.fixed {
            room.set_address(index.into(), address);
        }
        for placed in &*self.placed {
            let base = room.address(placed.base.into());
            room.set_address(placed.index.into(), base.wrapping_add(placed.offset));
        }
        Some(used)
    }

    /// Puts reported addresses; those of large accesses may be reported in pieces, one behind the other.
    #[inline(never)]
    fn put_pieces(&self, words: &[u64], room: Room) -> Option<usize> {
        let mut used = 0;
        for reported in &*self.reported {
            let word = *words.get(used)?;
            let index = usize::from(reported.index);
            used += 1;
            if (word ^ reported.word) & reported.known != 0 {
                let size = self.moves.get(index)?.0;
                let mut whole = 0;
                let mut piece = word;
                while whole < size {
                    let follows = piece & !NO_ADDRESS == (word & !NO_ADDRESS) + u64::from(whole);
                    if piece >> ENTRY_SHIFT != reported.word >> ENTRY_SHIFT || !follows {
                        return None;
                    }
                    whole += 1 << (piece >> SIZE_SHIFT & 7);
                    if whole < size {
                        piece = *words.get(used)?;
                        used += 1;
                    }
                }
                if whole != size {
                    return None;
                }
            }
            room.set_address(index, word & !NO_ADDRESS);
        }
        Some(used)
    }

    /// The first accesses come before the ways of a mispredicted branch meet, and wait for what decides
    /// it.
    #[cold]
    fn control(&self, room: Room, branches: &mut Branches, accesses: u64, forgotten: u64) {
        let controlled = usize::from(branches.controlled).min(self.len);
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
        let accesses = position.accesses;
        for (index, &(size, value)) in self.moves.iter().enumerate() {
            let address = room.address(index);
            let stored = match value {
                Value::Memory => {
                    let producer = position.stores.find(address, size);
                    let distance = accesses + index as u64 + 1 - producer;
                    if distance <= Stores::REACH && producer > position.forgotten {
                        room.set_dep(index, also(room.dep(index), distance as u32));
                    }
                    continue;
                }
                Value::None => continue,
                Value::Own(load) => accesses + u64::from(load),
                Value::Registers(set) => position.sets[usize::from(set) % SETS][0],
            };
            let number = accesses + index as u64 + 1;
            position
                .stores
                .put(address, size, stored_load(number, stored));
        }
    }

    #[inline(always)]
    fn update(&self, position: &mut Position) {
        let mut live = position.live & !self.moved_set | self.loaded_set;
        for &(register, loaded) in &*self.moved {
            let loads = loaded.loads(position.accesses, &position.sets);
            live |= u32::from(loads[0] != 0) << register;
            position.registers[usize::from(register) % REGISTERS] = loads;
        }
        for &(register, load) in &*self.loaded {
            position.registers[usize::from(register) % REGISTERS] =
                [position.accesses + u64::from(load), 0];
        }
        position.live = live;
        position.accesses += self.len as u64;
        position.instructions += u64::from(self.block.instructions);
        position.last_pc = self.block.last_pc;
        if position.accesses - position.swept >= MAX_DEP {
            position.sweep();
        }
    }
}

fn op(entry: &Entry) -> Op {
    if entry.prefetch {
        Op::PREFETCH
    } else if entry.store {
        Op::store(entry.size)
    } else {
        Op::load(entry.size)
    }
}

/// True if an access is of the same instruction as the one before it in the block.
fn continues(script: &[Entry], index: usize) -> bool {
    let before = index.checked_sub(1).map(|before| &script[before]);
    before.is_some_and(|before| before.instruction >= script[index].instruction)
}

/// The instructions between an access and the one before it in the block.
fn gap(script: &[Entry], index: usize) -> u32 {
    let before = index
        .checked_sub(1)
        .map(|before| script[before].instruction);
    before.map_or(0, |before| {
        script[index].instruction.saturating_sub(before + 1).into()
    })
}

/// Dependence of the access by its address, of the same block.
fn own_dependence(entry: &Entry, index: usize) -> u32 {
    let [near, far] = (entry.producer.entries)
        .map(|load| load.map_or(0, |load| (index - usize::from(load)) as u32));
    of_two(near, far)
}
