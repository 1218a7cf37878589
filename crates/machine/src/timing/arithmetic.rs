//! Time of arithmetic between loads and the addresses that are computed from them, and between registers.
//!
//! Where a source has code, each pair of instructions has the one from their bytes, and each piece of code
//! between two accesses the other.

use crate::count::by_program::define_blocks;
use crate::timing::Executed;
use crate::timing::sampled::Sampled;
use pagelab_cpu::{Core, CoreConfig, Pieces, Times};
use pagelab_events::{CodeBlock, Definition, Flow, NO_SITE, dependence};
use pagelab_instructions::{Arithmetic, Way, locked};
use std::collections::HashMap;

/// Pairs of instructions that are remembered; others are looked at again.
const MOST_PAIRS: usize = 1 << 20;

/// Accesses that are remembered: as many as lie between an access and a load that it may wait for.
const REMEMBERED: usize = 1024;

/// Blocks for each access above which they are followed without a sample: such code hardly accesses memory,
/// and what it takes is what it computes.
const MOST_BLOCKS: usize = 4;

const NO_PIECE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Computing {
    cores: Vec<Recent>,
    programs: Vec<Code>,
    times: Times,
    /// With each access of the last chunk, slots after each of its loads.
    slots: Vec<[u16; 2]>,
    /// For each access: a locked instruction makes it. Empty where that takes nothing.
    locked: Vec<bool>,
    counts_locked: bool,
    /// The pieces of code that are executed up to each, and where those of each end.
    pieces: Vec<u32>,
    ends: Vec<u32>,
    /// The program that these are of.
    program: usize,
}

/// The sites of a core's last accesses.
#[derive(Clone, Debug)]
struct Recent {
    /// Decides whether pieces of code are wanted.
    sampled: Sampled,
    /// The block that was entered last, where code was executed since the last access.
    entered: Option<u32>,
    /// The thread whose pieces were found last.
    thread: u32,
    sites: Box<[u32; REMEMBERED]>,
    at: usize,
}

/// Place of a thread: the site of its last access, and the block that it has entered since, if it has.
#[derive(Clone, Copy, Debug)]
struct Reached {
    thread: u32,
    last: u32,
    entered: Option<u32>,
}

#[derive(Clone, Debug, Default)]
struct Code {
    blocks: Vec<Block>,
    sites: Vec<Site>,
    pieces: Pieces,
    pairs: HashMap<(u32, u32), u8>,
}

#[derive(Clone, Debug)]
struct Block {
    arithmetic: Arithmetic,
    /// The site of its first instruction.
    first: u32,
    /// The site of its last access, and the piece of code behind that.
    last: u32,
    tail: u32,
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
struct Site {
    block: u32,
    /// The site of the access before it in its block, and the piece of code from behind that, or from the
    /// block's beginning, up to it; if it is an access.
    previous: u32,
    piece: u32,
    locked: bool,
    /// For each of the loads that an access waits for, the site of the last one, and cycles from that.
    last: [(u32, u8); 2],
}

impl Computing {
    /// None where arithmetic takes no time. A load that hits the first level takes `hit` slots.
    pub(crate) fn new(config: &CoreConfig, cores: u32, hit: u64) -> Option<Self> {
        let recent = Recent {
            sampled: Sampled::default(),
            entered: None,
            thread: 0,
            sites: Box::new([NO_SITE; REMEMBERED]),
            at: 0,
        };
        config.arithmetic.then(|| Computing {
            cores: vec![recent; cores as usize],
            programs: Vec::new(),
            times: Times {
                width: config.width,
                scaled_index: config.scaled_index,
                hit,
                forwarded: [config.forwarding, config.vector_forwarding].map(|cycles| {
                    cycles.map_or(hit, |cycles| u64::from(cycles) * u64::from(config.width))
                }),
            },
            slots: Vec::new(),
            locked: Vec::new(),
            counts_locked: config.atomics > 0,
            pieces: Vec::new(),
            ends: Vec::new(),
            program: 0,
        })
    }

    /// Takes in what a batch of a program says of its code.
    pub(crate) fn define(&mut self, program: usize, definitions: &[Definition]) {
        let times = self.times;
        define_blocks(&mut self.programs, program, definitions, |code, block| {
            code.define(block, &times);
        });
    }

    /// Takes accesses of a core, the first of which has number `at` in its batch: what they wait for, their
    /// instructions, and the blocks that are executed from the first one on.
    pub(crate) fn chunk(
        &mut self,
        (core, program): (usize, usize),
        at: usize,
        dep: &[u32],
        site: &[u32],
        flow: &[(u32, Flow)],
    ) {
        self.slots.clear();
        self.locked.clear();
        self.pieces.clear();
        self.ends.clear();
        self.program = program;
        let (Some(code), Some(recent)) = (self.programs.get_mut(program), self.cores.get_mut(core))
        else {
            return;
        };
        let blocks = flow.partition_point(|entry| (entry.0 as usize) < at + site.len());
        let follows = recent.follows(blocks, site.len());
        if follows {
            let mut reached = recent.reached();
            let (pieces, ends) = (&mut self.pieces, &mut self.ends);
            code.follow(at, site, &mut reached, flow, pieces, ends);
            recent.thread = reached.thread;
        }
        recent.entered = None;
        if self.counts_locked {
            (self.locked).extend(site.iter().map(|&site| code.locked(site)));
        }
        for (&dep, &site) in dep.iter().zip(site) {
            let mut slots = [0; 2];
            if dep != 0 {
                let loads = [dependence::near(dep), dependence::far(dep)];
                for (number, distance) in loads.into_iter().enumerate() {
                    let load = recent.back(distance);
                    let cycles = code.cycles(load, site, number, self.times.scaled_index);
                    slots[number] = (u32::from(cycles) * self.times.width) as u16;
                }
            }
            recent.push(site);
            self.slots.push(slots);
        }
    }

    /// Takes the blocks that a thread has executed since its last access, and no other access is known yet.
    pub(crate) fn run_on(
        &mut self,
        (core, program): (usize, usize),
        thread: u32,
        flow: &[(u32, Flow)],
        clock: &mut Core,
    ) {
        let (Some(code), Some(recent)) = (self.programs.get(program), self.cores.get_mut(core))
        else {
            return;
        };
        if !recent.follows(flow.len(), 1) {
            return;
        }
        self.pieces.clear();
        let mut reached = recent.reached();
        let mut runs = true;
        for &(_, entry) in flow {
            if let Flow::Thread(other) = entry {
                runs = other == thread;
            }
            if runs {
                code.enter(entry, &mut reached, &mut self.pieces);
            }
        }
        (recent.thread, recent.entered) = (reached.thread, reached.entered);
        clock.run_on(&code.pieces, &self.pieces);
    }

    /// Decides whether pieces of code are wanted of a core's next accesses, by what it knows: how many there
    /// were, its time, and how long it has waited for arithmetic.
    pub(crate) fn sample(&mut self, core: usize, (accesses, now, waited): (u64, u64, u64)) {
        if let Some(recent) = self.cores.get_mut(core) {
            recent.sampled.look(accesses, now, waited);
        }
    }

    /// Code executed up to each access of the last chunk; nothing if the source has no code.
    pub(crate) fn executed(&self) -> Executed<'_> {
        let Some(code) = self.programs.get(self.program) else {
            return Executed::default();
        };
        Executed {
            slots: &self.slots,
            locked: &self.locked,
            pieces: Some(&code.pieces),
            numbers: &self.pieces,
            ends: &self.ends,
        }
    }
}

impl Recent {
    /// True if so many blocks are followed, up to so many accesses.
    fn follows(&self, blocks: usize, accesses: usize) -> bool {
        self.sampled.follows() || self.entered.is_some() || blocks > MOST_BLOCKS * accesses
    }

    fn reached(&self) -> Reached {
        Reached {
            thread: self.thread,
            last: self.back(1),
            entered: self.entered,
        }
    }

    #[inline(always)]
    fn push(&mut self, site: u32) {
        self.sites[self.at % REMEMBERED] = site;
        self.at += 1;
    }

    /// The site of the access so many before the next one.
    #[inline(always)]
    fn back(&self, distance: u32) -> u32 {
        let distance = distance as usize;
        if (1..=REMEMBERED.min(self.at)).contains(&distance) {
            self.sites[(self.at - distance) % REMEMBERED]
        } else {
            NO_SITE
        }
    }
}

impl Code {
    fn define(&mut self, block: &CodeBlock, times: &Times) {
        let locked = locked(block);
        let arithmetic = Arithmetic::of(block);
        let steps = arithmetic.steps();
        let live = arithmetic.live();
        let first = self.sites.len() as u32;
        let block = self.blocks.len() as u32;
        let (mut previous, mut behind) = (NO_SITE, 0);
        for (place, step) in steps.iter().enumerate() {
            let mut site = Site {
                block,
                previous,
                piece: NO_PIECE,
                locked: locked[place],
                last: [(NO_SITE, 0); 2],
            };
            if step.accesses() {
                site.piece = (self.pieces).add(&steps[behind..=place], live[place], times);
                previous = self.sites.len() as u32;
                behind = place + 1;
            }
            self.sites.push(site);
        }
        let tail = if behind < steps.len() {
            (self.pieces).add(&steps[behind..], Arithmetic::LIVE_BEHIND, times)
        } else {
            NO_PIECE
        };
        self.blocks.push(Block {
            arithmetic,
            first,
            last: previous,
            tail,
        });
    }

    /// Finds the pieces that are executed up to each access.
    fn follow(
        &self,
        at: usize,
        site: &[u32],
        reached: &mut Reached,
        flow: &[(u32, Flow)],
        pieces: &mut Vec<u32>,
        ends: &mut Vec<u32>,
    ) {
        let mut flow = flow.iter();
        let mut next = flow.next();
        for (number, &site) in (at as u32..).zip(site) {
            while let Some((at, entry)) = next
                && *at <= number
            {
                self.enter(*entry, reached, pieces);
                next = flow.next();
            }
            self.reach(site, reached.entered, reached.last, pieces);
            ends.push(pieces.len() as u32);
            (reached.last, reached.entered) = (site, None);
        }
    }

    /// Goes on with a block, or with a thread, which a batch names as it begins, too.
    #[inline(always)]
    fn enter(&self, entry: Flow, reached: &mut Reached, pieces: &mut Vec<u32>) {
        match entry {
            Flow::Block(block) => {
                self.leave(reached.entered, reached.last, pieces);
                reached.entered = Some(block);
            }
            Flow::Thread(thread) => {
                if thread != reached.thread {
                    pieces.push(Pieces::OTHER_REGISTERS);
                    *reached = Reached {
                        thread,
                        last: NO_SITE,
                        entered: None,
                    };
                }
            }
        }
    }

    /// Adds the pieces from an access to the end of its block or, if that was left without one, from its beginning.
    #[inline(always)]
    fn leave(&self, block: Option<u32>, last: u32, pieces: &mut Vec<u32>) {
        if let Some(block) = block {
            let Some(block) = self.blocks.get(block as usize) else {
                return;
            };
            self.between(block.first, block.end(), pieces);
            push(pieces, block.tail);
        } else if let Some(site) = self.sites.get(last as usize) {
            let block = &self.blocks[site.block as usize];
            if block.last != last {
                self.between(last + 1, block.end(), pieces);
            }
            push(pieces, block.tail);
        }
    }

    /// Adds the pieces up to an access, from the beginning of its block or from behind the access before it.
    #[inline(always)]
    fn reach(&self, access: u32, block: Option<u32>, last: u32, pieces: &mut Vec<u32>) {
        let Some(site) = self.sites.get(access as usize) else {
            return;
        };
        let from = match block {
            Some(_) => NO_SITE,
            // Another access of the same instruction.
            None if last == access => return,
            None => last,
        };
        if site.previous != from {
            let first = self.blocks[site.block as usize].first;
            let behind = if (first..access).contains(&from) {
                from + 1
            } else {
                first
            };
            self.between(behind, access, pieces);
        }
        push(pieces, site.piece);
    }

    /// Pieces of accesses that were passed over.
    #[cold]
    fn between(&self, from: u32, until: u32, pieces: &mut Vec<u32>) {
        for site in &self.sites[from as usize..until as usize] {
            push(pieces, site.piece);
        }
    }

    #[inline(always)]
    fn locked(&self, site: u32) -> bool {
        (self.sites.get(site as usize)).is_some_and(|site| site.locked)
    }

    /// Cycles from the data of a load by one instruction to the address of an access by another.
    #[inline(always)]
    fn cycles(&mut self, load: u32, access: u32, number: usize, scaled_index: u32) -> u8 {
        if load == NO_SITE {
            return 0;
        }
        match self.sites.get(access as usize) {
            Some(site) if site.last[number].0 == load => site.last[number].1,
            Some(_) => self.look_up(load, access, number, scaled_index),
            None => 0,
        }
    }

    #[inline(never)]
    fn look_up(&mut self, load: u32, access: u32, number: usize, scaled_index: u32) -> u8 {
        let cycles = match self.pairs.get(&(load, access)) {
            Some(&cycles) => cycles,
            None => {
                let way = self.way(load, access);
                let cycles = way.map_or(0, |way| way.with(scaled_index));
                let cycles = cycles.min(u8::MAX.into()) as u8;
                if self.pairs.len() == MOST_PAIRS {
                    self.pairs.clear();
                }
                self.pairs.insert((load, access), cycles);
                cycles
            }
        };
        if let Some(site) = self.sites.get_mut(access as usize) {
            site.last[number] = (load, cycles);
        }
        cycles
    }

    /// If the load is in the same block before the access, and there is a way between the two, that is it; else
    /// the way leads out of the one block and into the other.
    fn way(&self, load: u32, access: u32) -> Option<Way> {
        let [from, to] = [load, access].map(|site| self.sites.get(site as usize));
        let (from, to) = (from?, to?);
        let [first, second] = [from, to].map(|site| self.blocks.get(site.block as usize));
        let (first, second) = (first?, second?);
        let places = [load - first.first, access - second.first].map(|place| place as usize);
        let (first, second) = (&first.arithmetic, &second.arithmetic);
        let within = if from.block == to.block {
            first.within(places[0], places[1])
        } else {
            None
        };
        within.or_else(|| first.across(places[0], second, places[1]))
    }
}

impl Block {
    /// The site behind its last instruction.
    fn end(&self) -> u32 {
        self.first + self.arithmetic.steps().len() as u32
    }
}

#[inline(always)]
fn push(pieces: &mut Vec<u32>, piece: u32) {
    if piece != NO_PIECE {
        pieces.push(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: &[u8] = &[0x48, 0x8b, 0x00]; // mov rax, [rax]
    const STORE: &[u8] = &[0x48, 0x89, 0x08]; // mov [rax], rcx
    const ADD: &[u8] = &[0x48, 0x83, 0xc0, 0x08]; // add rax, 8

    fn code(blocks: &[&[&[u8]]]) -> Code {
        let times = Times {
            width: 4,
            scaled_index: 0,
            hit: 16,
            forwarded: [16; 2],
        };
        let mut code = Code::default();
        for block in blocks {
            let block = CodeBlock {
                lengths: block.iter().map(|bytes| bytes.len() as u8).collect(),
                bytes: block.concat().into(),
                ..CodeBlock::default()
            };
            code.define(&block, &times);
        }
        code
    }

    #[test]
    fn what_is_executed_between_two_accesses_is_put_together() {
        // Pieces 0 to 2, 3, and 4; sites 0 to 4, 5, and 6.
        let code = code(&[&[ADD, LOAD, ADD, STORE, ADD], &[ADD], &[LOAD]]);
        let (mut pieces, mut ends) = (Vec::new(), Vec::new());
        let site = [1, 3, 6, 3, 3, 6];
        let flow = [
            (10, Flow::Block(0)),
            (12, Flow::Block(1)),
            (12, Flow::Block(2)),
            // Its first access is passed over.
            (13, Flow::Block(0)),
            (15, Flow::Thread(7)),
            (15, Flow::Block(2)),
        ];
        let mut reached = Reached {
            thread: 0,
            last: NO_SITE,
            entered: None,
        };
        code.follow(10, &site, &mut reached, &flow, &mut pieces, &mut ends);
        let mut begin = 0;
        let of_each: Vec<Vec<u32>> = (ends.iter())
            .map(|&end| pieces[std::mem::replace(&mut begin, end as usize)..end as usize].to_vec())
            .collect();
        let expected: [&[u32]; 6] = [
            &[0],
            &[1],
            &[2, 3, 4],
            &[0, 1],
            // Another access of the same instruction.
            &[],
            &[Pieces::OTHER_REGISTERS, 4],
        ];
        assert_eq!(of_each, expected);
        assert_eq!(reached.thread, 7);
    }
}
