//! A stream as recordings are: functions of some blocks each, a few of which are called most of the time, and
//! accesses of which most hit.

use pagelab_events::{
    Access, Backing, Batch, CodeBlock, Control, Definition, Flow, Op, Protection,
};

/// Addresses of code and data.
const CODE: u64 = 0x40_0000;
const STACK: u64 = 0x7fff_0000_0000;
const HEAP: u64 = 0x5555_0000_0000;
const HEAP_BYTES: u64 = 32 << 20;

const FUNCTIONS: u64 = 4000;
/// Functions that are called often lie in as many pages as others: this has no divisor in common with their number.
const APART: u64 = 1237;
const ACCESSES: u64 = 400_000;
/// Accesses of a batch, about as many as a recording's have.
const BATCH: usize = 4096;

/// Numbers that look random: Knuth's MMIX generator.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = (self.0.wrapping_mul(6_364_136_223_846_793_005))
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) * most) >> 31
    }

    /// The same, but small ones are more frequent, by a power.
    fn skewed(&mut self, most: u64, power: i32) -> u64 {
        let unit = self.below(1 << 20) as f64 / f64::from(1 << 20);
        (unit.powi(power) * most as f64) as u64
    }
}

struct Block {
    /// The site of its first instruction.
    site: u32,
    instructions: u32,
    /// The instructions that access memory.
    accesses: Vec<u16>,
}

/// All blocks, and for each function the number of its first and how many it has.
struct Program {
    definitions: Vec<Definition>,
    blocks: Vec<Block>,
    functions: Vec<(u32, u32)>,
}

fn program(random: &mut Random) -> Program {
    let mut made = Program {
        definitions: Vec::new(),
        blocks: Vec::new(),
        functions: Vec::new(),
    };
    let (mut pc, mut site) = (CODE, 0);
    for _ in 0..FUNCTIONS {
        pc = pc.next_multiple_of(16);
        let count = 3 + random.below(9) as u32;
        made.functions.push((made.blocks.len() as u32, count));
        for _ in 0..count {
            let instructions = 1 + random.below(9) as u32;
            let lengths: Box<[u8]> = (0..instructions)
                .map(|_| 2 + random.below(6) as u8)
                .collect();
            let accesses: Vec<u16> = (0..instructions as u16)
                .filter(|_| random.below(3) == 0)
                .collect();
            let bytes: u64 = lengths.iter().copied().map(u64::from).sum();
            made.definitions.push(Definition::Block(CodeBlock {
                pc,
                lengths,
                accesses: accesses.clone().into(),
                ..CodeBlock::default()
            }));
            made.blocks.push(Block {
                site,
                instructions,
                accesses,
            });
            pc += bytes;
            site += instructions;
        }
    }
    made
}

fn address(random: &mut Random) -> u64 {
    match random.below(400) {
        0 => HEAP + random.below(HEAP_BYTES / 8) * 8,
        1..=40 => HEAP + random.skewed(1 << 15, 32) * 8,
        _ => STACK + random.skewed(256, 4) * 8,
    }
}

fn access(addr: u64, store: bool, gap: u32, dep: u32) -> Access {
    let op = if store { Op::store(8) } else { Op::load(8) };
    Access { addr, op, gap, dep }
}

fn map(addr: u64, len: u64) -> Control {
    Control::Map {
        addr,
        len,
        prot: Protection(Protection::READ | Protection::WRITE),
        backing: Backing::Anonymous,
        populate: true,
    }
}

/// The stream: a batch in which memory is mapped, and one in which the program ends, among them.
pub fn batches() -> Vec<Batch> {
    let random = &mut Random(1);
    let Program {
        definitions,
        blocks,
        functions,
    } = program(random);
    let thread = Control::Thread { thread: 0 };
    let mut first = Batch {
        definitions,
        ..Batch::default()
    };
    first.push_control(thread);
    first.push_control(map(HEAP, HEAP_BYTES));
    first.push_control(map(STACK, 1 << 20));
    // All code has been executed once, so that its pages are there, and whoever keeps something for
    // each instruction has the memory for that.
    first.flow.push((0, Flow::Thread(0)));
    first
        .flow
        .extend((0..blocks.len() as u32).map(|number| (0, Flow::Block(number))));
    first.push(access(STACK, false, 0, 0));
    first.site.push(blocks.last().map_or(0, |last| last.site));
    let mut batches = vec![first];
    let mut batch = Batch::default();
    let (mut done, mut gap) = (0, 0);
    while done < ACCESSES {
        let (start, count) = functions[(random.skewed(FUNCTIONS, 50) * APART % FUNCTIONS) as usize];
        let mut at = 0;
        while at < count {
            if batch.is_empty() {
                batch.push_control(thread);
                batch.flow.push((0, Flow::Thread(0)));
            }
            let number = start + at;
            batch.flow.push((batch.len() as u32, Flow::Block(number)));
            let block = &blocks[number as usize];
            let mut executed = 0;
            for &instruction in &block.accesses {
                let store = random.below(3) == 0;
                batch.site.push(block.site + u32::from(instruction));
                let since = gap + u32::from(instruction) - executed;
                let addr = address(random);
                batch.push(access(addr, store, since, random.below(4) as u32));
                (gap, executed) = (0, u32::from(instruction) + 1);
                done += 1;
            }
            gap += block.instructions - executed;
            if batch.len() >= BATCH {
                batches.push(std::mem::take(&mut batch));
            }
            // Mostly on, at times over a block, at times back a few.
            at = match random.below(8) {
                0 | 1 => at.saturating_sub(2),
                2 => at + 2,
                _ => at + 1,
            };
        }
    }
    batches.push(batch);
    let mut last = Batch::default();
    last.push_control(thread);
    last.push_control(Control::Exit { status: 0 });
    batches.push(last);
    batches
}
