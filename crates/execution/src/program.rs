//! A program's code: its blocks, and by site what each instruction does.

use crate::decode::decode;
use crate::pieces::{Pieces, Times};
use crate::step::Step;
use crate::way::{LIVE_BEHIND, Way, across, live, within};
use pagelab_events::{CodeBlock, NO_SITE};
use std::collections::HashMap;

/// Pairs of instructions that are remembered; others are looked at again.
const MOST_PAIRS: usize = 1 << 20;

pub(crate) const NO_PIECE: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    /// By the blocks' numbers; so is all that follows by sites, but for `pairs`. Empty where arithmetic takes no time.
    pub(crate) blocks: Vec<Block>,
    pub(crate) sites: Vec<Site>,
    steps: Vec<Step>,
    pub(crate) pieces: Pieces,
    pairs: HashMap<(u32, u32), u8>,
    /// Integer registers by site, and those that all instructions take.
    registers: Vec<Taken>,
    taken: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// The site of its first instruction, and the one behind its last.
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// The site of its last access, and the piece of code behind that.
    pub(crate) last: u32,
    pub(crate) tail: u32,
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) block: u32,
    /// The site of the access before it in its block, and the piece of code from behind that, or from the
    /// block's beginning, up to it; if it is an access.
    pub(crate) previous: u32,
    pub(crate) piece: u32,
    locked: bool,
    /// For each of the loads that an access waits for, the site of the last one, and cycles from that.
    last: [(u32, u8); 2],
}

/// Integer registers that an instruction takes.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Registers taken by all instructions of the program up to it, itself among them.
    taken: u32,
    /// Instructions of its block before it, and behind it.
    before: u16,
    behind: u16,
}

impl Program {
    /// Takes a block in; without `times` only the registers that its instructions take.
    pub(crate) fn define(&mut self, block: &CodeBlock, times: Option<&Times>) {
        let decoded = decode(block);
        let count = decoded.len();
        self.registers
            .extend((0..).zip(&decoded).map(|(before, own)| {
                // A trace has at most 2^26 instructions, each of which takes a few.
                self.taken = self.taken.saturating_add(own.taken.into());
                Taken {
                    taken: self.taken,
                    before: before as u16,
                    behind: (count - 1 - before) as u16,
                }
            }));
        let Some(times) = times else {
            return;
        };
        let first = self.sites.len() as u32;
        let number = self.blocks.len() as u32;
        self.steps.extend(decoded.iter().map(|one| one.step));
        let steps = &self.steps[first as usize..];
        let live = live(steps);
        let (mut previous, mut behind) = (NO_SITE, 0);
        for (place, one) in decoded.iter().enumerate() {
            let mut site = Site {
                block: number,
                previous,
                piece: NO_PIECE,
                locked: one.locked,
                last: [(NO_SITE, 0); 2],
            };
            if one.step.accesses() {
                site.piece = (self.pieces).add(&steps[behind..=place], live[place], times);
                previous = self.sites.len() as u32;
                behind = place + 1;
            }
            self.sites.push(site);
        }
        let tail = if behind < steps.len() {
            (self.pieces).add(&steps[behind..], LIVE_BEHIND, times)
        } else {
            NO_PIECE
        };
        self.blocks.push(Block {
            first,
            end: self.sites.len() as u32,
            last: previous,
            tail,
        });
    }

    #[inline(always)]
    pub(crate) fn locked(&self, site: u32) -> bool {
        (self.sites.get(site as usize)).is_some_and(|site| site.locked)
    }

    /// Cycles from the data of a load by one instruction to the address of an access by another.
    #[inline(always)]
    pub(crate) fn cycles(
        &mut self,
        load: u32,
        access: u32,
        number: usize,
        scaled_index: u32,
    ) -> u8 {
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
        let [from, to] = [from?, to?].map(|site| self.blocks[site.block as usize]);
        let steps = |of: Block| &self.steps[of.first as usize..of.end as usize];
        let places = [load - from.first, access - to.first].map(|place| place as usize);
        let within = if from.first == to.first {
            within(steps(from), places[0], places[1])
        } else {
            None
        };
        within.or_else(|| across(steps(from), places[0], steps(to), places[1]))
    }

    /// Integer registers that the instructions of a gap and the access after it take, which comes after one at `last`.
    ///
    /// The gap's last instructions are those before the access in its block, and its first those behind the
    /// access before. What lies between is blocks without an access: they take as much as the rest.
    #[inline(always)]
    pub(crate) fn taken(&self, gap: u32, site: u32, last: u32) -> u32 {
        let Some(&own) = self.registers.get(site as usize) else {
            return 0;
        };
        let before = u32::from(own.before);
        if gap <= before {
            // A further access of the same instruction takes nothing.
            let again = gap == 0 && site == last;
            return if again {
                0
            } else {
                own.taken - self.up_to(site.wrapping_sub(gap + 1))
            };
        }
        let mut taken = own.taken - self.up_to(site.wrapping_sub(before + 1));
        let mut known = before + 1;
        if let Some(&last_own) = self.registers.get(last as usize) {
            let behind = (gap - before).min(last_own.behind.into());
            taken += self.up_to(last + behind) - last_own.taken;
            known += behind;
        }
        if known > gap {
            return taken;
        }
        let all = u64::from(gap) + 1;
        (u64::from(taken) * all / u64::from(known)).min(u32::MAX.into()) as u32
    }

    /// Registers that the instructions up to one take; none before the first.
    #[inline(always)]
    fn up_to(&self, site: u32) -> u32 {
        self.registers
            .get(site as usize)
            .map_or(0, |site| site.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(code: &[&[u8]]) -> CodeBlock {
        CodeBlock {
            lengths: code.iter().map(|bytes| bytes.len() as u8).collect(),
            bytes: code.concat().into(),
            ..CodeBlock::default()
        }
    }

    const ADD: &[u8] = &[0x01, 0xc8];
    const CMP: &[u8] = &[0x39, 0xc8];
    const LOAD: &[u8] = &[0x48, 0x8b, 0x00];
    const STORE: &[u8] = &[0x48, 0x89, 0x08];

    #[test]
    fn a_gap_is_taken_apart_where_its_instructions_are_known() {
        let mut program = Program::default();
        // Sites 0 to 3, and 4 to 7.
        program.define(&block(&[ADD, LOAD, CMP, ADD]), None);
        program.define(&block(&[CMP, CMP, STORE, ADD]), None);
        let taken = [
            // The load, alone and with the addition before it.
            ((0, 1, NO_SITE), 1),
            ((1, 1, NO_SITE), 2),
            // From the load to the store: two behind it, of which one takes a register, and two before the
            // store, of which none does.
            ((4, 6, 1), 1),
            // Execution of the block once more: behind the store is an addition, and another before the load.
            ((2, 1, 6), 3),
            // With as many instructions between that nothing is known of: half of ten.
            ((9, 6, 1), 2),
            // A load and a store of one instruction.
            ((0, 6, 6), 0),
            // Nothing is known.
            ((5, 100, 1), 0),
            ((5, NO_SITE, 1), 0),
        ];
        for ((gap, site, last), expected) in taken {
            let found = program.taken(gap, site, last);
            assert_eq!(found, expected, "{gap} {site} {last}");
        }
    }
}
