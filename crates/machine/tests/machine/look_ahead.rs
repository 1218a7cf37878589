//! Look-ahead of a core whose registers run out, in times that can be worked out by hand.

use crate::common::{BASE, close, machine, run};
use pagelab_events::{
    Access, Batch, CodeBlock, Control, Definition, Flow, Op, Source, SourceError,
};

/// A block of instructions and a load, executed again and again; each load is of another line.
struct Loads {
    block: CodeBlock,
    left: Vec<u64>,
    begun: bool,
}

const LINES: u64 = 1 << 18;

impl Loads {
    /// 63 of such instructions before each load, over twice what the last level has, so many times.
    fn behind(instruction: &[u8], times: u64) -> Self {
        let mut code = vec![instruction; 63];
        code.push(&[0x48, 0x8b, 0x00]); // mov rax, [rax]
        Loads {
            block: CodeBlock {
                pc: 0x40_0000,
                lengths: code.iter().map(|bytes| bytes.len() as u8).collect(),
                bytes: code.concat().into(),
                accesses: [63].into(),
                ..CodeBlock::default()
            },
            left: (0..times).rev().collect(),
            begun: false,
        }
    }
}

impl Source for Loads {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let Some(_) = self.left.pop() else {
            return Ok(false);
        };
        if !self.begun {
            batch
                .definitions
                .push(Definition::Block(self.block.clone()));
            self.begun = true;
        }
        batch.push_control(Control::Thread { thread: 0 });
        batch.flow.push((0, Flow::Thread(0)));
        for line in 0..LINES {
            batch.flow.push((line as u32, Flow::Block(0)));
            batch.site.push(63);
            batch.push(Access {
                addr: BASE + line * 64,
                op: Op::load(8),
                gap: 63,
                dep: 0,
            });
        }
        Ok(true)
    }

    fn has_code(&self) -> bool {
        true
    }
}

#[test]
fn loads_wait_for_each_other_when_registers_run_out_between_them() {
    const ADD: &[u8] = &[0x01, 0xc8]; // add eax, ecx
    const CMP: &[u8] = &[0x39, 0xc8]; // cmp eax, ecx
    // After 36 cycles to memory, and 45 ns of 2.66 GHz.
    let latency = 36.0 + 45.0 * 2.66;
    for (instruction, registers, together) in [
        // An addition takes a register, and a load does.
        (ADD, "none", 8.0),
        (ADD, "128", 2.0),
        (ADD, "192", 3.0),
        (ADD, "512", 8.0),
        // A comparison takes none.
        (CMP, "128", 8.0),
        (CMP, "4", 4.0),
    ] {
        let registers = format!("core.execution.integer_registers={registers}");
        let config = machine(&[
            "dram.gigabytes_per_second=1000.0",
            "core.miss_buffers=64",
            "core.reorder_buffer=512",
            &registers,
        ]);
        let cycles = |times| {
            run(&config, "ideal", &mut Loads::behind(instruction, times))
                .cycles
                .elapsed
        };
        let a_load = (cycles(2) - cycles(1)) as f64 / LINES as f64;
        close(a_load, latency / together);
    }
}
