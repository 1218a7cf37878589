//! Processors of a machine, told block by block: a guest's. One runs at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pagelab_events::{Batch, Definition, Flow};
use pagelab_recorder_wire::block::{Block, Entry, Prefetch, Reporting};
use pagelab_recorder_wire::word::{ENTRY_SHIFT, Kind, SIZE_SHIFT};

use crate::PAGE;
use crate::code::CodeBook;
use crate::in_order::InARow;
use crate::plan::{Plan, execute};
use crate::reconvergence::Ways;
use crate::thread::{Stop, Thread};

/// Turns what processors execute into accesses, with their code, as those of a program's threads are.
#[derive(Default)]
pub struct Processor {
    /// The one that runs, and its number.
    on: OnProcessor,
    number: usize,
    /// By number; that of the one that runs is empty.
    others: Vec<OnProcessor>,
    plans: Vec<Plan>,
    ways: Ways,
    code: CodeBook,
    /// Addresses of the blocks of the code book.
    places: Vec<u64>,
    /// Pages of five levels of page tables, whose numbers have more bits than a word has room for: by those it has.
    far: HashMap<u64, u64>,
}

/// State of one processor.
struct OnProcessor {
    thread: Thread,
    in_kernel: bool,
    /// Words that are not read yet, and the block that was entered last with its next entry.
    words: Vec<u64>,
    entered: Option<usize>,
    next: usize,
}

/// Words are read when there are so many.
const MANY: usize = 1 << 14;
/// Bits of an address, which goes on as its upper one.
const ADDRESS: u64 = (1 << SIZE_SHIFT) - 1;

impl Default for OnProcessor {
    fn default() -> OnProcessor {
        OnProcessor {
            thread: Thread::new(Arc::default()),
            in_kernel: false,
            words: Vec::new(),
            entered: None,
            next: 0,
        }
    }
}

impl Processor {
    /// Code was translated, at this address, with the length of each instruction and their bytes; the block's number,
    /// from 0.
    pub fn translated(&mut self, pc: u64, lengths: &[u8], bytes: &[u8]) -> u32 {
        let block = Block::analyse(pc, lengths, bytes, Reporting::Verbatim);
        self.plans.push(Plan::new(block, lengths, bytes));
        (self.plans.len() - 1) as u32
    }

    /// Another processor goes on, of this number. What is said is of it from now on.
    pub fn go_on(&mut self, number: usize) {
        let processors = self.number.max(number) + 1;
        if self.others.len() < processors {
            self.others.resize_with(processors, OnProcessor::default);
        }
        std::mem::swap(&mut self.on, &mut self.others[self.number]);
        std::mem::swap(&mut self.on, &mut self.others[number]);
        self.number = number;
    }

    /// The block of this number is entered.
    pub fn enter(&mut self, number: u32) {
        if self.on.entered == Some(number as usize) && self.repeats(number as usize) {
            return;
        }
        self.leave();
        self.on.entered = Some(number as usize);
        self.on.next = 0;
        self.on.words.push(Kind::Block.word(number.into()));
    }

    /// True if a block is one instruction that moves or fills memory: by a clock that counts instructions QEMU enters
    /// it for each element, and what it does is one execution all the same.
    fn repeats(&self, number: usize) -> bool {
        let block = self.plans.get(number).map(|plan| &plan.block);
        block.is_some_and(|block| block.instructions == 1 && block.by_lines.is_some())
    }

    /// An instruction of the block accesses memory, so many bytes (their logarithm).
    pub fn access(&mut self, instruction: u16, store: bool, address: u64, log2: u8) {
        let Some(plan) = self.on.entered.and_then(|number| self.plans.get(number)) else {
            return;
        };
        let script = &plan.block.script;
        let first = script.partition_point(|entry| entry.instruction < instruction);
        let made = |entry: &Entry| {
            entry.instruction == instruction && entry.store == store && !entry.prefetch
        };
        // An access that is not in the script is the processor's own, as of a stack when it enters the kernel.
        let Some(at) = script[first..].iter().take(2).position(made) else {
            return;
        };
        let index = first + at;
        let before = (self.on.next..index).filter(|&at| script[at].prefetch);
        self.on.words.extend(before.map(prefetch));
        self.on.next = self.on.next.max(index + 1);
        if near(address) != address {
            let page = address & ADDRESS & !(PAGE - 1);
            self.far.insert(page, address & !(PAGE - 1));
        }
        let size = u64::from(log2 & 7) << SIZE_SHIFT;
        (self.on.words).push((index as u64) << ENTRY_SHIFT | size | address & ADDRESS);
    }

    /// The emulator makes no access of a prefetch: it is said to go nowhere.
    fn leave(&mut self) {
        let Some(plan) = self.on.entered.take().and_then(|at| self.plans.get(at)) else {
            return;
        };
        let rest = self.on.next..plan.block.script.len();
        if (plan.block.script[rest.clone()].iter()).all(|entry| entry.prefetch) {
            self.on.words.extend(rest.map(prefetch));
        }
    }

    /// True if it is time to read.
    pub fn is_full(&self) -> bool {
        self.on.words.len() >= MANY
    }

    /// Adds what was executed to a batch of a process. At a `switch` the processor goes on in another.
    pub fn read(&mut self, process: u32, switch: bool, batch: &mut Batch) {
        if switch {
            self.leave();
        }
        let (start, flow) = (batch.len(), batch.flow.len());
        let mut words = std::mem::take(&mut self.on.words);
        let mut row = InARow {
            words: &words,
            read: 0,
            is_final: switch,
        };
        loop {
            match (self.on.thread).read(&mut row, &self.plans, batch, MANY) {
                Stop::New(number) => self.meet(number, process, batch),
                Stop::Full => {}
                Stop::Empty | Stop::Message => break,
            }
        }
        let read = row.read;
        words.drain(..read);
        self.on.words = words;
        if switch {
            self.on.thread.finish_block(&self.plans, batch);
        }
        self.say_whose(batch, start, flow);
    }

    /// A block is executed for the first time.
    fn meet(&mut self, number: usize, process: u32, batch: &mut Batch) {
        execute(&mut self.plans, &mut self.ways, 0, number);
        let plan = &mut self.plans[number];
        self.code.define(plan, process, None, batch);
        let known = self.places.len();
        if plan.code.is_some_and(|code| code.block as usize >= known) {
            self.places.push(plan.block.pc);
        }
    }

    /// Functions of the kernel by name, each with its blocks, given where they begin, in order.
    pub fn functions(&self, symbols: &[(u64, String)]) -> Vec<Definition> {
        let mut blocks: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (block, &pc) in self
            .places
            .iter()
            .enumerate()
            .filter(|(_, pc)| is_kernel(**pc))
        {
            let after = symbols.partition_point(|&(start, _)| start <= pc);
            if let Some((_, name)) = after.checked_sub(1).and_then(|at| symbols.get(at)) {
                blocks.entry(name).or_default().push(block as u32);
            }
        }
        let named = blocks
            .into_iter()
            .map(|(name, blocks)| Definition::Function {
                name: name.to_owned(),
                blocks: blocks.into(),
            });
        named.collect()
    }

    fn whole(&self, address: u64) -> u64 {
        if self.far.is_empty() {
            return near(address);
        }
        match self.far.get(&(address & !(PAGE - 1))) {
            Some(page) => page | (address % PAGE),
            None => near(address),
        }
    }

    /// Gives addresses their upper bits, and the kernel its accesses.
    fn say_whose(&mut self, batch: &mut Batch, start: usize, flow: usize) {
        let mut at = start;
        let entries = batch.flow[flow..]
            .iter()
            .map(|&(at, entry)| (at, Some(entry)));
        for (end, entry) in entries.chain([(batch.addr.len() as u32, None)]) {
            for access in at..end as usize {
                batch.addr[access] = self.whole(batch.addr[access]);
                if self.on.in_kernel {
                    batch.op[access] = batch.op[access].by_kernel();
                }
            }
            at = end as usize;
            if let Some(Flow::Block(block)) = entry {
                self.on.in_kernel =
                    (self.places.get(block as usize)).is_some_and(|&pc| is_kernel(pc));
            }
        }
    }
}

fn is_kernel(pc: u64) -> bool {
    pc >> 63 != 0
}

/// An address of 48 bits with its upper ones, in four levels of page tables.
fn near(address: u64) -> u64 {
    ((address << 16) as i64 >> 16) as u64
}

fn prefetch(entry: usize) -> u64 {
    (entry as u64) << ENTRY_SHIFT | Prefetch::NOWHERE
}
