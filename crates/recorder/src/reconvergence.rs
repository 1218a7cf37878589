//! Meeting points of the two ways of a branch.
//!
//! A core that has taken the wrong one executes what follows the place where they meet before it has
//! found out, and all the lines and translations that it asks for there are the right ones. So it is
//! recorded of a mispredicted branch that its ways meet within a few instructions: after the body of an
//! `if`, or of both of an `if` and its `else`. Branches on the way are taken to be foreseen: to be taken
//! backwards, and forwards only where the code after them is never executed.

use std::collections::HashMap;

use pagelab_recorder_wire::block::{Block, Entry, Path};

/// The most instructions of a way that are looked at: a wrong path gets further than that while it waits
/// for memory, but leads seldom to where it was going.
const MOST: usize = 32;

/// Code between a branch and the place where its ways meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Between {
    /// Accesses on the way of the branch that is not taken, and that is.
    pub(crate) accesses: [u16; 2],
    /// Registers that are written on either: one bit each.
    pub(crate) written: u32,
}

/// A process, by the number that the plugin gave it, and an address in it.
type At = (u32, u64);

/// The blocks that are known, and the branches whose ways end where none is.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    blocks: HashMap<At, Straight>,
    waiting: HashMap<At, Vec<usize>>,
}

/// A block: the address of each of its first instructions, the registers it writes, and the accesses it
/// makes.
#[derive(Debug)]
struct Straight {
    steps: Box<[(u64, u32, u16)]>,
    then: [Option<u64>; 2],
}

/// A place that a way comes to, and what comes before.
#[derive(Clone, Copy, Debug)]
struct PathNode {
    pc: u64,
    accesses: u16,
    written: u32,
}

impl Ways {
    /// A block of a process is executed for the first time, and known from now on. What was translated and
    /// not executed does not count, since when that becomes known is chance. Returns of which blocks, by
    /// their numbers, it has to be found out anew where the ways of their branches meet.
    pub(crate) fn add(
        &mut self,
        process: u32,
        number: usize,
        block: &Block,
        lengths: &[u8],
        bytes: &[u8],
    ) -> Vec<usize> {
        let path = Path::of(block.pc, lengths, bytes, MOST);
        let steps = (0..).zip(&path.steps).map(|(index, &(pc, written))| {
            let own = |entry: &&Entry| entry.instruction == index;
            (pc, written, block.script.iter().filter(own).count() as u16)
        });
        let straight = Straight {
            steps: steps.collect(),
            then: path.then,
        };
        let at = (process, block.pc);
        self.blocks.insert(at, straight);
        let mut anew = self.waiting.remove(&at).unwrap_or_default();
        anew.push(number);
        anew
    }

    /// Code between the branch at the end of a block and the place where its ways meet; `None` if they do not, or if
    /// that is not known yet.
    pub(crate) fn meet(&mut self, process: u32, number: usize, block: &Block) -> Option<Between> {
        let branch = block.branch.as_ref()?;
        let ways = [branch.next, branch.target?];
        let [one, other] = ways.map(|start| self.way(process, number, block, start));
        one.iter().find_map(|here| {
            let there = other.iter().find(|there| there.pc == here.pc)?;
            Some(Between {
                accesses: [here.accesses, there.accesses],
                written: here.written | there.written,
            })
        })
    }

    /// The places that the way from an address leads to, before it comes back to the branch. Where it
    /// ends at what is not known, the block waits.
    fn way(&mut self, process: u32, number: usize, block: &Block, start: u64) -> Vec<PathNode> {
        let mut place = PathNode {
            pc: start,
            accesses: 0,
            written: 0,
        };
        let mut way = vec![place];
        while let Some(straight) = self.blocks.get(&(process, place.pc))
            && way.len() <= MOST
        {
            let last = straight.steps.len().saturating_sub(1);
            for (index, &(pc, written, accesses)) in straight.steps.iter().enumerate() {
                if pc == block.last_pc || way.len() > MOST {
                    return way;
                }
                place.accesses += accesses;
                place.written |= written;
                if index < last {
                    place.pc = straight.steps[index + 1].0;
                    way.push(place);
                }
            }
            let [first, second] = straight.then;
            let Some(first) = first else { return way };
            let known = |pc: &u64| self.blocks.contains_key(&(process, *pc));
            place.pc = second
                .filter(|second| !known(&first) && known(second))
                .unwrap_or(first);
            way.push(place);
            if place.pc != first {
                self.wait(process, number, first);
            }
        }
        self.wait(process, number, place.pc);
        way
    }

    fn wait(&mut self, process: u32, number: usize, pc: u64) {
        let waiting = self.waiting.entry((process, pc)).or_default();
        if !waiting.contains(&number) {
            waiting.push(number);
        }
    }
}
