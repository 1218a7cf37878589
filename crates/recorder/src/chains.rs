//! Blocks that are mostly executed one after the other, recorded as if they were one.
//!
//! What a block does with registers is known beforehand, and so it is of several in a row: most of what
//! one loads, another uses. So where a thread comes to a block that it has executed often, the
//! blocks that it executes next are noted, and made into one plan. It is taken when the words say that
//! the thread has gone the same way again, and its branches were foreseen; else the blocks are taken one by one.

use pagelab_recorder_wire::block::{Block, Place, REGISTERS, Source};

use crate::plan::Plan;

/// A chain begins where a block was executed so often.
const OFTEN: u16 = 48;
/// The most blocks and accesses of a chain.
const BLOCKS: usize = 16;
const ACCESSES: usize = 64;
/// A chain is given up that failed so many times more often than it was taken.
const PATIENCE: i32 = 24;
/// How many times it counts when a chain is taken, at most.
const TRUST: i32 = 64;

/// The chains of a thread.
pub(crate) struct Chains {
    /// By the number of the first block.
    slots: Vec<Slot>,
    /// The blocks of the chain that is being noted.
    noted: Vec<u32>,
    most: usize,
}

struct Slot {
    executed: u16,
    /// The most blocks of a chain from here.
    most: u8,
    score: i32,
    chain: Option<Box<Plan>>,
}

impl Chains {
    pub(crate) fn new() -> Chains {
        Chains {
            slots: Vec::new(),
            noted: Vec::with_capacity(BLOCKS),
            most: 0,
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
        let slot = &mut self.slots[block];
        slot.score = (slot.score + 1).min(TRUST);
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

    /// What is executed next is not regular, or unknown.
    pub(crate) fn end(&mut self, plans: &[Plan]) {
        let Some(&first) = self.noted.first() else {
            return;
        };
        let blocks: Vec<_> = self.noted.iter().map(|&block| block as usize).collect();
        self.noted.clear();
        let slot = &mut self.slots[first as usize];
        slot.executed = 0;
        if blocks.len() > 1 && plans[first as usize].may_be_chained() {
            slot.chain = Some(Box::new(Plan::chain(plans, &blocks)));
        } else {
            slot.most = 0;
        }
    }
}

/// The blocks, executed one after the other, as one.
pub(crate) fn joined<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Block {
    let mut whole = Block::default();
    // What each register holds, of what there was at the beginning.
    let mut registers: [Source; REGISTERS] = std::array::from_fn(Source::register);
    for block in blocks {
        let first = whole.script.len() as u16;
        let behind = |source: Source, registers: &[Source; REGISTERS]| {
            let own = Source {
                entries: source.entries.map(|entry| Some(entry? + first)),
                registers: 0,
            };
            (registers.iter().enumerate())
                .filter(|(register, _)| source.registers & 1 << register != 0)
                .fold(own, |all, (_, &source)| all.or(source))
        };
        if first == 0 && whole.instructions == 0 {
            whole.pc = block.pc;
        }
        for entry in &block.script {
            let mut entry = *entry;
            entry.instruction += whole.instructions as u16;
            entry.producer = behind(entry.producer, &registers);
            entry.stored = behind(entry.stored, &registers);
            if let Place::Relative { entry, .. } = &mut entry.place {
                *entry += first;
            }
            whole.script.push(entry);
        }
        whole.branch = block.branch.clone().map(|mut branch| {
            branch.decided_by = behind(branch.decided_by, &registers);
            branch
        });
        let before = registers;
        for &(register, source) in &block.updates {
            registers[usize::from(register)] = behind(source, &before);
        }
        whole.last_pc = block.last_pc;
        whole.instructions += block.instructions;
    }
    whole.updates = (0..REGISTERS as u8)
        .zip(registers)
        .filter(|&(register, source)| source != Source::register(register.into()))
        .collect();
    whole
}
