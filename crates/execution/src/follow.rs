//! Pieces of code that a thread executes, from the flow of its blocks.

use crate::pieces::Pieces;
use crate::program::{NO_PIECE, Program};
use pagelab_events::{Flow, NO_SITE};

/// Place of a thread: the site of its last access, and the block that it has entered since, if it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    pub(crate) thread: u32,
    pub(crate) last: u32,
    pub(crate) entered: Option<u32>,
}

impl Program {
    /// Finds the pieces that are executed up to each access.
    pub(crate) fn follow(
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
    pub(crate) fn enter(&self, entry: Flow, reached: &mut Reached, pieces: &mut Vec<u32>) {
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
            self.between(block.first, block.end, pieces);
            push(pieces, block.tail);
        } else if let Some(site) = self.sites.get(last as usize) {
            let block = &self.blocks[site.block as usize];
            if block.last != last {
                self.between(last + 1, block.end, pieces);
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
    use crate::pieces::Times;
    use pagelab_events::CodeBlock;

    const LOAD: &[u8] = &[0x48, 0x8b, 0x00]; // mov rax, [rax]
    const STORE: &[u8] = &[0x48, 0x89, 0x08]; // mov [rax], rcx
    const ADD: &[u8] = &[0x48, 0x83, 0xc0, 0x08]; // add rax, 8

    fn code(blocks: &[&[&[u8]]]) -> Program {
        let times = Times {
            width: 4,
            scaled_index: 0,
            hit: 16,
            forwarded: [16; 2],
        };
        let mut code = Program::default();
        for block in blocks {
            let block = CodeBlock {
                lengths: block.iter().map(|bytes| bytes.len() as u8).collect(),
                bytes: block.concat().into(),
                ..CodeBlock::default()
            };
            code.define(&block, Some(&times));
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
