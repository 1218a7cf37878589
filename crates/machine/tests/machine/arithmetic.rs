//! Chains of loads between which something is computed, in times that can be worked out by hand.

use crate::common::{BASE, close, machine, run};
use pagelab_events::{
    Access, Batch, CodeBlock, Control, Definition, Flow, Op, Source, SourceError,
};

/// Blocks that are executed one after the other, again and again. Each ends with a load from the
/// same line that waits for the one before.
struct Chain {
    blocks: Vec<Vec<&'static [u8]>>,
    times: u64,
}

const LOAD: &[u8] = &[0x48, 0x8b, 0x00]; // mov rax, [rax]
const ADD: &[u8] = &[0x48, 0x83, 0xc0, 0x08]; // add rax, 8
const OTHER: &[u8] = &[0x48, 0x83, 0xc1, 0x08]; // add rcx, 8
const INDEX: &[u8] = &[0x48, 0x8b, 0x04, 0xc1]; // mov rax, [rcx+rax*8]
const MULTIPLY: &[u8] = &[0x48, 0x0f, 0xaf, 0xc1]; // imul rax, rcx

impl Source for Chain {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.times == 0 {
            return Ok(false);
        }
        batch.push_control(Control::Thread { thread: 0 });
        batch.flow.push((0, Flow::Thread(0)));
        let mut sites = Vec::new();
        let mut known = 0;
        for code in &self.blocks {
            batch.definitions.push(Definition::Block(CodeBlock {
                pc: 0x40_0000 + u64::from(known) * 16,
                lengths: code.iter().map(|bytes| bytes.len() as u8).collect(),
                bytes: code.concat().into(),
                accesses: [code.len() as u16 - 1].into(),
                ..CodeBlock::default()
            }));
            known += code.len() as u32;
            sites.push((known - 1, code.len() as u32 - 1));
        }
        for time in 0..self.times {
            for (block, &(site, gap)) in sites.iter().enumerate() {
                let first = time == 0 && block == 0;
                let at = batch.site.len() as u32;
                batch.flow.push((at, Flow::Block(block as u32)));
                batch.site.push(site);
                batch.push(Access {
                    addr: BASE,
                    op: Op::load(8),
                    gap,
                    dep: u32::from(!first),
                });
            }
        }
        self.times = 0;
        Ok(true)
    }

    fn has_code(&self) -> bool {
        true
    }
}

/// Cycles a load of the chain.
fn a_load(blocks: &[&[&'static [u8]]], arithmetic: bool) -> f64 {
    let config = machine(&[
        &format!("core.arithmetic={arithmetic}"),
        "core.scaled_index=1",
    ]);
    let cycles = |times| {
        let mut chain = Chain {
            blocks: blocks.iter().map(|block| block.to_vec()).collect(),
            times,
        };
        run(&config, "ideal", &mut chain).cycles.elapsed as f64
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
        // What has nothing to do with the address takes no time.
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
