//! Chains of loads between which something is computed, in times that can be worked out by hand.

use crate::common::{BASE, close, machine, run};
use pagelab_events::{
    Access, Batch, CodeBlock, Control, Definition, Flow, Op, Source, SourceError,
};
use pagelab_machine::simulate_programs;
use std::ops::ControlFlow;

type Code = Vec<&'static [u8]>;

const WITH: &str = "core.execution.arithmetic={}";
const WITHOUT: &str = "core.execution=none";

const LOAD: &[u8] = &[0x48, 0x8b, 0x00]; // mov rax, [rax]
const INDEX: &[u8] = &[0x48, 0x8b, 0x04, 0xc1]; // mov rax, [rcx+rax*8]
const ADD: &[u8] = &[0x48, 0x83, 0xc0, 0x08]; // add rax, 8
const OTHER: &[u8] = &[0x48, 0x83, 0xc1, 0x08]; // add rcx, 8
const APART: &[u8] = &[0x48, 0x8b, 0x13]; // mov rdx, [rbx]
const MULTIPLY: &[u8] = &[0x48, 0x0f, 0xaf, 0xc1]; // imul rax, rcx

/// Blocks that are executed one after the other, again and again. Each ends with a load from, or store to, the
/// same line that waits for the last one of its thread, unless they are independent.
struct Chain {
    blocks: Vec<Code>,
    independent: bool,
    op: Op,
    /// Each round is so many times all blocks by the first thread, then as many by the second, if there is one.
    times: u32,
    threads: u32,
    rounds: u32,
    /// Rounds that have been made.
    made: u32,
}

impl Chain {
    fn new(blocks: Vec<Code>, rounds: u32) -> Self {
        Chain {
            blocks,
            independent: false,
            op: Op::load(8),
            times: 1,
            threads: 1,
            rounds,
            made: 0,
        }
    }

    fn define(&self, batch: &mut Batch) {
        for (number, code) in self.blocks.iter().enumerate() {
            batch.definitions.push(Definition::Block(CodeBlock {
                pc: 0x40_0000 + number as u64 * 64,
                lengths: code.iter().map(|bytes| bytes.len() as u8).collect(),
                bytes: code.concat().into(),
                accesses: [code.len() as u16 - 1].into(),
                ..CodeBlock::default()
            }));
        }
    }

    /// A load by a block.
    fn load(&self, block: usize, first: bool, batch: &mut Batch) {
        let before: usize = self.blocks[..block].iter().map(Vec::len).sum();
        let gap = self.blocks[block].len() as u32 - 1;
        let at = batch.site.len() as u32;
        batch.flow.push((at, Flow::Block(block as u32)));
        batch.site.push(before as u32 + gap);
        batch.push(Access {
            addr: BASE,
            op: self.op,
            gap,
            dep: u32::from(!first && !self.independent),
        });
    }
}

impl Source for Chain {
    /// Some rounds a batch, not always as many.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.made == self.rounds {
            return Ok(false);
        }
        if self.made == 0 {
            self.define(batch);
        }
        let until = self.rounds.min(self.made + 1 + self.made % 97);
        for round in self.made..until {
            for thread in 0..self.threads {
                let at = batch.site.len() as u32;
                batch.push_control(Control::Thread { thread });
                batch.flow.push((at, Flow::Thread(thread)));
                // Threads have blocks of their own.
                let each = self.blocks.len() / self.threads as usize;
                let own = thread as usize * each..(thread as usize + 1) * each;
                for time in 0..self.times {
                    for block in own.clone() {
                        let first = round == 0 && time == 0 && block == own.start;
                        self.load(block, first, batch);
                    }
                }
            }
        }
        self.made = until;
        Ok(true)
    }

    fn has_code(&self) -> bool {
        true
    }
}

/// Cycles a load of the chain.
fn a_load(blocks: &[&[&'static [u8]]], arithmetic: bool) -> f64 {
    let keys = ["core.execution.arithmetic.scaled_index=1", WITHOUT];
    let config = machine(&keys[..if arithmetic { 1 } else { 2 }]);
    let cycles = |rounds| {
        let blocks = blocks.iter().map(|block| block.to_vec()).collect();
        let result = run(&config, "ideal", &mut Chain::new(blocks, rounds));
        result.cycles.elapsed as f64
    };
    (cycles(20_000) - cycles(10_000)) / 10_000.0 / blocks.len() as f64
}

#[test]
fn a_chain_takes_its_arithmetic() {
    // A load that hits the first level takes four cycles.
    for (blocks, cycles) in [
        (&[&[LOAD][..]][..], 4.0),
        (&[&[ADD, LOAD]], 5.0),
        (&[&[ADD, ADD, MULTIPLY, LOAD]], 9.0),
        // Instructions that have nothing to do with the address take no time.
        (&[&[OTHER, OTHER, ADD, OTHER, LOAD]], 5.0),
        (&[&[INDEX]], 5.0),
        (&[&[ADD, INDEX]], 6.0),
        // Half of the loads each.
        (&[&[ADD, ADD, LOAD], &[MULTIPLY, ADD, LOAD]], 4.0 + 3.0),
    ] {
        close(a_load(blocks, true), cycles);
        close(a_load(blocks, false), 4.0);
    }
}

/// Cycles a round of one block, whose load waits for none.
fn a_round(code: &[&'static [u8]], overrides: &[&str]) -> f64 {
    a_round_of(&[code], Op::load(8), overrides)
}

/// Cycles a round of some blocks, whose accesses wait for none.
fn a_round_of(blocks: &[&[&'static [u8]]], op: Op, overrides: &[&str]) -> f64 {
    let config = machine(overrides);
    let cycles = |rounds| {
        let blocks = blocks.iter().map(|block| block.to_vec()).collect();
        let mut chain = Chain {
            independent: true,
            op,
            ..Chain::new(blocks, rounds)
        };
        run(&config, "ideal", &mut chain).cycles.elapsed as f64
    };
    (cycles(20_000) - cycles(10_000)) / 10_000.0
}

#[test]
fn registers_take_their_arithmetic_without_a_load() {
    let chain = |code: &[&'static [u8]], arithmetic: bool| {
        a_round(code, &[if arithmetic { WITH } else { WITHOUT }])
    };
    // Four instructions are dispatched in a cycle; those that go from round to round take longer.
    for (code, cycles) in [
        (&[APART][..], 0.25),
        (&[MULTIPLY, APART], 3.0),
        (&[MULTIPLY, ADD, MULTIPLY, APART], 7.0),
        (&[ADD, OTHER, APART], 1.0),
        // A multiplication waits for the last one, and for an addition that goes on beside it.
        (&[OTHER, MULTIPLY, APART], 3.0),
        // Begun anew each time, these overlap.
        (&[&[0x31, 0xc0], MULTIPLY, MULTIPLY, APART], 1.0),
    ] {
        close(chain(code, true), cycles);
        close(chain(code, false), code.len() as f64 / 4.0);
    }
}

const STORE: &[u8] = &[0x48, 0x89, 0x13]; // mov [rbx], rdx
const INCREMENT: &[u8] = &[0x48, 0xff, 0x03]; // inc qword ptr [rbx]
const LOCKED: &[u8] = &[0xf0, 0x48, 0xff, 0x03]; // lock inc qword ptr [rbx]

#[test]
fn a_locked_instruction_holds_the_stores_behind_it() {
    let stores = |blocks: &[&[&'static [u8]]], atomics: u32, ports: u32| {
        let keys = [
            WITH,
            "core.execution.arithmetic.forwarding=0",
            &format!("core.execution.arithmetic.atomics={atomics}"),
            &format!("core.store_ports={ports}"),
        ];
        a_round_of(blocks, Op::store(8), &keys)
    };
    close(stores(&[&[STORE]], 20, 1), 1.0);
    close(stores(&[&[STORE]], 20, 2), 0.5);
    close(stores(&[&[LOCKED]], 20, 1), 20.0);
    close(stores(&[&[LOCKED]], 20, 2), 20.0);
    close(stores(&[&[LOCKED]], 0, 1), 1.0);
    // Instructions that take longer hide it.
    let longer = [&[MULTIPLY; 7][..], &[LOCKED]].concat();
    close(stores(&[&longer], 20, 1), 21.0);
    // A store in front of each is written before it.
    close(stores(&[&[STORE], &[LOCKED]], 20, 1), 21.0);
}

#[test]
fn what_was_stored_is_loaded_again_by_forwarding() {
    let an_increment = |keys: &[&str]| {
        let keys = [&[WITH], keys].concat();
        a_round_of(&[&[INCREMENT]], Op::store(8), &keys)
    };
    // A hit of the first level and an addition.
    close(an_increment(&[]), 4.0 + 1.0);
    close(
        an_increment(&["core.execution.arithmetic.forwarding=6"]),
        6.0 + 1.0,
    );
    close(
        an_increment(&["core.execution.arithmetic.forwarding=0"]),
        1.0,
    );
    close(
        an_increment(&["core.execution.arithmetic.vector_forwarding=0"]),
        4.0 + 1.0,
    );
}

#[test]
fn independent_instructions_wait_for_what_there_is_one_of() {
    const DIVIDE: &[u8] = &[0xc5, 0xf3, 0x5e, 0xc2]; // vdivsd xmm0, xmm1, xmm2
    const SUM: &[u8] = &[0xc5, 0xf3, 0x58, 0xc2]; // vaddsd xmm0, xmm1, xmm2
    const BOTH: &[u8] = &[0xc4, 0xe2, 0xf1, 0xb9, 0xc2]; // vfmadd231sd xmm0, xmm1, xmm2
    const CLEAR: &[u8] = &[0xc5, 0xf9, 0x57, 0xc0]; // vxorpd xmm0, xmm0, xmm0
    let wide = [WITH, "core.width=8"];
    let a_load = |code: &[&'static [u8]]| a_round(&[code, &[APART]].concat(), &wide);
    close(a_load(&[DIVIDE]), 4.0);
    close(a_load(&[SUM, SUM, SUM, SUM]), 2.0);
    close(a_load(&[CLEAR, BOTH, CLEAR, BOTH]), 1.0);
    // A chain takes its latencies.
    close(a_load(&[BOTH, BOTH]), 8.0);
    // Adders beside multipliers.
    close(a_load(&[CLEAR, BOTH, SUM, CLEAR, BOTH, SUM]), 1.0);
}

#[test]
fn each_thread_on_a_core_has_its_own() {
    let config = machine(&[WITH]);
    let cycles = |rounds| {
        let mut chain = Chain {
            times: 4,
            threads: 2,
            ..Chain::new(vec![vec![ADD, LOAD], vec![MULTIPLY, LOAD]], rounds)
        };
        run(&config, "ideal", &mut chain).cycles.elapsed as f64
    };
    // Four loads of either thread at a time, and all of the one are done before the other's.
    let a_round = (cycles(4_000) - cycles(2_000)) / 2_000.0;
    close(a_round, 4.0 * (4.0 + 3.0));
}

#[test]
fn each_program_has_its_own() {
    let config = machine(&[WITH, "cores=2"]);
    let mut programs = [vec![ADD, LOAD], vec![MULTIPLY, MULTIPLY, LOAD]]
        .map(|block| Chain::new(vec![block], 20_000));
    let [one, other] = &mut programs;
    let mut go_on = |_: pagelab_machine::Progress| ControlFlow::Continue(());
    let result = simulate_programs(&config, "ideal", &mut [one, other], &mut go_on).unwrap();
    let cycles: Vec<u64> = result.per_core.iter().map(|core| core.cycles).collect();
    close(cycles[0] as f64 / 20_000.0, 4.0 + 1.0);
    close(cycles[1] as f64 / 20_000.0, 4.0 + 6.0);
}

/// A load, then batches that execute a block and access nothing, and another load.
struct FarApart {
    block: Code,
    /// Executions of the block in each batch, and in all.
    times: u32,
    executions: u32,
    /// Batches that have been made.
    made: u32,
}

impl FarApart {
    fn load(batch: &mut Batch, gap: u32) {
        batch.flow.push((batch.site.len() as u32, Flow::Block(0)));
        batch.site.push(0);
        batch.push(Access {
            addr: BASE,
            op: Op::load(8),
            gap,
            dep: 0,
        });
    }
}

impl Source for FarApart {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let executed = self.times * self.made;
        self.made += 1;
        if executed > self.executions {
            return Ok(false);
        }
        batch.flow.push((0, Flow::Thread(0)));
        if executed == 0 {
            for (pc, code) in [(0x40_0000, &vec![APART]), (0x40_1000, &self.block)] {
                batch.definitions.push(Definition::Block(CodeBlock {
                    pc,
                    lengths: code.iter().map(|bytes| bytes.len() as u8).collect(),
                    bytes: code.concat().into(),
                    ..CodeBlock::default()
                }));
            }
            Self::load(batch, 0);
        }
        let at = batch.site.len() as u32;
        for _ in executed..self.executions.min(executed + self.times) {
            batch.flow.push((at, Flow::Block(1)));
        }
        if executed + self.times > self.executions {
            Self::load(batch, self.executions * self.block.len() as u32);
        }
        Ok(true)
    }

    fn has_code(&self) -> bool {
        true
    }
}

#[test]
fn what_is_computed_far_from_any_access_takes_its_time() {
    let cycles_of = |block: &Code, overrides: &[&str], executions| {
        let mut source = FarApart {
            block: block.clone(),
            times: 700,
            executions,
            made: 0,
        };
        run(&machine(overrides), "ideal", &mut source)
            .cycles
            .elapsed as f64
    };
    let each = |block: Code, overrides: &[&str]| {
        let cycles = |executions| cycles_of(&block, overrides, executions);
        (cycles(20_000) - cycles(10_000)) / 10_000.0
    };
    let with = [WITH, "core.reorder_buffer=100"];
    close(each(vec![MULTIPLY, ADD], &with), 4.0);
    close(each(vec![MULTIPLY, ADD], &[WITHOUT]), 0.5);
    // Begun anew each time, chains of 25 instructions overlap, as many as the reorder buffer holds: 14.65 cycles
    // each, by the dispatch and retirement of each instruction.
    let mut chain = vec![MULTIPLY; 24];
    chain.insert(0, &[0x31, 0xc0]);
    let overlapping = each(chain, &with);
    assert!((14.0..15.3).contains(&overlapping), "{overlapping}");
}
