//! Blocks that are mostly executed one after the other, recorded as if they were one.
//!
//! What a block does with registers is known beforehand, and so it is of several in a row: most of what
//! one loads, another uses. So where a thread comes to a block that it has executed often, the
//! blocks that it executes next are noted, and made into one plan. It is taken when the words say that
//! the thread has gone the same way again, and its branches were foreseen; else the blocks are taken one by one.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::plan::Plan;

/// A chain begins where a block was executed so often.
const OFTEN: u16 = 48;
/// The most blocks of a chain at first, then of one that is trusted, and the most accesses.
const BLOCKS: usize = 16;
const LONGEST: usize = 32;
const ACCESSES: usize = 128;
/// A chain is given up that failed so many times more often than it was taken.
const PATIENCE: i32 = 24;
/// Limit of the count of times that a chain is taken.
const TRUST: i32 = 64;

/// The chains of a thread.
pub(crate) struct Chains {
    /// By the number of the first block.
    slots: Vec<Slot>,
    /// The blocks of the chain that is being noted.
    noted: Vec<u32>,
    most: usize,
    /// Number of chains that the recording has had so far, of all threads.
    numbers: Arc<AtomicU32>,
    #[cfg(test)]
    pub(crate) taken_in_all: u64,
}

struct Slot {
    executed: u16,
    /// The most blocks of a chain from here, and whether that is more than at first, or was.
    most: u8,
    grown: bool,
    score: i32,
    chain: Option<Box<Plan>>,
}

impl Slot {
    /// The chain is mostly taken: perhaps a longer one would be, too. To make it takes a while, and code that is
    /// executed once in a while never comes to this.
    #[cold]
    fn grow(&mut self) {
        self.grown = true;
        if usize::from(self.most) == BLOCKS {
            self.most = LONGEST as u8;
            self.chain = None;
            self.score = 0;
            self.executed = OFTEN - 1;
        }
    }
}

impl Chains {
    pub(crate) fn new(numbers: Arc<AtomicU32>) -> Chains {
        Chains {
            slots: Vec::new(),
            noted: Vec::with_capacity(LONGEST),
            most: 0,
            numbers,
            #[cfg(test)]
            taken_in_all: 0,
        }
    }

    /// The chain from a block on, unless one is being noted.
    #[inline(always)]
    pub(crate) fn from(&self, block: usize) -> Option<&Plan> {
        if !self.noted.is_empty() {
            return None;
        }
        self.slots.get(block)?.chain.as_deref()
    }

    /// The chain from a block on was taken.
    #[inline(always)]
    pub(crate) fn taken(&mut self, block: usize) {
        #[cfg(test)]
        {
            self.taken_in_all += 1;
        }
        let slot = &mut self.slots[block];
        slot.score = (slot.score + 1).min(TRUST);
        if slot.score == TRUST && !slot.grown {
            slot.grow();
        }
    }

    /// The chain from a block on was not taken.
    pub(crate) fn failed(&mut self, block: usize) {
        let slot = &mut self.slots[block];
        slot.score -= 1;
        if slot.score < -PATIENCE {
            // Another time a shorter one.
            slot.chain = None;
            slot.most /= 2;
            slot.score = 0;
            slot.executed = 0;
        }
    }

    /// A regular block was executed alone.
    #[inline(always)]
    pub(crate) fn note(&mut self, block: usize, plans: &[Plan]) {
        if !self.noted.is_empty() {
            self.go_on(block, plans);
            return;
        }
        if let Some(slot) = self.slots.get_mut(block) {
            slot.executed = slot.executed.saturating_add(1);
            if slot.executed == OFTEN && slot.chain.is_none() && slot.most > 1 {
                self.most = slot.most.into();
                self.noted.push(block as u32);
            }
        } else {
            self.slots.resize_with(plans.len(), || Slot {
                executed: 0,
                most: BLOCKS as u8,
                grown: false,
                score: 0,
                chain: None,
            });
        }
    }

    #[cold]
    fn go_on(&mut self, block: usize, plans: &[Plan]) {
        let accesses: usize = (self.noted.iter())
            .map(|&block| plans[block as usize].block.script.len())
            .sum();
        if !plans[block].may_be_chained() || accesses + plans[block].block.script.len() > ACCESSES {
            self.end(plans);
            return;
        }
        self.noted.push(block as u32);
        if self.noted.len() == self.most {
            self.end(plans);
        }
    }

    /// The next execution is not regular, or unknown.
    pub(crate) fn end(&mut self, plans: &[Plan]) {
        let Some(&first) = self.noted.first() else {
            return;
        };
        let blocks: Vec<_> = self.noted.iter().map(|&block| block as usize).collect();
        self.noted.clear();
        let slot = &mut self.slots[first as usize];
        slot.executed = 0;
        if blocks.len() > 1 && plans[first as usize].may_be_chained() {
            slot.chain = Some(Box::new(Plan::chain(plans, &blocks, &self.numbers)));
        } else {
            slot.most = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::place::Code;
    use crate::thread::Thread;
    use pagelab_events::Batch;
    use pagelab_recorder_wire::block::{AddressFrom, Block, Branch, Entry, Source};
    use pagelab_recorder_wire::word::{ENTRY_SHIFT, Kind, SIZE_SHIFT};
    use proptest::prelude::*;

    /// An access: a store, its size, its place and what it depends on, as far as they fit.
    type Access = (bool, u32, u8, i64, [u8; 4]);

    fn source([one, other, registers, _]: [u8; 4], before: u16) -> Source {
        let own = |entry: u8| (u16::from(entry) < before).then_some(u16::from(entry));
        let registers = u32::from(registers % 8) << 2;
        let all = [own(one), own(other)].into_iter().flatten();
        let known = Source {
            registers,
            ..Source::NONE
        };
        all.fold(known, |all, entry| {
            let entries = [Some(entry), None];
            all.or(Source {
                entries,
                ..Source::NONE
            })
        })
    }

    /// A block at an address, with a branch that goes to `next` or behind it.
    fn block(number: u64, accesses: &[Access], updates: &[(u8, [u8; 4])], next: u64) -> Block {
        let mut script: Vec<Entry> = Vec::new();
        let loads: Vec<u16> = (0u16..)
            .zip(accesses)
            .filter(|(_, access)| !access.0)
            .map(|(at, _)| at)
            .collect();
        // Only loads produce anything.
        let made = |of: [u8; 4], before: u16| {
            let at = |entry: u8| {
                loads
                    .get(usize::from(entry))
                    .map_or(u8::MAX, |&at| at as u8)
            };
            source([at(of[0]), at(of[1]), of[2], of[3]], before)
        };
        for (at, &(store, size, base, offset, of)) in (0u16..).zip(accesses) {
            let reported = script
                .get(usize::from(base))
                .is_some_and(Entry::is_reported);
            script.push(Entry {
                instruction: at + u16::from(of[3] % 2),
                store,
                prefetch: !store && of[2] % 5 == 4,
                size: 1 << size,
                place: match of[3] % 3 {
                    0 if reported => AddressFrom::Relative {
                        entry: base.into(),
                        offset,
                    },
                    1 => AddressFrom::Fixed(0x7000 + offset as u64 % 64),
                    _ => AddressFrom::ReportedAlways,
                },
                producer: made(of, at),
                stored: if store {
                    made([of[1], of[0], of[3], 0], at)
                } else {
                    Source::NONE
                },
                alone: false,
            });
        }
        let count = script.len() as u16;
        let mut updates: Vec<_> = (updates.iter())
            .map(|&(register, of)| (register % 6, made(of, count)))
            .collect();
        updates.sort_by_key(|update| update.0);
        updates.dedup_by_key(|update| update.0);
        let pc = 0x1000 * number;
        Block {
            pc,
            last_pc: pc + 9,
            instructions: u32::from(count) + 2,
            reported: script
                .iter()
                .rposition(Entry::is_reported)
                .map_or(0, |last| last + 1),
            script,
            updates,
            branch: (!number.is_multiple_of(3)).then_some(Branch {
                next: pc + 11,
                target: Some(0x1000 * next),
                decided_by: made([0, 1, 7, 0], count),
            }),
            ..Block::default()
        }
    }

    /// Reports of the execution of the block of this number.
    fn report(block: &Block, number: usize, seed: u64, words: &mut Vec<u64>) {
        words.push(Kind::Block.word(number as u64));
        for (index, entry) in (0u64..)
            .zip(&block.script)
            .filter(|(_, entry)| entry.is_reported())
        {
            // Few places, so that loads find what was stored.
            let address = 0x7000 + (seed ^ index) % 8 * 8;
            let size = u64::from(entry.size.trailing_zeros());
            words.push(index << ENTRY_SHIFT | size << SIZE_SHIFT | address);
        }
    }

    /// Executions that are said to be of the same chain are regular, and of the same blocks with as many accesses.
    fn alike_is_alike(batch: &Batch) -> Result<(), TestCaseError> {
        let mut chains = HashMap::new();
        for alike in &batch.alike {
            let entries = alike.entry as usize..(alike.entry + alike.entries) as usize;
            let first = batch.flow[entries.start].0;
            let mut flow: Vec<_> = (batch.flow[entries.clone()].iter())
                .map(|&(at, block)| (at - first, Some(block)))
                .collect();
            let end = batch
                .flow
                .get(entries.end)
                .map_or(batch.len() as u32, |end| end.0);
            flow.push((end - first, None));
            prop_assert!(batch.regular[entries].iter().all(|&regular| regular));
            prop_assert_eq!(chains.entry(alike.chain).or_insert(flow.clone()), &flow);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn chains_record_what_their_blocks_do(
            blocks in proptest::collection::vec(
                (
                    proptest::collection::vec((any::<bool>(), 0u32..4, 0u8..3, -32i64..32, any::<[u8; 4]>()), 0..6),
                    proptest::collection::vec((any::<u8>(), any::<[u8; 4]>()), 0..5),
                ),
                2..6,
            ),
            ways in proptest::collection::vec(any::<u64>(), 1500),
        ) {
            let count = blocks.len() as u64;
            let plans: Vec<_> = (0..).zip(&blocks).map(|(number, (accesses, updates))| {
                let block = block(number, accesses, updates, (number + 1) % count);
                let mut plan = Plan::new(block, &[], &[]);
                plan.executed = true;
                plan.number(Code { block: number as u32, first_site: 100 * number as u32, last_site: 100 * number as u32 + 99 });
                plan
            }).collect();
            // Round and round, and now and then another way.
            let mut words = Vec::new();
            let mut number = 0;
            for &way in &ways {
                report(&plans[number].block, number, way >> 32, &mut words);
                number = if way.is_multiple_of(64) { way as usize / 64 } else { number + 1 } % plans.len();
            }
            let run = |chained: bool| {
                let mut thread = Thread::new(Arc::default());
                let mut batch = Batch::default();
                let mut taken = 0;
                let mut rest = words.as_slice();
                while !rest.is_empty() {
                    let mut end = rest.len();
                    if !chained {
                        // Block by block.
                        thread.forget_chains();
                        let next = rest[1..].iter().position(|word| word >> 63 == 1);
                        end = next.map_or(end, |next| next + 1);
                    }
                    let (used, chains) = thread.run_words(&rest[..end], &plans, &mut batch);
                    taken = chains;
                    rest = &rest[used..];
                }
                (batch, thread.instructions(), taken)
            };
            let (mut batch, instructions, chains) = run(true);
            prop_assert!(chains > 0);
            alike_is_alike(&batch)?;
            batch.alike.clear();
            prop_assert_eq!((batch, instructions, 0), run(false));
        }
    }
}
